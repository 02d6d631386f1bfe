package resp

import (
	"bytes"
	"testing"

	"engine_race/cluster/service"
)

// FuzzScanAndRange reads arguments of SCAN and RANGE: no panic, and bounds that hold.
func FuzzScanAndRange(f *testing.F) {
	for _, seed := range []string{"SCAN 0", "SCAN 5 MATCH k* COUNT 9", "RANGE - + LIMIT 7",
		"RANGE k0000001 k0000002", "SCAN 18446744073709551615 COUNT 99999999999"} {
		f.Add([]byte(seed), []byte("k0000001"))
	}
	f.Fuzz(func(t *testing.T, line, text []byte) {
		arguments := bytes.Split(line, []byte(" "))
		if len(arguments) >= 2 {
			parsed, err := parseScan(arguments)
			if err == nil && (parsed.count < 1 || parsed.count > MaxScanKeys) {
				t.Errorf("COUNT %d", parsed.count)
			}
			if err == nil && parsed.pattern != nil {
				matchGlob(parsed.pattern, text)
			}
		}
		if len(arguments) >= 3 {
			s := sizesOf(service.DefaultValueBytes)
			parsed, err := s.parseRange(arguments)
			if err == nil && (parsed.limit < 1 || parsed.limit > s.maxRangeRecords) {
				t.Errorf("LIMIT %d", parsed.limit)
			}
		}
	})
}

// FuzzFrames parses bytes that come in parts: the commands may not depend on the parts.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{"PING\r\n", "*1\r\n$4\r\nPING\r\n", "echo \"a\\x41\"\n*0\r\n",
		"*2\r\n$3\r\nGET\r\n$8\r\nk0000001\r\n*1\r\n$4\r\nPING\r\n", "*1\r\n$9223372036854775807\r\n"} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, input []byte, part uint8) {
		whole, wholeErr := parseParts(input, max(1, len(input)), false)
		parts, partsErr := parseParts(input, int(part)+1, false)
		if whole != parts || (wholeErr == nil) != (partsErr == nil) {
			t.Errorf("whole %q %v, in parts %q %v", whole, wholeErr, parts, partsErr)
		}
		_, _ = parseParts(input, int(part)+1, true)
	})
}

// parseParts parses input that comes `part` bytes at a time, and gives a text of all commands.
// With discard it drops commands that are under way.
func parseParts(input []byte, part int, discard bool) (string, error) {
	parser := frames{commandBytes: 16 << 10, commandArguments: 64}
	parser.reset()
	parser.buffer = make([]byte, 2*BaseBufferBytes+len(input))
	var text bytes.Buffer
	for {
		count := min(part, len(input))
		copy(parser.buffer[parser.end:], input[:count])
		parser.end += count
		input = input[count:]
		for {
			done, err := parser.parse()
			if err != nil {
				return text.String(), err
			}
			if !done {
				break
			}
			last := parser.commands[len(parser.commands)-1]
			for _, argument := range parser.arguments(nil)[last.first:last.last] {
				text.WriteString(string(argument) + "|")
			}
			text.WriteString("\n")
		}
		parser.nextRound()
		if discard && parser.argumentsLeft >= 0 && !parser.discarding {
			parser.discard()
		}
		if count == 0 {
			return text.String(), nil
		}
	}
}
