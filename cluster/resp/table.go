package resp

import (
	"strings"

	"github.com/tidwall/redcon"
)

// kind says how a command is executed.
type kind int

const (
	single kind = iota // alone, by its handler
	reads              // joined with the reads next to it
	writes             // joined with the writes next to it
)

// command describes a command, for its execution and for COMMAND. The keys are arguments `first`
// up to `last` in steps of `step`; a negative `last` counts from the end.
type command struct {
	name    string
	arity   int // its name included; negative: at least its amount
	kind    kind
	handler func(c *client, arguments [][]byte) error // for kind single

	flags             []string
	first, last, step int
	group             string
	summary           string
	noAuth            bool // allowed without authentication; a flag of Redis
}

// commandTable gives the commands by name, and their order in COMMAND.
type commandTable struct {
	byName  map[string]*command
	ordered []*command
	others  map[string]bool // otherTypes
}

func newCommandTable() *commandTable {
	read, write := []string{"readonly", "fast"}, []string{"write", "denyoom"}
	fast, slow := []string{"fast", "loading", "stale"}, []string{"readonly"}
	ordered := []*command{
		{name: "get", arity: 2, kind: reads, flags: read, first: 1, last: 1, step: 1,
			group: "string", summary: "Returns the value of a key of 8 bytes."},
		{name: "mget", arity: -2, kind: reads, flags: read, first: 1, last: -1, step: 1,
			group: "string", summary: "Returns the values of keys."},
		{name: "exists", arity: -2, kind: reads, flags: read, first: 1, last: -1, step: 1,
			group: "generic", summary: "Counts those of the keys that exist."},
		{name: "set", arity: -3, kind: writes, flags: write, first: 1, last: 1, step: 1,
			group: "string", summary: "Sets a key to a value of 4096 bytes. It has no options."},
		{name: "mset", arity: -3, kind: writes, flags: write, first: 1, last: -1, step: 2,
			group: "string", summary: "Sets keys; those of one shard in one atomic step."},
		{name: "del", arity: -2, kind: writes, flags: []string{"write"}, first: 1, last: -1,
			step: 1, group: "generic", summary: "Deletes keys and counts those that existed."},
		{name: "scan", arity: -2, handler: (*client).scan, flags: slow,
			group: "generic", summary: "Lists keys in ascending order from a cursor on."},
		{name: "range", arity: -3, handler: (*client).rangeRecords, flags: slow,
			group: "generic", summary: "Lists keys and values from lower on, below upper."},
		{name: "dbsize", arity: 1, handler: (*client).dbsize, flags: slow,
			group: "server", summary: "Counts the keys."},
		{name: "info", arity: -1, handler: (*client).info, flags: fast,
			group: "server", summary: "Describes the node."},
		{name: "command", arity: -1, handler: (*client).commandCommand, flags: fast,
			group: "server", summary: "Describes the commands."},
		{name: "ping", arity: -1, handler: (*client).ping, flags: fast,
			group: "connection", summary: "Replies PONG, or its argument."},
		{name: "echo", arity: 2, handler: (*client).echo, flags: fast,
			group: "connection", summary: "Replies its argument."},
		{name: "auth", arity: -2, handler: (*client).auth, flags: fast, noAuth: true,
			group: "connection", summary: "Authenticates the connection."},
		{name: "hello", arity: -1, handler: (*client).hello, flags: fast, noAuth: true,
			group: "connection", summary: "Handshakes; the protocol is RESP2."},
		{name: "client", arity: -2, handler: (*client).clientCommand, flags: fast,
			group: "connection", summary: "Names and describes connections."},
		{name: "select", arity: 2, handler: (*client).selectDatabase, flags: fast,
			group: "connection", summary: "Selects database 0, the only one."},
		{name: "readonly", arity: 1, handler: (*client).readOnly, flags: fast,
			group: "cluster", summary: "Lets reads of the connection be served locally."},
		{name: "readwrite", arity: 1, handler: (*client).readWrite, flags: fast,
			group: "cluster", summary: "Makes reads of the connection linearizable."},
		{name: "reset", arity: 1, handler: (*client).resetSession, flags: fast, noAuth: true,
			group: "connection", summary: "Resets the connection."},
		{name: "quit", arity: -1, handler: (*client).quitSession, flags: fast, noAuth: true,
			group: "connection", summary: "Closes the connection."},
	}
	table := &commandTable{byName: map[string]*command{}, ordered: ordered,
		others: otherTypes()}
	// COMMAND does not list them: no client sends them.
	for _, name := range []string{"post", "host:"} {
		table.byName[name] = &command{name: name, arity: -1, handler: (*client).refusePage,
			noAuth: true}
	}
	for _, entry := range ordered {
		table.byName[entry.name] = entry
	}
	return table
}

// find looks a command up without regard to case; nil: it is unknown.
func (table *commandTable) find(name []byte) *command {
	var lower [16]byte
	if len(name) > len(lower) {
		return nil
	}
	for i, char := range name {
		if char >= 'A' && char <= 'Z' {
			char += 'a' - 'A'
		}
		lower[i] = char
	}
	return table.byName[string(lower[:len(name)])]
}

// accepts tells whether a command may have `count` arguments, its name included.
func (entry *command) accepts(count int) bool {
	return count == entry.arity || entry.arity < 0 && count >= -entry.arity
}

// appendInfo encodes what COMMAND tells of a command.
func (entry *command) appendInfo(out []byte) []byte {
	out = redcon.AppendArray(out, 6)
	out = redcon.AppendBulkString(out, entry.name)
	out = redcon.AppendInt(out, int64(entry.arity))
	out = redcon.AppendArray(out, len(entry.flags))
	for _, flag := range entry.flags {
		out = redcon.AppendString(out, flag)
	}
	out = redcon.AppendInt(out, int64(entry.first))
	out = redcon.AppendInt(out, int64(entry.last))
	return redcon.AppendInt(out, int64(entry.step))
}

// appendDocs encodes what COMMAND DOCS tells of a command.
func (entry *command) appendDocs(out []byte) []byte {
	out = redcon.AppendBulkString(out, entry.name)
	out = redcon.AppendArray(out, 6)
	texts := []string{"summary", entry.summary, "since", "1.0.0", "group", entry.group}
	for _, text := range texts {
		out = redcon.AppendBulkString(out, text)
	}
	return out
}

// otherTypes gives Redis's commands on other types. Every value here is a string.
func otherTypes() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields(`hset hget hmset hmget hgetall hdel hexists hincrby hkeys
		hlen hvals hscan hsetnx lpush rpush lpop rpop llen lrange lindex lset lrem ltrim lpushx
		rpushx linsert blpop brpop sadd srem smembers sismember scard spop sscan sinter sunion sdiff
		zadd zrem zrange zscore zcard zcount zrank zincrby zscan xadd xread xrange xlen pfadd
		geoadd`) {
		names[name] = true
	}
	return names
}
