package resp

import (
	"time"
)

// request is a command of the round with its arguments, its name first.
type request struct {
	command   *command // nil: unknown
	arguments [][]byte
	dropped   bool
}

// executeRound executes the round's commands in their order and encodes the replies.
func (c *client) executeRound() {
	c.slices = c.arguments(c.slices[:0])
	requests := c.batch.requests[:0]
	for _, frame := range c.commands {
		next := request{arguments: c.slices[frame.first:frame.last], dropped: frame.dropped}
		if !next.dropped {
			next.command = c.server.table.find(next.arguments[0])
		}
		requests = append(requests, next)
	}
	c.batch.requests = requests
	c.server.counters.Commands.Add(uint64(len(requests)))
	if c.server.stopping.Load() {
		for i := range requests {
			c.refuse(&requests[i], errStopping)
		}
		c.quit = true
	}
	for len(requests) > 0 && !c.quit && c.broken == nil {
		count := 1
		switch err := c.refusal(&requests[0]); {
		case err != nil:
			c.refuse(&requests[0], err)
		case c.queued.open && !requests[0].command.immediate:
			c.executeQueue(&requests[0])
		case requests[0].command.kind == reads:
			count = c.executeReads(requests)
		case requests[0].command.kind == writes:
			count = c.executeWrites(requests)
		default:
			c.executeSingle(&requests[0])
		}
		requests = requests[count:]
	}
}

// refusal says why a command cannot be executed, whatever its arguments mean.
func (c *client) refusal(r *request) error {
	switch {
	case r.dropped:
		return errBusyMemory
	case !c.authed && (r.command == nil || !r.command.noAuth):
		return errNoAuth
	case r.command == nil:
		return unknown(r.arguments)
	case !r.command.accepts(len(r.arguments)):
		return wrongCount(r.command.name)
	}
	return nil
}

// refuse replies to a command that is not executed.
func (c *client) refuse(r *request, err error) {
	name := "unknown"
	if r.command != nil {
		name = r.command.name
	}
	c.failTransaction()
	c.fail(err)
	c.observe(name, time.Now(), err)
}

// executeQueue queues a command between MULTI and EXEC.
func (c *client) executeQueue(r *request) {
	c.setLast(r)
	if err := c.queue(r); err != nil {
		c.refuse(r, err)
	}
}

// clip shortens an argument for an error, and replaces bytes that are not printable ASCII.
func clip(argument []byte) string {
	shown := append([]byte(nil), argument[:min(len(argument), 64)]...)
	for i, char := range shown {
		if char < ' ' || char > '~' {
			shown[i] = '?'
		}
	}
	return string(shown)
}

// executeSingle executes a command of kind single.
func (c *client) executeSingle(r *request) {
	c.setLast(r)
	begin := time.Now()
	c.flushFull()
	err := r.command.handler(c, r.arguments)
	if err != nil {
		c.fail(err)
	}
	c.observe(r.command.name, begin, err)
}

func (c *client) observe(name string, begin time.Time, err error) {
	if c.server.observer != nil {
		c.server.observer(name, time.Since(begin).Seconds(), err)
	}
}

// setLast notes a command for CLIENT LIST.
func (c *client) setLast(r *request) {
	c.mutex.Lock()
	c.last = r.command.name
	c.mutex.Unlock()
}

func (c *client) ok() { c.simple("OK") }

func (c *client) ping(arguments [][]byte) error {
	switch len(arguments) {
	case 1:
		c.simple("PONG")
	case 2:
		c.bulk(arguments[1])
	default:
		return wrongCount("ping")
	}
	return nil
}

func (c *client) echo(arguments [][]byte) error {
	c.bulk(arguments[1])
	return nil
}

// refusePage ends the connection at a line that HTTP requests have. A web page can make a browser
// send one to this port, and the commands of the page would be its body.
func (c *client) refusePage([][]byte) error {
	c.server.counters.ProtocolErrors.Add(1)
	c.server.logger.Warn("an HTTP request came to the port of clients: a web page may be trying to"+
		" give commands", "client", c.conn.RemoteAddr().String())
	c.quit = true
	return nil
}

func (c *client) quitSession([][]byte) error {
	c.ok()
	c.quit = true
	return nil
}

func (c *client) selectDatabase(arguments [][]byte) error {
	number, ok := parseLength(arguments[1], 1<<30)
	switch {
	case !ok:
		return errNotInteger
	case number != 0:
		return replyError("ERR DB index is out of range")
	}
	c.ok()
	return nil
}

func (c *client) readOnly([][]byte) error {
	c.local = true
	c.ok()
	return nil
}

func (c *client) unwatch([][]byte) error {
	c.ok()
	return nil
}

func (c *client) readWrite([][]byte) error {
	c.local = false
	c.ok()
	return nil
}
