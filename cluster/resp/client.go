package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tidwall/redcon"

	"engine_race/cluster/budget"
	"engine_race/cluster/gate"
)

// client is one connection. Its goroutine uses all fields; others use those below `mutex` alone.
type client struct {
	server *Server
	conn   net.Conn
	id     uint64
	since  time.Time

	frames
	account *budget.Account // of the bytes in flight
	slices  [][]byte
	out     []byte
	outHeld bool  // flushBytes of the budget are held for `out`
	failure error // reading failed: the connection ends once the round's replies are out
	broken  error // sending failed: the connection ends
	begun   time.Time
	quit    bool
	// Deadlines that were set for the connection last.
	readDeadline, writeDeadline time.Time

	protocol       int // 2 or 3; written with the mutex, for others read it with that
	user           string
	authed         bool
	stranger       time.Time // since when the client is not authenticated, if it is not
	local          bool      // READONLY
	wrongPasswords int
	// Of a client that is not authenticated: its account is one of strangersBudget, too. Others read
	// it with the server's mutex.
	place *gate.Stranger

	batch  batch
	queued transaction

	mutex   sync.Mutex
	waiting bool // in a read
	fresh   bool // no part of a command is buffered
	killed  bool // by CLIENT KILL
	name    string
	library [2]string // name and version
	last    string    // command
}

var errDrained = errors.New("the server is stopping")

// topUpWait is how long a round waits for the rest of a command that began to come. Commands that
// are complete wait with it.
const topUpWait = 200 * time.Microsecond

// baseSpans is how many arguments a connection may have buffered without holding bytes of the
// budget. Each further one counts for spanBytes: a span, and the slice that it becomes.
const (
	baseSpans = 256
	spanBytes = 32
)

// maxTopUps bounds the reads that a round adds after its first complete command.
const maxTopUps = 16

// serve executes commands until the connection ends.
func (c *client) serve() error {
	defer c.releaseAll()
	for !c.quit {
		if err := c.receive(); err != nil {
			return err
		}
		c.executeRound()
		if c.authed {
			c.classify() // Before the reply: a user that has it keeps its connection.
		}
		c.flush()
		if c.broken != nil {
			return c.broken
		}
		if c.failure != nil {
			return c.failure
		}
		c.settle()
	}
	return nil
}

// receive waits for a round: at least one command, and those that came with it.
func (c *client) receive() error {
	topUps := 0
	for {
		if full, err := c.parseAll(); err != nil {
			if len(c.commands) == 0 {
				return err
			}
			c.failure = err
			return nil
		} else if full {
			return nil
		}
		if len(c.commands) == 0 {
			c.moveFront(c.start) // Empty commands were skipped.
			if err := c.wait(); err != nil {
				return err
			}
			continue
		}
		if topUps++; !c.partial() || topUps > maxTopUps || !c.topUp() {
			return nil
		}
	}
}

// parseAll parses what is buffered. It answers whether the round has reached its limits.
func (c *client) parseAll() (full bool, err error) {
	limits := &c.server.limits
	commands, size := limits.PipelineCommands, limits.PipelineBytes
	c.commandBytes, c.commandArguments = limits.CommandBytes, limits.CommandArguments
	if !c.authed {
		// Commands behind AUTH are parsed after AUTH was executed.
		commands = 1
		c.commandBytes, c.commandArguments = preAuthBytes, preAuthArguments
	}
	for {
		before := cap(c.spans)
		done, err := c.parse()
		c.holdSpans(cap(c.spans) - before)
		if err != nil || !done {
			return false, err
		}
		if len(c.commands) >= commands || c.start >= size ||
			len(c.spans) >= c.commandArguments {
			return true, nil
		}
	}
}

// holdSpans counts spans that the last command has added. A command for whose arguments the budget
// has no room is dropped, so that it adds no more.
func (c *client) holdSpans(grown int) {
	if bytes := int64(grown) * spanBytes; grown > 0 && !c.account.Acquire(bytes, 0) {
		c.account.Force(bytes)
		if len(c.commands) == 0 && c.argumentsLeft >= 0 && !c.discarding {
			c.discard()
		}
	}
}

// wait reads until more bytes have come, for as long as the connection may be idle, or the command
// under way may take. A client that is not authenticated has no longer than until its deadline.
func (c *client) wait() error {
	if !c.makeRoom() {
		return nil
	}
	limits := &c.server.limits
	c.mutex.Lock()
	fresh := !c.partial()
	if fresh {
		c.begun = time.Time{} // The command that began was an empty one.
	}
	var deadline time.Time // none
	switch {
	case c.server.stopping.Load():
		deadline = time.Now().Add(limits.DrainIdle)
	case !fresh:
		if c.begun.IsZero() {
			c.begun = time.Now()
		}
		deadline = c.begun.Add(limits.CommandTimeout)
	case c.server.draining.Load():
		deadline = time.Now().Add(limits.DrainIdle)
	case limits.IdleTimeout > 0:
		deadline = later(c.readDeadline, limits.IdleTimeout)
	}
	if last := c.stranger.Add(limits.CommandTimeout); !c.authed &&
		(deadline.IsZero() || last.Before(deadline)) {
		deadline = last
	}
	if last := c.queued.begun.Add(limits.CommandTimeout); c.queued.open &&
		(deadline.IsZero() || last.Before(deadline)) {
		deadline = last
	}
	if c.server.draining.Load() && !c.authed {
		deadline = time.Now().Add(limits.DrainIdle)
	}
	err := c.readUntil(deadline)
	c.waiting, c.fresh = true, fresh
	c.mutex.Unlock()
	if err == nil {
		err = c.read()
	}
	c.mutex.Lock()
	c.waiting = false
	c.mutex.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		switch {
		case c.server.draining.Load():
			return errDrained
		case fresh && !c.queued.open:
			c.server.counters.ConnectionsIdle.Add(1)
		default:
			c.server.counters.ConnectionsSlow.Add(1)
		}
	}
	return err
}

