package resp

import (
	"bytes"
	"fmt"
	"math"
)

// protocolError is a request that cannot be parsed. The connection is closed after the reply.
type protocolError string

func (err protocolError) Error() string { return "ERR Protocol error: " + string(err) }

// errInlineLong also bounds headers, which are lines as well.
const errInlineLong = protocolError("too big inline request")

// span is an argument's place in the buffer.
type span struct{ offset, length int32 }

// frame is a command of a round: arguments from spans[first] up to spans[last]. A command whose
// bytes found no room has no spans and is `dropped`.
type frame struct {
	first, last int
	dropped     bool
}

// frames parses requests step by step, and never looks at a byte of an argument twice. Memory grows
// with bytes that arrived, never with lengths that were declared. One goroutine uses it.
//
// buffer[0:end] is what was received. Commands of the round come first, then the command under way.
// That one begins at `start` and is parsed up to `position`.
type frames struct {
	buffer   []byte
	end      int
	start    int
	position int

	spans    []span
	commands []frame

	argumentsLeft int // of the command under way; -1: its header has not come
	// Of the argument that comes next; -1: its header has not come. While discarding: how many of
	// its bytes are left, its line end included.
	argumentLength int
	discarding     bool
	discardedBytes int // of the command under way, dropped from the buffer

	commandBytes, commandArguments int // limits of one command
}

func (f *frames) reset() {
	f.argumentsLeft, f.argumentLength = -1, -1
}

// partial tells whether a part of a command is buffered.
func (f *frames) partial() bool { return f.end > f.start || f.argumentsLeft >= 0 }

// nextRound forgets the commands of the round and moves what follows them to the buffer's front.
func (f *frames) nextRound() {
	kept := 0
	if len(f.commands) > 0 {
		kept = copy(f.spans, f.spans[f.commands[len(f.commands)-1].last:])
		f.spans = f.spans[:kept]
		f.commands = f.commands[:0]
	}
	f.moveFront(f.start)
}

// moveFront drops the first `count` bytes of the buffer, which no span of the command under way
// needs.
func (f *frames) moveFront(count int) {
	if count == 0 {
		return
	}
	copy(f.buffer, f.buffer[count:f.end])
	f.end -= count
	f.start -= count
	f.position -= count
	for i := range f.spans {
		f.spans[i].offset -= int32(count)
	}
}

// discard makes the command under way a dropped one: its arguments are read and forgotten. The
// round may have no commands.
func (f *frames) discard() {
	f.discarding = true
	f.spans = f.spans[:0]
	if f.argumentLength >= 0 {
		f.argumentLength += 2
	}
	f.dropParsed()
}

func (f *frames) dropParsed() {
	f.discardedBytes += f.position - f.start
	f.start = f.position
	f.moveFront(f.start)
}

// parse takes one command out of the buffer. It answers false if the command's end is not there.
func (f *frames) parse() (bool, error) {
	for {
		if f.argumentsLeft < 0 {
			done, more, err := f.parseHead()
			if done || err != nil {
				return done, err
			}
			if more {
				return false, nil
			}
			continue
		}
		if f.argumentsLeft == 0 {
			f.finish()
			return true, nil
		}
		if ok, err := f.parseArgument(); err != nil || !ok {
			return false, err
		}
	}
}

// finish ends the command under way.
func (f *frames) finish() {
	first := 0
	if len(f.commands) > 0 {
		first = f.commands[len(f.commands)-1].last
	}
	f.commands = append(f.commands, frame{first, len(f.spans), f.discarding})
	f.start = f.position
	f.discarding = false
	f.discardedBytes = 0
	f.reset()
}

