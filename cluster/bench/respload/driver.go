// Package respload is a driver that speaks RESP. Each client has a connection of its own, and waits
// for the answers of a call before the next one.
//
// Do is for one goroutine at a time; it starts the clients' goroutines and waits for them.
package respload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"engine_race/cluster/bench/load"
)

const (
	dialTimeout = 2 * time.Second
	callTimeout = 5 * time.Second
)

// client has one connection, which it makes again after a failure.
type client struct {
	address string
	local   bool // READONLY
	net     net.Conn
	reader  *bufio.Reader
	text    []byte // of the requests of one call
	value   []byte
}

// Do works off an order against its addresses. Client number i connects to address i modulo their
// count.
func Do(work load.Work) (load.Figures, error) {
	if len(work.Addresses) == 0 {
		return load.Figures{}, errors.New("the order names no address")
	}
	clients := make([]*client, work.Clients)
	for i := range clients {
		clients[i] = &client{address: work.Addresses[i%len(work.Addresses)],
			local: work.Kind == load.LocalRead, value: make([]byte, load.ValueBytes)}
		defer clients[i].close()
	}
	switch work.Kind {
	case load.Fill, load.Write:
		return load.Run(work, func(i int, keys []uint64, value []byte) (int, error) {
			return clients[i].call(keys, value)
		})
	case load.Read, load.LocalRead:
		return load.Run(work, func(i int, keys []uint64, _ []byte) (int, error) {
			return clients[i].call(keys, nil)
		})
	}
	return load.Figures{}, fmt.Errorf("RESP clients cannot do %q", work.Kind)
}

func (c *client) close() {
	if c.net != nil {
		c.net.Close()
		c.net = nil
	}
}

// call sends a SET or GET for each key in one piece, then reads the answers.
func (c *client) call(keys []uint64, value []byte) (int, error) {
	missing, err := c.tryCall(keys, value)
	var refusal refusalError
	if err != nil && !errors.As(err, &refusal) {
		c.close()
	}
	return missing, err
}

func (c *client) tryCall(keys []uint64, value []byte) (missing int, err error) {
	if c.net == nil {
		if err := c.connect(); err != nil {
			return 0, err
		}
	}
	if err := c.net.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return 0, err
	}
	c.text = c.text[:0]
	for _, key := range keys {
		if value == nil {
			c.text = appendRequest(c.text, []byte("GET"), load.KeyText(key))
		} else {
			c.text = appendRequest(c.text, []byte("SET"), load.KeyText(key), value)
		}
	}
	if _, err := c.net.Write(c.text); err != nil {
		return 0, err
	}
	var refused error
	for _, key := range keys {
		there, err := c.readAnswer(key, value == nil)
		var refusal refusalError
		if errors.As(err, &refusal) {
			refused = err
		} else if err != nil {
			return missing, err
		}
		if !there {
			missing++
		}
	}
	return missing, refused
}

func (c *client) connect() error {
	conn, err := net.DialTimeout("tcp", c.address, dialTimeout)
	if err != nil {
		return err
	}
	c.net = conn
	c.reader = bufio.NewReaderSize(conn, 64<<10)
	if !c.local {
		return nil
	}
	if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(appendRequest(nil, []byte("READONLY"))); err != nil {
		return err
	}
	_, err = c.readAnswer(0, false)
	return err
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

// refusalError is an error that the server sent. The connection is still in order.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// readAnswer says whether the key was there. The value of a read must begin with its key.
func (c *client) readAnswer(key uint64, isRead bool) (bool, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	line = bytes.TrimRight(line, "\r\n")
	switch {
	case bytes.HasPrefix(line, []byte("-")):
		return false, refusalError(line[1:])
	case !isRead && bytes.Equal(line, []byte("+OK")):
		return true, nil
	case isRead && (bytes.Equal(line, []byte("$-1")) || bytes.Equal(line, []byte("_"))):
		return false, nil
	case isRead && bytes.Equal(line, []byte("$"+strconv.Itoa(load.ValueBytes))):
	default:
		return false, fmt.Errorf("the server answered %.40q", line)
	}
	if _, err := io.ReadFull(c.reader, c.value); err != nil {
		return false, err
	}
	if _, err := c.reader.Discard(len("\r\n")); err != nil {
		return false, err
	}
	if !bytes.HasPrefix(c.value, load.KeyText(key)) {
		return false, fmt.Errorf("key %x has the value of %x", load.KeyText(key),
			c.value[:load.KeyBytes])
	}
	return true, nil
}