// topUp reads more bytes if they have come already, or come at once.
func (c *client) topUp() bool {
	if c.end == len(c.buffer) && !c.grow(0) {
		return false
	}
	if c.readUntil(time.Now().Add(topUpWait)) != nil {
		return false
	}
	err := c.read()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.failure = err
	}
	return err == nil
}

// read takes one read's bytes into the buffer.
func (c *client) read() error {
	n, err := c.conn.Read(c.buffer[c.end:])
	c.end += n
	c.server.counters.BytesReceived.Add(uint64(n))
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// makeRoom makes room for a read. It waits for the budget, and drops the command under way if that
// has none; then it answers whether there is room now.
func (c *client) makeRoom() bool {
	if c.end < len(c.buffer) || c.grow(c.server.limits.BusyWait) {
		return true
	}
	c.discard()
	return false
}

// grow takes a larger buffer if the budget has room within `wait`.
func (c *client) grow(wait time.Duration) bool {
	class := bufferClass(len(c.buffer)) + 1
	if class >= bufferClasses {
		return false
	}
	size := int64(bufferBytes(class))
	if !c.account.Acquire(size, wait) {
		return false
	}
	larger := c.server.pools.take(class)
	copy(larger, c.buffer[:c.end])
	c.replaceBuffer(larger)
	return true
}

func (c *client) replaceBuffer(buffer []byte) {
	old := c.buffer
	c.buffer = buffer
	if class := bufferClass(len(old)); class > 0 {
		c.account.Release(int64(bufferBytes(class)))
	}
	c.server.pools.give(old)
}

// settle forgets the round and frees what an idle connection does not need.
func (c *client) settle() {
	c.nextRound()
	c.begun = time.Time{}
	if c.partial() {
		c.begun = time.Now()
	}
	if c.end < BaseBufferBytes && len(c.buffer) > BaseBufferBytes {
		base := c.server.pools.take(0)
		copy(base, c.buffer[:c.end])
		c.replaceBuffer(base)
	}
	if cap(c.spans) > baseSpans && len(c.spans) <= baseSpans {
		c.account.Release(int64(cap(c.spans)-baseSpans) * spanBytes)
		c.spans = append(make([]span, 0, baseSpans), c.spans...)
		c.slices = nil
	}
	if cap(c.commands) > baseSpans {
		c.commands = nil
	}
	if cap(c.out) > BaseBufferBytes {
		c.out = nil
	}
	if c.outHeld {
		c.outHeld = false
		c.account.Release(flushBytes)
	}
	c.batch.shrink()
	c.classify()
}

// classify makes the client a stranger or a user, as its last round has left it.
func (c *client) classify() {
	s := c.server
	if c.authed == (c.place == nil) {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if c.authed {
		c.account.MoveTo(s.budget)
		c.place.Leave()
		c.place = nil
	} else {
		c.account.MoveTo(s.strangersBudget)
		c.place = s.strangers.Enter(rawConn(c.conn))
	}
}

// releaseAll gives everything back at the connection's end.
func (c *client) releaseAll() {
	c.account.Close()
	c.server.pools.give(c.buffer)
	c.buffer = nil
}

// flushFull sends the gathered replies if they are many, or if the budget has no room for more. It
// is called before each reply is encoded.
func (c *client) flushFull() {
	if len(c.out) > BaseBufferBytes && !c.outHeld {
		c.outHeld = c.account.Acquire(flushBytes, 0)
	}
	if len(c.out) >= flushBytes || len(c.out) > BaseBufferBytes && !c.outHeld {
		c.flush()
	}
}

// flush sends all gathered replies.
func (c *client) flush() {
	c.send(c.out)
	c.out = c.out[:0]
}

// send writes bytes, in parts that each have the write time-out. After a failure it does nothing.
func (c *client) send(bytes []byte) {
	for len(bytes) > 0 && c.broken == nil {
		part := bytes[:min(len(bytes), 2*flushBytes)]
		c.broken = c.writeUntil(later(c.writeDeadline, c.server.limits.WriteTimeout))
		if c.broken != nil {
			return
		}
		var n int
		n, c.broken = c.conn.Write(part)
		c.server.counters.BytesSent.Add(uint64(n))
		if errors.Is(c.broken, os.ErrDeadlineExceeded) {
			c.server.counters.ConnectionsSlow.Add(1)
		}
		bytes = bytes[n:]
	}
}

// bulk replies with bytes.
func (c *client) bulk(bytes []byte) { c.blob('$', "", bytes) }

// blob replies with bytes behind a prefix. Many bytes are sent without a copy.
func (c *client) blob(kind byte, prefix string, bytes []byte) {
	c.flushFull()
	c.header(kind, len(prefix)+len(bytes))
	c.out = append(c.out, prefix...)
	if len(bytes) < flushBytes {
		c.out = append(c.out, bytes...)
	} else {
		c.flush()
		c.send(bytes)
	}
	c.out = append(c.out, '\r', '\n')
}

// fail replies with an error.
func (c *client) fail(err error) {
	c.flushFull()
	c.server.counters.countReply(err.Error())
	c.out = redcon.AppendError(c.out, err.Error())
}
