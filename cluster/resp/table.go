package resp

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
	// For kind reads: it has a value of each key, nil for an absent one.
	reply func(c *client, r *request, values [][]byte) error

	flags             []string
	first, last, step int
	group             string
	summary           string
	noAuth            bool // allowed without authentication; a flag of Redis
	immediate         bool // executed between MULTI and EXEC, too, and not queued
}

// commandTable gives the commands by name, and their order in COMMAND.
type commandTable struct {
	byName  map[string]*command
	ordered []*command
}

func newCommandTable() *commandTable {
	read, write := []string{"readonly", "fast"}, []string{"write", "denyoom"}
	fast, slow := []string{"fast", "loading", "stale"}, []string{"readonly"}
	ordered := []*command{
		{name: "get", arity: 2, kind: reads, reply: (*client).replyValue, flags: read,
			first: 1, last: 1, step: 1, group: "string",
			summary: "Returns the value of a key of 8 bytes."},
		{name: "mget", arity: -2, kind: reads, reply: (*client).replyValues, flags: read,
			first: 1, last: -1, step: 1, group: "string",
			summary: "Returns the values of keys."},
		{name: "exists", arity: -2, kind: reads, reply: (*client).replyExisting, flags: read,
			first: 1, last: -1, step: 1, group: "generic",
			summary: "Counts those of the keys that exist."},
		{name: "strlen", arity: 2, kind: reads, reply: (*client).replyLength, flags: read,
			first: 1, last: 1, step: 1, group: "string",
			summary: "Returns the length of a value, or 0 if the key is absent."},
		{name: "type", arity: 2, kind: reads, reply: (*client).replyType, flags: read,
			first: 1, last: 1, step: 1, group: "generic",
			summary: "Replies string, or none if the key is absent."},
		{name: "ttl", arity: 2, kind: reads, reply: (*client).replyTimeLeft, flags: read,
			first: 1, last: 1, step: 1, group: "generic",
			summary: "Replies -1, or -2 if the key is absent: nothing expires."},
		{name: "pttl", arity: 2, kind: reads, reply: (*client).replyTimeLeft, flags: read,
			first: 1, last: 1, step: 1, group: "generic", summary: "As TTL."},
		{name: "set", arity: -3, kind: writes, flags: write, first: 1, last: 1, step: 1,
			group: "string", summary: "Sets a key to a value of the cluster's size. It has no options."},
		{name: "mset", arity: -3, kind: writes, flags: write, first: 1, last: -1, step: 2,
			group: "string", summary: "Sets keys; those of one shard in one atomic step."},
		{name: "del", arity: -2, kind: writes, flags: []string{"write"}, first: 1, last: -1,
			step: 1, group: "generic", summary: "Deletes keys and counts those that existed."},
		{name: "unlink", arity: -2, kind: writes, flags: []string{"write"}, first: 1, last: -1,
			step: 1, group: "generic", summary: "As DEL."},
		{name: "scan", arity: -2, handler: (*client).scan, flags: slow,
			group: "generic", summary: "Lists keys in ascending order from a cursor on."},
		{name: "keys", arity: 2, handler: (*client).keys, flags: slow,
			group: "generic", summary: "Lists the keys that match a pattern, if they are few."},
		{name: "range", arity: -3, handler: (*client).rangeRecords, flags: slow,
			group: "generic", summary: "Lists keys and values from lower on, below upper."},
		{name: "dbsize", arity: 1, handler: (*client).dbsize, flags: slow,
			group: "server", summary: "Counts the keys."},
		{name: "info", arity: -1, handler: (*client).info, flags: fast,
			group: "server", summary: "Describes the node."},
		{name: "command", arity: -1, handler: (*client).commandCommand, flags: fast,
			group: "server", summary: "Describes the commands."},
		{name: "config", arity: -2, handler: (*client).configCommand, flags: fast,
			group: "server", summary: "Gives settings of Redis that clients ask for."},
		{name: "multi", arity: 1, handler: (*client).multi, flags: fast, immediate: true,
			group: "transactions", summary: "Begins a transaction of keys of one shard."},
		{name: "exec", arity: 1, handler: (*client).exec, flags: fast, immediate: true,
			group: "transactions", summary: "Does the commands since MULTI in one step."},
		{name: "discard", arity: 1, handler: (*client).discardQueued, flags: fast,
			immediate: true, group: "transactions", summary: "Forgets the commands since MULTI."},
		{name: "unwatch", arity: 1, handler: (*client).unwatch, flags: fast,
			group: "transactions", summary: "Replies OK: no key is watched here."},
		{name: "ping", arity: -1, handler: (*client).ping, flags: fast,
			group: "connection", summary: "Replies PONG, or its argument."},
		{name: "echo", arity: 2, handler: (*client).echo, flags: fast,
			group: "connection", summary: "Replies its argument."},
		{name: "auth", arity: -2, handler: (*client).auth, flags: fast, noAuth: true,
			group: "connection", summary: "Authenticates the connection."},
		{name: "hello", arity: -1, handler: (*client).hello, flags: fast, noAuth: true,
			group: "connection", summary: "Handshakes, and chooses RESP2 or RESP3."},
		{name: "client", arity: -2, handler: (*client).clientCommand, flags: fast,
			group: "connection", summary: "Names and describes connections."},
		{name: "select", arity: 2, handler: (*client).selectDatabase, flags: fast,
			group: "connection", summary: "Selects database 0, the only one."},
		{name: "readonly", arity: 1, handler: (*client).readOnly, flags: fast,
			group: "cluster", summary: "Lets reads of the connection be served locally."},
		{name: "readwrite", arity: 1, handler: (*client).readWrite, flags: fast,
			group: "cluster", summary: "Makes reads of the connection linearizable."},
		{name: "reset", arity: 1, handler: (*client).resetSession, flags: fast, noAuth: true,
			immediate: true, group: "connection", summary: "Resets the connection."},
		{name: "quit", arity: -1, handler: (*client).quitSession, flags: fast, noAuth: true,
			immediate: true, group: "connection", summary: "Closes the connection."},
	}
	table := &commandTable{byName: map[string]*command{}, ordered: ordered}
	// COMMAND does not list them: no client sends them.
	for _, name := range []string{"post", "host:"} {
		table.byName[name] = &command{name: name, arity: -1, handler: (*client).refusePage,
			noAuth: true}
	}
	for _, entry := range append(ordered, otherTypeCommands()...) {
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

// keys gives the keys among a command's arguments, its name first.
func (entry *command) keys(arguments [][]byte) [][]byte {
	last := entry.last
	if last < 0 {
		last += len(arguments)
	}
	if entry.step == 1 {
		return arguments[entry.first : last+1]
	}
	var keys [][]byte
	for i := entry.first; i <= last; i += entry.step {
		keys = append(keys, arguments[i])
	}
	return keys
}

// deletes tells whether a write deletes its keys.
func (entry *command) deletes() bool { return entry.name == "del" || entry.name == "unlink" }

// fits tells whether a command of an arity may have `count` arguments, its name included.
func fits(arity, count int) bool { return count == arity || arity < 0 && count >= -arity }

// accepts tells whether a command may have `count` arguments, its name included.
func (entry *command) accepts(count int) bool { return fits(entry.arity, count) }
