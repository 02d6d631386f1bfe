package resp

// matchGlob tells whether text matches a pattern of Redis: `*`, `?`, `[a-z]`, `[^a]` and `\`. It
// takes time proportional to the product of both lengths.
func matchGlob(pattern, text []byte) bool {
	star, starText := -1, 0 // behind the last `*`, and what it has matched up to
	p, t := 0, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, starText = p, t
			continue
		}
		if p < len(pattern) {
			if used, ok := matchOne(pattern[p:], text[t]); ok {
				p += used
				t++
				continue
			}
		}
		if star < 0 {
			return false
		}
		starText++
		p, t = star, starText
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte with the pattern's first element. It gives the element's length.
func matchOne(pattern []byte, char byte) (used int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return matchClass(pattern, char)
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == char
		}
	}
	return 1, pattern[0] == char
}

// matchClass matches a byte with the class that the pattern begins with. A class without its `]`
// ends with the pattern.
func matchClass(pattern []byte, char byte) (used int, ok bool) {
	i := 1
	negated := i < len(pattern) && pattern[i] == '^'
	if negated {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
			ok = ok || pattern[i] == char
			continue
		}
		if i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']' {
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			ok = ok || low <= char && char <= high
			i += 2
			continue
		}
		ok = ok || pattern[i] == char
	}
	return min(i+1, len(pattern)), ok != negated
}