// parseHead reads "*count\r\n" or a whole inline command. `done`: an inline command was read.
// `more`: more bytes are needed. Neither: the head was read, or an empty command was skipped.
func (f *frames) parseHead() (done, more bool, err error) {
	if f.position == f.end {
		return false, true, nil
	}
	line, err := f.line(BaseBufferBytes)
	if err != nil || line == nil {
		return false, line == nil, err
	}
	if line[0] == '*' {
		count, ok := parseLength(trimReturn(line[1:]), f.commandArguments)
		if !ok {
			return false, false, protocolError("invalid multibulk length")
		}
		if count <= 0 {
			f.start = f.position // Redis skips empty commands, too.
			return false, false, nil
		}
		f.argumentsLeft, f.argumentLength = count, -1
		return false, false, nil
	}
	found, err := f.splitInline(trimReturn(line[:len(line)-1]), f.position-len(line))
	if err != nil || !found {
		f.start = f.position
		return false, false, err
	}
	f.finish()
	return true, false, nil
}

// line takes a line and its '\n' from the buffer; nil if its end is not there.
func (f *frames) line(limit int) ([]byte, error) {
	rest := f.buffer[f.position:f.end]
	length := bytes.IndexByte(rest, '\n') + 1
	if length > limit || length == 0 && len(rest) >= limit {
		return nil, errInlineLong
	}
	if length == 0 {
		return nil, nil
	}
	f.position += length
	return rest[:length:length], nil
}

// parseArgument reads "$length\r\n" and the argument behind it.
func (f *frames) parseArgument() (bool, error) {
	if f.argumentLength < 0 {
		if f.position < f.end && f.buffer[f.position] != '$' {
			return false, protocolError(fmt.Sprintf("expected '$', got %q", f.buffer[f.position]))
		}
		line, err := f.line(32)
		if err != nil {
			return false, protocolError("invalid bulk length")
		}
		if line == nil {
			return false, nil
		}
		length, ok := parseLength(trimReturn(line[1:]), math.MaxInt32)
		if !ok || length < 0 {
			return false, protocolError("invalid bulk length")
		}
		if f.discardedBytes+f.position-f.start+length+2 > f.commandBytes {
			return false, protocolError(fmt.Sprintf(
				"invalid bulk length: a command has at most %d bytes", f.commandBytes))
		}
		f.argumentLength = length
		if f.discarding {
			f.argumentLength += 2
		}
	}
	if f.discarding {
		return f.skipArgument(), nil
	}
	last := f.position + f.argumentLength
	if f.end < last+2 {
		return false, nil
	}
	if f.buffer[last] != '\r' || f.buffer[last+1] != '\n' {
		return false, protocolError("invalid bulk length")
	}
	f.spans = append(f.spans, span{int32(f.position), int32(f.argumentLength)})
	f.position = last + 2
	f.argumentsLeft--
	f.argumentLength = -1
	return true, nil
}

// skipArgument drops what is there of an argument, and its line end. It answers whether it dropped
// all of it.
func (f *frames) skipArgument() bool {
	skipped := min(f.argumentLength, f.end-f.position)
	f.position += skipped
	f.argumentLength -= skipped
	f.dropParsed()
	if f.argumentLength > 0 {
		return false
	}
	f.argumentsLeft--
	f.argumentLength = -1
	return true
}

// arguments resolves the round's commands into slices of the buffer, appended to `slices`. The
// arguments of command i are slices[commands[i].first:commands[i].last].
func (f *frames) arguments(slices [][]byte) [][]byte {
	for _, s := range f.spans[:f.commands[len(f.commands)-1].last] {
		slices = append(slices, f.buffer[s.offset:s.offset+s.length:s.offset+s.length])
	}
	return slices
}

// trimReturn takes the line end off: "\n", "\r\n", "\r" or none.
func trimReturn(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// parseLength reads a decimal number of at most `limit`.
func parseLength(text []byte, limit int) (int, bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) == 0 || len(text) > 10 {
		return 0, false
	}
	number := 0
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		number = number*10 + int(digit-'0')
	}
	if number > limit {
		return 0, false
	}
	if negative {
		number = -number
	}
	return number, true
}
