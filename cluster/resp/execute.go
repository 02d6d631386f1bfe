package resp

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/redcon"
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
		return c.server.table.unknown(r.arguments)
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
	c.fail(err)
	c.observe(name, time.Now(), err)
}

// unknown is the reply to a command that is not in the table.
func (table *commandTable) unknown(arguments [][]byte) error {
	name := clip(arguments[0])
	if table.others[strings.ToLower(name)] {
		return errWrongType
	}
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%s', with args beginning with: ", name)
	for _, argument := range arguments[1:min(len(arguments), 4)] {
		fmt.Fprintf(&text, "'%s' ", clip(argument))
	}
	return replyError(text.String())
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

func (c *client) ok() { c.out = redcon.AppendOK(c.out) }

func (c *client) ping(arguments [][]byte) error {
	switch len(arguments) {
	case 1:
		c.out = redcon.AppendString(c.out, "PONG")
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

func (c *client) readWrite([][]byte) error {
	c.local = false
	c.ok()
	return nil
}

// commandCommand serves COMMAND and its subcommands.
func (c *client) commandCommand(arguments [][]byte) error {
	table := c.server.table
	if len(arguments) == 1 {
		c.out = redcon.AppendArray(c.out, len(table.ordered))
		for _, entry := range table.ordered {
			c.out = entry.appendInfo(c.out)
		}
		return nil
	}
	names := arguments[2:]
	switch strings.ToLower(clip(arguments[1])) {
	case "count":
		c.out = redcon.AppendInt(c.out, int64(len(table.ordered)))
	case "list":
		c.out = redcon.AppendArray(c.out, len(table.ordered))
		for _, entry := range table.ordered {
			c.out = redcon.AppendBulkString(c.out, entry.name)
		}
	case "info":
		c.commandInfo(names)
	case "docs":
		entries := table.ordered
		if len(names) > 0 {
			entries = nil
			for _, name := range names {
				if entry := table.find(name); entry != nil {
					entries = append(entries, entry)
				}
			}
		}
		c.out = redcon.AppendArray(c.out, 2*len(entries))
		for _, entry := range entries {
			c.flushFull()
			c.out = entry.appendDocs(c.out)
		}
	default:
		return unknownSubcommand("COMMAND", arguments[1])
	}
	return nil
}

func (c *client) commandInfo(names [][]byte) {
	if len(names) == 0 {
		for _, entry := range c.server.table.ordered {
			names = append(names, []byte(entry.name))
		}
	}
	c.out = redcon.AppendArray(c.out, len(names))
	for _, name := range names {
		c.flushFull()
		if entry := c.server.table.find(name); entry != nil {
			c.out = entry.appendInfo(c.out)
		} else {
			c.out = append(c.out, "*-1\r\n"...)
		}
	}
}

func unknownSubcommand(command string, subcommand []byte) error {
	return replyError(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.",
		clip(subcommand), command))
}
