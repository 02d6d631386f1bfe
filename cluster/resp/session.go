package resp

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"time"
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
	protocol := c.protocol
	if len(arguments) > 1 {
		var ok bool
		if protocol, ok = parseLength(arguments[1], 1<<30); !ok {
			return replyError("ERR Protocol version is not an integer or out of range")
		}
		if protocol != 2 && protocol != 3 {
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
	c.speak(protocol)
	c.beginMap(7)
	c.pair("server", "redis")
	c.pair("version", serverVersion)
	c.word("proto")
	c.integer(int64(protocol))
	c.word("id")
	c.integer(int64(c.id))
	c.pair("mode", "standalone")
	c.pair("role", "master")
	c.word("modules")
	c.array(0)
	return nil
}

// speak changes the protocol of the replies to come.
func (c *client) speak(protocol int) {
	c.mutex.Lock()
	c.protocol = protocol
	c.mutex.Unlock()
}

// resetSession serves RESET.
func (c *client) resetSession([][]byte) error {
	c.local = false
	c.endTransaction()
	if len(c.server.users) > 0 && c.authed {
		// A stranger's time to authenticate goes on: it could send RESET for ever.
		c.authed, c.stranger = false, time.Now()
	}
	c.mutex.Lock()
	c.user, c.name, c.protocol = defaultUser, "", 2
	c.mutex.Unlock()
	c.simple("RESET")
	return nil
}
