package respload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"engine_race/cluster/bench/load"
)

// bufferBytes is for several answers. A buffer holds one of any size.
const bufferBytes = 64 << 10

// client has one connection, which it makes again after a failure. Writes block, reads do not.
type client struct {
	calls   *load.Client
	number  int
	address string
	local   bool // READONLY
	// valueBytes is the size of values, and valueHeader the line before one.
	valueBytes  int
	valueHeader []byte

	epoll  int
	file   *os.File // nil: there is no connection
	socket int

	text       []byte // of the requests of one call
	buffer     []byte // of answers
	begin, end int    // of what was received and not yet looked at

	// The call under way: its keys, and how many of them have an answer.
	calling     bool
	reads       bool
	keys        []uint64
	answered    int
	missing     int
	refused     error
	sent, ended time.Time
	resumes     time.Time // of a client that pauses
}

func (c *client) close() {
	if c.file != nil {
		_ = c.file.Close()
		c.file, c.socket = nil, -1
	}
}

// connect makes the connection. READONLY's answer is read before any other.
func (c *client) connect() error {
	conn, err := net.DialTimeout("tcp", c.address, dialTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	// File gives a descriptor of its own, which the poller of Go's runtime does not know.
	if c.file, err = conn.(*net.TCPConn).File(); err != nil {
		return err
	}
	c.socket, c.begin, c.end = int(c.file.Fd()), 0, 0
	limit := unix.NsecToTimeval(int64(callTimeout))
	if err := errors.Join(
		unix.SetNonblock(c.socket, false),
		unix.SetsockoptTimeval(c.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptTimeval(c.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
	); err != nil {
		return err
	}
	if c.local {
		if err := c.send(appendRequest(nil, []byte("READONLY"))); err != nil {
			return err
		}
		answer := make([]byte, len("+OK\r\n"))
		if _, _, err := unix.Recvfrom(c.socket, answer, unix.MSG_WAITALL); err != nil {
			return fmt.Errorf("READONLY: %w", err)
		}
		if string(answer) != "+OK\r\n" {
			return fmt.Errorf("the server answered READONLY with %q", answer)
		}
	}
	return unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, c.socket,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.number)})
}

func (c *client) send(text []byte) error {
	for len(text) > 0 {
		n, err := unix.Write(c.socket, text)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("write: %w", err)
		}
		text = text[max(n, 0):]
	}
	return nil
}

func appendRequest(to []byte, words ...[]byte) []byte {
	to = append(to, '*')
	to = strconv.AppendInt(to, int64(len(words)), 10)
	for _, word := range words {
		to = append(to, "\r\n$"...)
		to = strconv.AppendInt(to, int64(len(word)), 10)
		to = append(to, "\r\n"...)
		to = append(to, word...)
	}
	return append(to, "\r\n"...)
}

// call sends a GET for each key in one piece, or a SET if there is a value.
func (c *client) call(keys []uint64, value []byte) error {
	c.keys, c.reads, c.answered, c.missing, c.refused = keys, value == nil, 0, 0, nil
	c.text = c.text[:0]
	var text [load.KeyBytes]byte
	for _, key := range keys {
		binary.BigEndian.PutUint64(text[:], key)
		if c.reads {
			c.text = appendRequest(c.text, []byte("GET"), text[:])
		} else {
			c.text = appendRequest(c.text, []byte("SET"), text[:], value)
		}
	}
	c.sent = time.Now()
	if c.file == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	c.calling = true
	return c.send(c.text)
}

// refusalError is an error that the server sent. The connection is still in order.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// receive reads once, and looks at the answers that have come. It says whether the call is done.
func (c *client) receive() (done bool, err error) {
	if c.file == nil {
		return false, nil // An event of a connection that was closed meanwhile.
	}
	if c.begin > 0 {
		c.end = copy(c.buffer, c.buffer[c.begin:c.end])
		c.begin = 0
	}
	n, _, err := unix.Recvfrom(c.socket, c.buffer[c.end:], unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read: %w", err)
	case n == 0:
		return false, errors.New("the server closed the connection")
	case !c.calling:
		return false, errors.New("the server answered without a request")
	}
	c.end += n
	for c.answered < len(c.keys) {
		there, err := c.takeAnswer(c.keys[c.answered])
		var refusal refusalError
		switch {
		case errors.Is(err, errShort):
			return false, nil
		case errors.As(err, &refusal):
			c.refused = err
		case err != nil:
			return false, err
		case !there:
			c.missing++
		}
		c.answered++
	}
	if c.begin < c.end {
		return false, errors.New("the server sent more than the answers")
	}
	return true, c.refused
}

// errShort: the rest of an answer has not come yet.
var errShort = errors.New("half an answer")

// takeAnswer says whether the key was there. The value of a read must begin with its key.
func (c *client) takeAnswer(key uint64) (bool, error) {
	received := c.buffer[c.begin:c.end]
	length := bytes.IndexByte(received, '\n') + 1
	if length == 0 {
		return false, errShort
	}
	line := bytes.TrimRight(received[:length], "\r\n")
	switch {
	case bytes.HasPrefix(line, []byte("-")):
		c.begin += length
		return false, refusalError(line[1:])
	case !c.reads && bytes.Equal(line, []byte("+OK")):
		c.begin += length
		return true, nil
	case c.reads && (bytes.Equal(line, []byte("$-1")) || bytes.Equal(line, []byte("_"))):
		c.begin += length
		return false, nil
	case c.reads && bytes.Equal(line, c.valueHeader):
	default:
		return false, fmt.Errorf("the server answered %.40q", line)
	}
	last := length + c.valueBytes + len("\r\n")
	if len(received) < last {
		return false, errShort
	}
	if found := binary.BigEndian.Uint64(received[length:]); found != key {
		return false, fmt.Errorf("key %x has the value of %x", load.KeyText(key),
			load.KeyText(found))
	}
	c.begin += last
	return true, nil
}
