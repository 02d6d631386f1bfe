package resp

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const errName = replyError(
	"ERR Client names cannot contain spaces, newlines or special characters.")

// validName tells whether a name of a connection or library is short and printable.
func validName(name []byte) bool {
	for _, char := range name {
		if char < '!' || char > '~' {
			return false
		}
	}
	return len(name) <= 128
}

func (c *client) setName(name []byte) {
	c.mutex.Lock()
	c.name = string(name)
	c.mutex.Unlock()
}

// clientCommand serves CLIENT's subcommands.
func (c *client) clientCommand(arguments [][]byte) error {
	subcommand := strings.ToLower(clip(arguments[1]))
	expected := map[string]int{"setname": 3, "getname": 2, "id": 2, "setinfo": 4, "info": 2,
		"kill": -3, "no-evict": 3, "no-touch": 3, "reply": 3}
	if count, ok := expected[subcommand]; ok && !fits(count, len(arguments)) {
		return wrongCount("client|" + subcommand)
	}
	switch subcommand {
	case "setname":
		if !validName(arguments[2]) {
			return errName
		}
		c.setName(arguments[2])
		c.ok()
	case "getname":
		if c.name == "" {
			c.null()
		} else {
			c.word(c.name)
		}
	case "id":
		c.integer(int64(c.id))
	case "setinfo":
		return c.setInfo(arguments[2], arguments[3])
	case "list":
		return c.clientList(arguments[2:])
	case "kill":
		return c.clientKill(arguments[2:])
	case "info":
		c.text([]byte(c.describe()))
	case "no-evict", "no-touch":
		if value := strings.ToLower(clip(arguments[2])); value != "on" && value != "off" {
			return errSyntax
		}
		c.ok()
	case "reply":
		if strings.ToLower(clip(arguments[2])) != "on" {
			return replyError("ERR CLIENT REPLY is always ON here: every command gets a reply")
		}
		c.ok()
	default:
		return unknownSubcommand("CLIENT", arguments[1])
	}
	return nil
}

func (c *client) setInfo(attribute, value []byte) error {
	if !validName(value) {
		return errName
	}
	index := 0
	switch strings.ToLower(clip(attribute)) {
	case "lib-name":
	case "lib-ver":
		index = 1
	default:
		return replyError("ERR Unrecognized option '" + clip(attribute) + "'")
	}
	c.mutex.Lock()
	c.library[index] = string(value)
	c.mutex.Unlock()
	c.ok()
	return nil
}

// describeBytes is about the longest line of CLIENT LIST: a name and a library's name and version
// have 128 bytes each.
const describeBytes = 640

// describe gives the line of CLIENT LIST. Any goroutine may call it.
func (c *client) describe() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d db=0 cmd=%s user=%s lib-name=%s"+
		" lib-ver=%s resp=%d\n", c.id, c.conn.RemoteAddr(), c.conn.LocalAddr(), c.name,
		int(time.Since(c.since).Seconds()), c.last, c.user, c.library[0], c.library[1],
		c.protocol)
}

// clientList serves CLIENT LIST [TYPE type] [ID id...]. Its text holds bytes in flight until it is
// sent.
func (c *client) clientList(options [][]byte) error {
	chosen := clientFilter{}
	switch option := strings.ToLower(clipFirst(options)); {
	case option == "":
	case option == "id" && len(options) > 1:
		chosen.ids = map[uint64]bool{}
		for _, text := range options[1:] {
			id, err := strconv.ParseUint(clip(text), 10, 64)
			if err != nil {
				return replyError("ERR Invalid client ID")
			}
			chosen.ids[id] = true
		}
	case option == "type" && len(options) == 2:
		if err := chosen.take("type", options[1]); err != nil {
			return err
		}
	default:
		return errSyntax
	}
	clients := slices.DeleteFunc(c.server.snapshotClients(), func(other *client) bool {
		return !chosen.fits(other)
	})
	reserved := int64(len(clients)) * describeBytes
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		return errBusyMemory
	}
	defer c.account.Release(reserved)
	text := make([]byte, 0, reserved)
	for _, other := range clients {
		text = append(text, other.describe()...)
	}
	c.text(text)
	return nil
}

func clipFirst(arguments [][]byte) string {
	if len(arguments) == 0 {
		return ""
	}
	return clip(arguments[0])
}

// clientFilter chooses connections; a field without a value lets all through.
type clientFilter struct {
	ids            map[uint64]bool
	address, local string
	user           string
	none           bool // a type of which no connection is
	least          time.Duration
}

// take reads an option of CLIENT LIST or CLIENT KILL.
func (f *clientFilter) take(option string, value []byte) error {
	text := clip(value)
	switch option {
	case "id":
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil || id == 0 {
			return replyError("ERR client-id should be greater than 0")
		}
		f.ids = map[uint64]bool{id: true}
	case "addr":
		f.address = text
	case "laddr":
		f.local = text
	case "user":
		f.user = text
	case "maxage":
		seconds, ok := parseLength(value, math.MaxInt32)
		if !ok || seconds < 1 {
			return errNotInteger
		}
		f.least = time.Duration(seconds) * time.Second
	case "type":
		switch strings.ToLower(text) {
		case "normal":
		case "master", "replica", "slave", "pubsub":
			f.none = true
		default:
			return replyError("ERR Unknown client type '" + text + "'")
		}
	default:
		return errSyntax
	}
	return nil
}

func (f *clientFilter) fits(c *client) bool {
	c.mutex.Lock()
	user := c.user
	c.mutex.Unlock()
	return !f.none && (f.ids == nil || f.ids[c.id]) && (f.user == "" || f.user == user) &&
		(f.address == "" || f.address == c.conn.RemoteAddr().String()) &&
		(f.local == "" || f.local == c.conn.LocalAddr().String()) &&
		time.Since(c.since) >= f.least
}

// clientKill serves CLIENT KILL address, and CLIENT KILL with options and their values.
func (c *client) clientKill(options [][]byte) error {
	chosen, skipSelf := clientFilter{}, true
	if len(options) == 1 {
		chosen.address, skipSelf = clip(options[0]), false
		if c.killAll(&chosen, skipSelf) == 0 {
			return replyError("ERR No such client")
		}
		c.ok()
		return nil
	}
	for rest := options; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return errSyntax
		}
		option := strings.ToLower(clip(rest[0]))
		if option != "skipme" {
			if err := chosen.take(option, rest[1]); err != nil {
				return err
			}
			continue
		}
		switch strings.ToLower(clip(rest[1])) {
		case "yes":
			skipSelf = true
		case "no":
			skipSelf = false
		default:
			return errSyntax
		}
	}
	c.integer(int64(c.killAll(&chosen, skipSelf)))
	return nil
}

// killAll ends the connections of a filter, its own after the reply, and gives their count.
func (c *client) killAll(chosen *clientFilter, skipSelf bool) int {
	killed := 0
	for _, other := range c.server.snapshotClients() {
		if !chosen.fits(other) || other == c && skipSelf || !other.kill() {
			continue
		}
		killed++
		if other == c {
			c.quit = true
			continue
		}
		_ = rawConn(other.conn).Close()
	}
	return killed
}

// kill notes that the connection is to end. False: it was noted before.
func (c *client) kill() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	first := !c.killed
	c.killed = true
	return first
}
