package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tally is what one client, or all of them, measured.
type tally struct {
	latency        histogram
	reads, writes  uint64
	missing, wrong uint64
	errors         map[string]uint64
	examples       map[string]string // an error's text by its kind
	seconds        float64
}

func newTally() *tally {
	return &tally{errors: map[string]uint64{}, examples: map[string]string{}}
}

// fail counts `times` commands that failed.
func (t *tally) fail(kind, text string, times int) {
	t.errors[kind] += uint64(times)
	t.examples[kind] = text
}

func (t *tally) merge(other *tally) {
	t.latency.merge(&other.latency)
	t.reads += other.reads
	t.writes += other.writes
	t.missing += other.missing
	t.wrong += other.wrong
	for kind, count := range other.errors {
		t.errors[kind] += count
		t.examples[kind] = other.examples[kind]
	}
}

func (t *tally) summary(o *options) *Summary {
	name := o.workload
	if o.fill {
		name = "fill"
	}
	return &Summary{Workload: name, Clients: o.clients, Pipeline: o.pipeline, Keys: o.keys,
		ValueBytes: o.valueBytes, ReadOnly: o.readOnly, Seconds: t.seconds, Operations: t.latency.total,
		OperationsPerSec: float64(t.latency.total) / t.seconds,
		Reads:            t.reads, Writes: t.writes, Missing: t.missing, Wrong: t.wrong,
		Errors: t.errors,
		LatencyUs: map[string]uint64{
			"p50": t.latency.microseconds(0.5), "p95": t.latency.microseconds(0.95),
			"p99": t.latency.microseconds(0.99), "p99.9": t.latency.microseconds(0.999),
			"max": t.latency.microseconds(1)},
	}
}

