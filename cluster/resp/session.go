package resp

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/redcon"
)

const defaultUser = "default"

// authenticate checks a password. A wrong one delays the reply.
func (c *client) authenticate(user string, password []byte) error {
	expected, known := c.server.users[user]
	sum := sha256.Sum256(password)
	if subtle.ConstantTimeCompare(sum[:], expected[:]) == 1 && known {
		c.authed, c.wrongPasswords = true, 0
		c.mutex.Lock()
		c.user = user
		c.mutex.Unlock()
		return nil
	}
	c.server.counters.AuthFailures.Add(1)
	c.wrongPasswords = min(c.wrongPasswords+1, 10)
	timer := time.NewTimer(time.Duration(c.wrongPasswords) * c.server.limits.AuthDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.server.context.Done():
	}
	return errWrongPass
}

// auth serves AUTH [user] password.
func (c *client) auth(arguments [][]byte) error {
	user, password := defaultUser, arguments[1]
	switch len(arguments) {
	case 2:
		if _, known := c.server.users[defaultUser]; !known {
			return replyError("ERR AUTH <password> called without any password configured for the" +
				" default user. Are you sure your configuration is correct?")
		}
	case 3:
		user, password = string(arguments[1]), arguments[2]
	default:
		return errSyntax
	}
	if err := c.authenticate(user, password); err != nil {
		return err
	}
	c.ok()
	return nil
}

// hello serves HELLO [version [AUTH user password] [SETNAME name]].
func (c *client) hello(arguments [][]byte) error {
	if len(arguments) > 1 {
		version, ok := parseLength(arguments[1], 1<<30)
		if !ok {
			return replyError("ERR Protocol version is not an integer or out of range")
		}
		if version != 2 {
			return replyError("NOPROTO unsupported protocol version")
		}
	}
	var user, password, name []byte
	for rest := arguments[min(2, len(arguments)):]; len(rest) > 0; {
		switch option := strings.ToLower(clip(rest[0])); {
		case option == "auth" && len(rest) >= 3:
			user, password = rest[1], rest[2]
			rest = rest[3:]
		case option == "setname" && len(rest) >= 2:
			name = rest[1]
			rest = rest[2:]
		default:
			return replyError("ERR Syntax error in HELLO option '" + clip(rest[0]) + "'")
		}
	}
	if name != nil && !validName(name) {
		return errName
	}
	if user != nil {
		if err := c.authenticate(string(user), password); err != nil {
			return err
		}
	}
	if !c.authed {
		return replyError("NOAUTH HELLO must be called with the client already authenticated," +
			" otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate" +
			" the client and select the RESP protocol version at the same time")
	}
	if name != nil {
		c.setName(name)
	}
	c.out = redcon.AppendArray(c.out, 14)
	for _, text := range []string{"server", "redis", "version", serverVersion, "proto"} {
		c.out = redcon.AppendBulkString(c.out, text)
	}
	c.out = redcon.AppendInt(c.out, 2)
	c.out = redcon.AppendBulkString(c.out, "id")
	c.out = redcon.AppendUint(c.out, c.id)
	for _, text := range []string{"mode", "standalone", "role", "master", "modules"} {
		c.out = redcon.AppendBulkString(c.out, text)
	}
	c.out = redcon.AppendArray(c.out, 0)
	return nil
}

// resetSession serves RESET.
func (c *client) resetSession([][]byte) error {
	c.local = false
	if len(c.server.users) > 0 && c.authed {
		// A stranger's time to authenticate goes on: it could send RESET for ever.
		c.authed, c.stranger = false, time.Now()
	}
	c.mutex.Lock()
	c.user, c.name = defaultUser, ""
	c.mutex.Unlock()
	c.out = redcon.AppendString(c.out, "RESET")
	return nil
}

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
		"no-evict": 3, "no-touch": 3, "reply": 3}
	if count, ok := expected[subcommand]; ok && count != len(arguments) {
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
			c.out = redcon.AppendNull(c.out)
		} else {
			c.bulk([]byte(c.name))
		}
	case "id":
		c.out = redcon.AppendUint(c.out, c.id)
	case "setinfo":
		return c.setInfo(arguments[2], arguments[3])
	case "list":
		return c.clientList()
	case "info":
		c.bulk([]byte(c.describe()))
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
		" lib-ver=%s resp=2\n", c.id, c.conn.RemoteAddr(), c.conn.LocalAddr(), c.name,
		int(time.Since(c.since).Seconds()), c.last, c.user, c.library[0], c.library[1])
}
