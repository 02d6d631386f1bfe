// Package wire is a RESP client that tells exactly how far a request came. It never retries, has no
// pool, and sends a request by one call. The checker needs this to know which requests may have
// been done. A Conn belongs to one goroutine at a time.
package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Limits of a reply. They keep a broken server from filling the client's memory.
const (
	maxBulkBytes    = 1 << 20
	maxArrayEntries = 1 << 16
)

// ErrProtocol says that a reply is not RESP.
var ErrProtocol = errors.New("the reply is not RESP")

// ErrorReply is the text of an error reply of the server.
type ErrorReply string

// Error gives the text that the server sent.
func (e ErrorReply) Error() string { return string(e) }

// Outcome says what a request did, as far as its client can know.
type Outcome uint8

const (
	// Done: the server acknowledged the request.
	Done Outcome = iota
	// Refused: the server said that it did nothing, or the request was never sent.
	Refused
	// Unknown: the request may have been done, may still be done, or may never be.
	Unknown
	// Unexpected: the server sent an error reply that its contract does not have for this request.
	Unexpected
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"done", "refused", "unknown", "unexpected"}[o]
}

// MarshalText names the outcome in JSON.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Classify gives the outcome of a request that Do has answered with err.
func Classify(err error) Outcome {
	var reply ErrorReply
	if err == nil {
		return Done
	}
	if !errors.As(err, &reply) {
		return Unknown
	}
	word, _, _ := strings.Cut(string(reply), " ")
	switch word {
	case "UNKNOWN":
		return Unknown
	case "BUSY", "UNAVAILABLE", "FULL", "LOADING":
		return Refused
	}
	return Unexpected
}

// Dialer says how clients reach one node.
type Dialer struct {
	Address string
	Timeout time.Duration // of the connection's set-up, and of each request
}

// Conn is one connection to a node.
type Conn struct {
	conn    net.Conn
	reader  *bufio.Reader
	timeout time.Duration
}

// Dial connects. A failed Dial has done nothing.
func (d Dialer) Dial(ctx context.Context) (*Conn, error) {
	dialer := net.Dialer{Timeout: d.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", d.Address)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: conn, reader: bufio.NewReaderSize(conn, 1<<14), timeout: d.Timeout}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Do sends a request and waits for its reply: nil, string, []byte, int64, or []any of these.
// An error reply comes as ErrorReply. After any other error the connection must be closed, and
// the request may have been done.
func (c *Conn) Do(args ...[]byte) (any, error) {
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(Request(args...)); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	reply, err := c.read(0)
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	if refusal, ok := reply.(ErrorReply); ok {
		return nil, refusal
	}
	return reply, nil
}

// Request gives the bytes of a request.
func Request(args ...[]byte) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		out = fmt.Appendf(out, "$%d\r\n", len(arg))
		out = append(append(out, arg...), '\r', '\n')
	}
	return out
}

func (c *Conn) read(depth int) (any, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || depth > 4 {
		return nil, ErrProtocol
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return ErrorReply(text), nil
	case ':':
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return number, nil
	case '$':
		return c.readBulk(text)
	case '*':
		return c.readArray(text, depth)
	}
	return nil, fmt.Errorf("%w: it starts with %q", ErrProtocol, kind)
}

func (c *Conn) readBulk(text string) (any, error) {
	size, err := strconv.Atoi(text)
	if err != nil || size < -1 || size > maxBulkBytes {
		return nil, fmt.Errorf("%w: a string of %q bytes", ErrProtocol, text)
	}
	if size == -1 {
		return nil, nil
	}
	bulk := make([]byte, size+2)
	if _, err := io.ReadFull(c.reader, bulk); err != nil {
		return nil, err
	}
	return bulk[:size], nil
}

func (c *Conn) readArray(text string, depth int) (any, error) {
	count, err := strconv.Atoi(text)
	if err != nil || count < -1 || count > maxArrayEntries {
		return nil, fmt.Errorf("%w: an array of %q entries", ErrProtocol, text)
	}
	if count == -1 {
		return nil, nil
	}
	array := make([]any, count)
	for i := range array {
		if array[i], err = c.read(depth + 1); err != nil {
			return nil, err
		}
	}
	return array, nil
}
