package resp

// splitInline splits an inline command, a line as people type it, into spans. The line lies at
// `offset` of the buffer. Double quotes take Redis's escapes, such as \n and \x00. Single quotes
// take only the escaped single quote. The line is unescaped in place. The answer is false if there
// are no words.
func (f *frames) splitInline(line []byte, offset int) (bool, error) {
	before := len(f.spans)
	for i := 0; i < len(line); {
		if isSpace(line[i]) {
			i++
			continue
		}
		if len(f.spans)-before >= f.commandArguments {
			return false, protocolError("too many arguments")
		}
		length, used, ok := unquote(line[i:])
		if !ok {
			return false, protocolError("unbalanced quotes in request")
		}
		f.spans = append(f.spans, span{int32(offset + i), int32(length)})
		i += used
	}
	return len(f.spans) > before, nil
}

// unquote unescapes the first word of text in place. It gives the word's length, and how many bytes
// it had before.
func unquote(text []byte) (length, used int, ok bool) {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		char := text[i]
		switch {
		case quote == 0 && isSpace(char):
			return length, i, true
		case quote == 0 && (char == '"' || char == '\''):
			quote = char
			continue
		case quote != 0 && char == quote:
			if i+1 < len(text) && !isSpace(text[i+1]) {
				return 0, 0, false
			}
			return length, i + 1, true
		case quote == '"' && char == '\\' && i+1 < len(text):
			var taken int
			char, taken = unescape(text[i+1:])
			i += taken
		case quote == '\'' && char == '\\' && i+1 < len(text) && text[i+1] == '\'':
			char = '\''
			i++
		}
		text[length] = char
		length++
	}
	return length, len(text), quote == 0
}

// unescape reads what follows a backslash. It gives the byte, and how many bytes it read.
func unescape(text []byte) (byte, int) {
	switch text[0] {
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'b':
		return '\b', 1
	case 'a':
		return '\a', 1
	case 'x':
		if len(text) >= 3 {
			high, low := hexDigit(text[1]), hexDigit(text[2])
			if high >= 0 && low >= 0 {
				return byte(high<<4 | low), 3
			}
		}
	}
	return text[0], 1
}

func hexDigit(char byte) int {
	switch {
	case char >= '0' && char <= '9':
		return int(char - '0')
	case char >= 'a' && char <= 'f':
		return int(char-'a') + 10
	case char >= 'A' && char <= 'F':
		return int(char-'A') + 10
	}
	return -1
}

func isSpace(char byte) bool { return char == ' ' || char == '\t' || char == '\r' }
