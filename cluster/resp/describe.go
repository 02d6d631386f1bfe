package resp

import (
	"fmt"
	"strings"
)

// commandCommand serves COMMAND and its subcommands.
func (c *client) commandCommand(arguments [][]byte) error {
	table := c.server.table
	if len(arguments) == 1 {
		c.array(len(table.ordered))
		for _, entry := range table.ordered {
			c.flushFull()
			c.commandInfo(entry)
		}
		return nil
	}
	names := arguments[2:]
	switch strings.ToLower(clip(arguments[1])) {
	case "count":
		c.integer(int64(len(table.ordered)))
	case "list":
		c.array(len(table.ordered))
		for _, entry := range table.ordered {
			c.word(entry.name)
		}
	case "info":
		if len(names) == 0 {
			return c.commandCommand(arguments[:1])
		}
		c.array(len(names))
		for _, name := range names {
			c.flushFull()
			if entry := table.find(name); entry != nil {
				c.commandInfo(entry)
			} else {
				c.nullArray()
			}
		}
	case "docs":
		c.commandDocs(names)
	case "getkeys":
		return c.commandKeys(names)
	default:
		return unknownSubcommand("COMMAND", arguments[1])
	}
	return nil
}

// commandInfo encodes what COMMAND tells of a command. Access categories, tips, key specifications
// and subcommands are empty.
func (c *client) commandInfo(entry *command) {
	c.array(10)
	c.word(entry.name)
	c.integer(int64(entry.arity))
	c.set(len(entry.flags))
	for _, flag := range entry.flags {
		c.simple(flag)
	}
	c.integer(int64(entry.first))
	c.integer(int64(entry.last))
	c.integer(int64(entry.step))
	c.set(0)
	for range 3 {
		c.array(0)
	}
}

// commandDocs serves COMMAND DOCS [name...].
func (c *client) commandDocs(names [][]byte) {
	entries := c.server.table.ordered
	if len(names) > 0 {
		entries = nil
		for _, name := range names {
			if entry := c.server.table.find(name); entry != nil {
				entries = append(entries, entry)
			}
		}
	}
	c.beginMap(len(entries))
	for _, entry := range entries {
		c.flushFull()
		c.word(entry.name)
		c.beginMap(3)
		c.pair("summary", entry.summary)
		c.pair("since", "1.0.0")
		c.pair("group", entry.group)
	}
}

// commandKeys serves COMMAND GETKEYS command [argument...].
func (c *client) commandKeys(arguments [][]byte) error {
	if len(arguments) == 0 {
		return wrongCount("command|getkeys")
	}
	entry := c.server.table.find(arguments[0])
	switch {
	case entry == nil:
		return replyError("ERR Invalid command specified")
	case entry.first == 0:
		return replyError("ERR The command has no key arguments")
	case !entry.accepts(len(arguments)):
		return replyError("ERR Invalid number of arguments specified for command")
	}
	keys := entry.keys(arguments)
	c.array(len(keys))
	for _, key := range keys {
		c.bulk(key)
	}
	return nil
}

// settings are those of Redis that clients ask for.
func (s *Server) settings() [][2]string {
	return [][2]string{
		{"save", ""},
		{"appendonly", "yes"},
		{"databases", "1"},
		{"maxclients", fmt.Sprint(s.limits.Clients)},
		{"maxmemory", "0"},
		{"maxmemory-policy", "noeviction"},
		{"notify-keyspace-events", ""},
		{"proto-max-bulk-len", fmt.Sprint(s.limits.CommandBytes)},
		{"timeout", fmt.Sprint(int64(max(0, s.limits.IdleTimeout).Seconds()))},
		{"cluster-enabled", "no"},
	}
}

// configCommand serves CONFIG GET pattern [pattern...].
func (c *client) configCommand(arguments [][]byte) error {
	switch strings.ToLower(clip(arguments[1])) {
	case "get":
	case "set", "rewrite", "resetstat":
		return replyError("ERR CONFIG " + strings.ToUpper(clip(arguments[1])) +
			" is not served: the file of the node has its settings")
	default:
		return unknownSubcommand("CONFIG", arguments[1])
	}
	if len(arguments) < 3 {
		return wrongCount("config|get")
	}
	var found [][2]string
	for _, setting := range c.server.settings() {
		for _, pattern := range arguments[2:] {
			if len(pattern) <= patternBytes &&
				matchGlob([]byte(strings.ToLower(string(pattern))), []byte(setting[0])) {
				found = append(found, setting)
				break
			}
		}
	}
	c.beginMap(len(found))
	for _, setting := range found {
		c.pair(setting[0], setting[1])
	}
	return nil
}

func unknownSubcommand(command string, subcommand []byte) error {
	return replyError(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.",
		clip(subcommand), command))
}