// run runs all clients and adds up what they measured.
func run(ctx context.Context, o *options) *tally {
	var next atomic.Uint64
	if !o.fill {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	begin := time.Now()
	tallies := make([]*tally, o.clients)
	var running sync.WaitGroup
	for i := range tallies {
		tallies[i] = newTally()
		c := &client{options: o, index: i, tally: tallies[i], chooser: newChooser(o, i, &next),
			value: make([]byte, o.valueBytes+len("\r\n")), fresh: make([]byte, o.valueBytes)}
		running.Go(func() { c.run(ctx, begin) })
	}
	running.Wait()
	total := newTally()
	total.seconds = time.Since(begin).Seconds()
	for _, t := range tallies {
		total.merge(t)
	}
	return total
}

// concurrentSend is how long a batch may be to be sent before replies are read. Client and server
// would wait for each other if neither the requests nor the replies fitted the sockets' buffers.
const concurrentSend = 8

// sent is a command whose reply is awaited.
type sent struct {
	key  uint64
	read bool
}

// client is one connection.
type client struct {
	options *options
	index   int
	tally   *tally
	chooser *chooser

	conn   net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
	batch  []sent
	value  []byte // that is read, with the end of its line
	fresh  []byte // that is written
}

// run sends batches until ctx ends, and connects again after failures.
func (c *client) run(ctx context.Context, begin time.Time) {
	defer c.close()
	interval := time.Duration(0)
	if c.options.rate > 0 {
		interval = time.Duration(float64(time.Second) / c.options.rate *
			float64(c.options.clients*c.options.pipeline))
		begin = begin.Add(interval * time.Duration(c.index) / time.Duration(c.options.clients))
	}
	for number := 0; ; number++ {
		due := begin.Add(interval * time.Duration(number))
		if interval == 0 {
			due = time.Now()
		}
		if !pause(ctx, time.Until(due)) {
			return
		}
		if !c.chooseBatch() {
			return
		}
		if c.conn == nil {
			if err := c.connect(ctx); err != nil {
				if over(ctx) {
					return
				}
				c.tally.fail("connection", err.Error(), len(c.batch))
				pause(ctx, 100*time.Millisecond)
				continue
			}
		}
		if err := c.exchange(due); err != nil {
			c.close()
		}
	}
}

// over says whether ctx has ended. A dialer may notice its deadline a moment before ctx does.
func over(ctx context.Context) bool {
	end, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(end)
}

// pause waits. It answers false if ctx has ended.
func pause(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// chooseBatch chooses the next batch. It answers false if there is none.
func (c *client) chooseBatch() bool {
	c.batch = c.batch[:0]
	for len(c.batch) < c.options.pipeline {
		key, read, ok := c.chooser.choose()
		if !ok {
			break
		}
		c.batch = append(c.batch, sent{key, read})
	}
	return len(c.batch) > 0
}

// connect opens the connection and prepares it.
func (c *client) connect(ctx context.Context) error {
	address := c.options.addresses[c.index%len(c.options.addresses)]
	dialer := net.Dialer{Timeout: c.options.timeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if c.options.tls != nil {
		config := c.options.tls.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
		conn = tls.Client(conn, config)
	}
	c.conn = conn
	c.reader, c.writer = bufio.NewReaderSize(conn, 64<<10), bufio.NewWriterSize(conn, 64<<10)
	if err := conn.SetDeadline(time.Now().Add(c.options.timeout)); err != nil {
		return err
	}
	err = nil
	if c.options.password != "" {
		err = c.prepare("AUTH", c.options.password)
	}
	if err == nil && c.options.readOnly {
		err = c.prepare("READONLY")
	}
	if err != nil {
		c.close()
	}
	return err
}

// prepare sends a command and expects OK.
func (c *client) prepare(words ...string) error {
	fmt.Fprintf(c.writer, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(c.writer, "$%d\r\n%s\r\n", len(word), word)
	}
	if err := c.writer.Flush(); err != nil {
		return err
	}
	line, err := c.line()
	if err == nil && line != "+OK" {
		err = errors.New(words[0] + ": " + line)
	}
	return err
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// exchange sends the batch, which was due at `due`, and reads its replies. If the connection fails,
// commands without replies count as errors.
func (c *client) exchange(due time.Time) (err error) {
	replied, succeeded := 0, uint64(0)
	err = c.conn.SetDeadline(time.Now().Add(c.options.timeout))
	if err == nil && len(c.batch) > concurrentSend {
		sending := make(chan error, 1)
		go func() { sending <- c.sendBatch() }()
		defer func() {
			if err != nil {
				c.close() // Ends a write that waits for the server.
			}
			if sendErr := <-sending; err == nil {
				err = sendErr
			}
		}()
	} else if err == nil {
		err = c.sendBatch()
	}
	for err == nil && replied < len(c.batch) {
		var ok bool
		if ok, err = c.readReply(c.batch[replied]); err == nil {
			replied++
		}
		if ok {
			succeeded++
		}
	}
	c.tally.latency.add(time.Since(due), succeeded)
	if err != nil {
		c.tally.fail("connection", err.Error(), len(c.batch)-replied)
	}
	return err
}

func (c *client) sendBatch() error {
	var number [keyBytes]byte
	for _, command := range c.batch {
		binary.BigEndian.PutUint64(number[:], command.key)
		if command.read {
			_, _ = c.writer.WriteString("*2\r\n$3\r\nGET\r\n$8\r\n")
			_, _ = c.writer.Write(number[:])
		} else {
			fillValue(c.fresh, command.key, c.chooser.nextSequence())
			_, _ = c.writer.WriteString("*3\r\n$3\r\nSET\r\n$8\r\n")
			_, _ = c.writer.Write(number[:])
			_, _ = c.writer.WriteString(c.options.valueLine)
			_, _ = c.writer.Write(c.fresh)
		}
		_, _ = c.writer.WriteString("\r\n") // A failure stays until Flush.
	}
	return c.writer.Flush()
}

// readReply reads the reply to a command. It answers whether the command succeeded.
func (c *client) readReply(command sent) (bool, error) {
	line, err := c.line()
	switch {
	case err != nil:
		return false, err
	case line[0] == '-':
		kind, _, _ := strings.Cut(line[1:], " ")
		c.tally.fail(kind, line[1:], 1)
		return false, nil
	case !command.read:
		if line != "+OK" {
			return false, fmt.Errorf("a reply to SET: %.40q", line)
		}
		c.tally.writes++
		return true, nil
	case line == "$-1":
		c.tally.missing++
		c.tally.reads++
		return true, nil
	}
	if line != c.options.valueHeader {
		return false, fmt.Errorf("a reply to GET: %.40q, and values have %d bytes", line,
			c.options.valueBytes)
	}
	if _, err := io.ReadFull(c.reader, c.value); err != nil {
		return false, err
	}
	if c.options.verify && !verifyValue(c.value[:c.options.valueBytes], command.key) {
		c.tally.wrong++
	}
	c.tally.reads++
	return true, nil
}

// line reads a line without its end.
func (c *client) line() (string, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 {
		return "", errors.New("an empty reply")
	}
	text := line[:len(line)-2]
	switch string(text) { // The compiler makes no string for these.
	case "+OK":
		return "+OK", nil
	case c.options.valueHeader:
		return c.options.valueHeader, nil
	}
	return string(text), nil
}
