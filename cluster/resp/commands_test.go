package resp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"engine_race/cluster/service"
)

func TestCommands(t *testing.T) {
	_, _, address := start(t, Options{})
	p := dial(t, address)
	value, other := valueText(1, 1), valueText(2, 1)
	const sizes = "-ERR a key has 8 bytes and a value 4096"
	steps := []struct {
		words    []string
		expected string // a prefix, if it ends with "..."
	}{
		{[]string{"GET", "k0000001"}, "(nil)"},
		{[]string{"SET", "k0000001", value}, "+OK"},
		{[]string{"gEt", "k0000001"}, value},
		{[]string{"SET", "k", "abc"}, sizes + ", not 1 and 3"},
		{[]string{"SET", "k0000001", "abc"}, sizes + ", not 8 and 3"},
		{[]string{"SET", "k0000001", value + "x"}, sizes + ", not 8 and 4097"},
		{[]string{"GET", "k"}, "(nil)"},
		{[]string{"DEL", "k", "another key"}, ":0"},
		{[]string{"MGET", "k", "k0000001", ""}, "[(nil) " + value + " (nil)]"},
		{[]string{"EXISTS", "k", "k0000001"}, ":1"},
		{[]string{"TYPE", "k0000001"}, "+string"},
		{[]string{"TYPE", "k0000009"}, "+none"},
		{[]string{"TYPE", "k"}, "+none"},
		{[]string{"STRLEN", "k0000001"}, ":4096"},
		{[]string{"STRLEN", "k0000009"}, ":0"},
		{[]string{"TTL", "k0000001"}, ":-1"},
		{[]string{"TTL", "k0000009"}, ":-2"},
		{[]string{"PTTL", "k0000001"}, ":-1"},
		{[]string{"PTTL", "k"}, ":-2"},
		{[]string{"SETNX", "k0000001", value}, "-ERR SETNX is not served: it depends on what is..."},
		{[]string{"EXPIRE", "k0000001", "9"}, "-ERR EXPIRE is not served: nothing expires here"},
		{[]string{"WATCH", "k0000001"}, "-ERR WATCH is not served: it makes writes depend on what..."},
		{[]string{"UNWATCH"}, "+OK"},
		{[]string{"HGET", "k0000001", "f"}, "-WRONGTYPE Operation against a key holding..."},
		{[]string{"HGET", "k0000009", "f"}, "(nil)"},
		{[]string{"HMGET", "k0000009", "f", "g"}, "[(nil) (nil)]"},
		{[]string{"HGETALL", "users"}, "[]"},
		{[]string{"LLEN", "k0000009"}, ":0"},
		{[]string{"LRANGE", "k0000009", "0", "-1"}, "[]"},
		{[]string{"LPOP", "k0000009"}, "(nil)"},
		{[]string{"SMEMBERS", "k0000009"}, "[]"},
		{[]string{"ZSCORE", "k0000009", "m"}, "(nil)"},
		{[]string{"SSCAN", "k0000009", "0"}, "[0 []]"},
		{[]string{"HGET", "k0000009"}, "-ERR wrong number of arguments for 'hget' command"},
		{[]string{"LPUSH", "k0000009", "x"}, "-ERR LPUSH is not served: every value is a string"},
		{[]string{"SET", "k0000001", value, "EX", "1"}, "-ERR SET takes a key and a value alone..."},
		{[]string{"SET", "k0000001", value, "NX"}, "-ERR SET takes a key and a value alone..."},
		{[]string{"SET", "k0000001"}, "-ERR wrong number of arguments for 'set' command"},
		{[]string{"GET"}, "-ERR wrong number of arguments for 'get' command"},
		{[]string{"MSET", "k0000001", value, "k0000002", other}, "+OK"},
		{[]string{"MSET", "k0000001", value, "k0000002"},
			"-ERR wrong number of arguments for 'mset' command"},
		{[]string{"MGET", "k0000002", "k0000003", "k0000001"},
			"[" + other + " (nil) " + value + "]"},
		{[]string{"EXISTS", "k0000001", "k0000002", "k0000003", "k0000001"}, ":3"},
		{[]string{"DBSIZE"}, ":2"},
		{[]string{"SCAN", "0"}, "[0 [k0000001 k0000002]]"},
		{[]string{"RANGE", "-", "+"}, "[k0000001 " + value + " k0000002 " + other + "]"},
		{[]string{"RANGE", "k0000001", "k0000002"}, "[k0000001 " + value + "]"},
		{[]string{"RANGE", "k0000001", "+", "limit", "1"}, "[k0000001 " + value + "]"},
		{[]string{"RANGE", "+", "-"}, "[]"},
		{[]string{"RANGE", "k0000002", "k0000001"}, "[]"},
		{[]string{"RANGE", "a", "+"}, sizes + ", but this key has 1"},
		{[]string{"RANGE", "-", "+", "LIMIT", "0"}, "-ERR LIMIT is a number from 1 to 4073"},
		{[]string{"RANGE", "-", "+", "LIMIT", "4074"}, "-ERR LIMIT is a number from 1 to 4073"},
		{[]string{"RANGE", "-", "+", "LIMIT"}, "-ERR syntax error"},
		{[]string{"DEL", "k0000001", "k0000003", "k0000001"}, ":1"},
		{[]string{"UNLINK", "k0000002", "k0000003"}, ":1"},
		{[]string{"PING"}, "+PONG"},
		{[]string{"PING", "x"}, "x"},
		{[]string{"PING", "x", "y"}, "-ERR wrong number of arguments for 'ping' command"},
		{[]string{"ECHO", "a\r\nb"}, "a\r\nb"},
		{[]string{"INFO"}, "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n..."},
		{[]string{"INFO", "cluster"}, "# Cluster\r\nnode_id:1\r\n"},
		{[]string{"INFO", "cluster", "replication"}, "# Replication\r\nrole:master\r\n" +
			"connected_slaves:0\r\nmaster_repl_offset:0\r\n\r\n# Cluster\r\nnode_id:1\r\n"},
		{[]string{"INFO", "persistence"}, "# Persistence\r\nloading:0\r\n"},
		{[]string{"CONFIG", "GET", "save"}, "[save ]"},
		{[]string{"CONFIG", "GET", "APPENDONLY", "max?emory", "maxmemory"},
			"[appendonly yes maxmemory 0]"},
		{[]string{"CONFIG", "GET", "maxclients"}, "[maxclients 10000]"},
		{[]string{"CONFIG", "GET", "nix"}, "[]"},
		{[]string{"CONFIG", "GET"}, "-ERR wrong number of arguments for 'config|get' command"},
		{[]string{"CONFIG", "SET", "save", ""}, "-ERR CONFIG SET is not served: the file of..."},
		{[]string{"CONFIG", "NIX"}, "-ERR unknown subcommand 'NIX'..."},
		{[]string{"KEYS", "k*2"}, "[]"},
		{[]string{"COMMAND", "INFO", "get", "nix"},
			"[[get :2 [+readonly +fast] :1 :1 :1 [] [] [] []] (nil)]"},
		{[]string{"COMMAND", "GETKEYS", "MSET", "a", "b", "c", "d"}, "[a c]"},
		{[]string{"COMMAND", "GETKEYS", "PING"}, "-ERR The command has no key arguments"},
		{[]string{"COMMAND", "GETKEYS", "NIX"}, "-ERR Invalid command specified"},
		{[]string{"COMMAND", "DOCS", "get"}, "[get [summary Returns the value of a key..."},
		{[]string{"COMMAND"}, "[[get :2 ..."},
		{[]string{"COMMAND", "NIX"}, "-ERR unknown subcommand 'NIX'..."},
		{[]string{"CLIENT", "GETNAME"}, "(nil)"},
		{[]string{"CLIENT", "SETNAME", "me"}, "+OK"},
		{[]string{"CLIENT", "SETNAME", "m e"}, "-ERR Client names cannot contain spaces..."},
		{[]string{"CLIENT", "GETNAME"}, "me"},
		{[]string{"CLIENT", "ID"}, ":1"},
		{[]string{"CLIENT", "SETINFO", "lib-name", "go"}, "+OK"},
		{[]string{"CLIENT", "SETINFO", "nix", "go"}, "-ERR Unrecognized option 'nix'"},
		{[]string{"CLIENT", "LIST"}, "id=1 addr=127.0.0.1:..."},
		{[]string{"CLIENT", "INFO"}, "id=1 addr=127.0.0.1:..."},
		{[]string{"CLIENT", "NO-EVICT", "on"}, "+OK"},
		{[]string{"CLIENT", "REPLY", "OFF"}, "-ERR CLIENT REPLY is always ON..."},
		{[]string{"CLIENT", "REPLY", "ON"}, "+OK"},
		{[]string{"CLIENT", "ID", "x"}, "-ERR wrong number of arguments for 'client|id' command"},
		{[]string{"CLIENT", "LIST", "ID", "7", "1"}, "id=1 addr=127.0.0.1:..."},
		{[]string{"CLIENT", "LIST", "ID", "7"}, ""},
		{[]string{"CLIENT", "LIST", "TYPE", "normal"}, "id=1 addr=127.0.0.1:..."},
		{[]string{"CLIENT", "LIST", "TYPE", "replica"}, ""},
		{[]string{"CLIENT", "LIST", "TYPE", "nix"}, "-ERR Unknown client type 'nix'"},
		{[]string{"CLIENT", "LIST", "NIX"}, "-ERR syntax error"},
		{[]string{"HELLO", "4"}, "-NOPROTO unsupported protocol version"},
		{[]string{"HELLO", "x"}, "-ERR Protocol version is not an integer or out of range"},
		{[]string{"HELLO", "2", "SETNAME", "you"},
			"[server redis version 7.0.0 proto :2 id :1 mode standalone role master modules []]"},
		{[]string{"CLIENT", "GETNAME"}, "you"},
		{[]string{"SELECT", "0"}, "+OK"},
		{[]string{"SELECT", "1"}, "-ERR DB index is out of range"},
		{[]string{"AUTH", "x"}, "-ERR AUTH <password> called without any password..."},
		{[]string{"READONLY"}, "+OK"},
		{[]string{"READWRITE"}, "+OK"},
		{[]string{"RESET"}, "+RESET"},
		{[]string{"NIX", "a", "b"},
			"-ERR unknown command 'NIX', with args beginning with: 'a' 'b' "},
		{[]string{"QUIT"}, "+OK"},
	}
	for _, step := range steps {
		got := p.do(step.words...)
		prefix, open := strings.CutSuffix(step.expected, "...")
		if got != step.expected && !(open && strings.HasPrefix(got, prefix)) {
			t.Errorf("%.100q: got %.200q, expected %.200q", step.words, got, step.expected)
		}
	}
	if err := p.ended(); err != nil {
		t.Errorf("after QUIT: %v", err)
	}
}

func TestScanArguments(t *testing.T) {
	_, store, address := start(t, Options{})
	for i := range uint64(100) {
		store.records[keyNumber(keyText(i))] = []byte(valueText(i, 0))
	}
	p := dial(t, address)
	for _, test := range [][3]string{
		{"SCAN 0 MATCH k000000[1-3] COUNT 100", "[0 [k0000001 k0000002 k0000003]]"},
		{"SCAN 0 MATCH *99 COUNT 1000", "[0 [k0000099]]"},
		{"SCAN 0 match k00000?5 count 100", "[0 [k0000005 k0000015 k0000025 k0000035 k0000045" +
			" k0000055 k0000065 k0000075 k0000085 k0000095]]"},
		{"SCAN x", "-ERR invalid cursor"},
		{"SCAN -1", "-ERR invalid cursor"},
		{"SCAN 18446744073709551615", "-ERR invalid cursor"},
		{"SCAN 9007199254740992", "-ERR invalid cursor"},
		{"SCAN 9007199254740991", "[0 []]"},
		{"SCAN 0 MATCH *99 COUNT 1000 TYPE STRING", "[0 [k0000099]]"},
		{"SCAN 0 TYPE list COUNT 1000", "[0 []]"},
		{"SCAN 0 COUNT 0", "-ERR syntax error"},
		{"SCAN 0 COUNT x", "-ERR value is not an integer or out of range"},
		{"SCAN 0 MATCH", "-ERR syntax error"},
		{"SCAN 0 NIX 1", "-ERR syntax error"},
	} {
		if got := p.do(strings.Fields(test[0])...); got != test[1] {
			t.Errorf("%s: got %q, expected %q", test[0], got, test[1])
		}
	}
	long := p.do("SCAN", "0", "MATCH", strings.Repeat("*", patternBytes+1))
	if !strings.HasPrefix(long, "-ERR a pattern has at most 1024 bytes") {
		t.Errorf("a long pattern: %q", long)
	}
}

func keyNumber(text string) uint64 {
	number, isKey := key([]byte(text))
	if !isKey {
		panic(text)
	}
	return number
}

func TestServiceErrors(t *testing.T) {
	server, store, address := start(t, Options{})
	p := dial(t, address)
	wrapped := func(err error) error { return fmt.Errorf("%w: shard 7", err) }
	tests := []struct {
		err         error
		write, read string
	}{
		{wrapped(service.ErrUnknown), "-UNKNOWN the write may or may not have been done: shard 7",
			"-UNAVAILABLE nothing was done: the read failed: shard 7"},
		{fmt.Errorf("%w: 1 of 2 shards failed: %w", service.ErrUnknown, service.ErrUnavailable),
			"-UNKNOWN the write may or may not have been done: 1 of 2 shards failed",
			"-UNAVAILABLE nothing was done: "},
		{wrapped(service.ErrUnavailable), "-UNAVAILABLE nothing was done: ", "-UNAVAILABLE nothing was"},
		{service.ErrBusy, "-BUSY nothing was done: ", "-BUSY nothing was done: "},
		{service.ErrFull, "-FULL nothing was done: ", "-FULL nothing was done: "},
		{service.ErrLoading, "-LOADING nothing was done: ", "-LOADING nothing was done: "},
		{service.ErrCorrupt, "-CORRUPT stored data failed its checksum, and the write may or may not",
			"-CORRUPT nothing was done: stored data failed its checksum"},
		{context.DeadlineExceeded, "-UNKNOWN the write may or may not have been done: the time",
			"-UNAVAILABLE nothing was done: the read failed"},
		{fmt.Errorf("new\r\nline"), "-UNKNOWN the write may or may not have been done: new  line",
			"-UNAVAILABLE nothing was done: the read failed: new  line"},
	}
	for _, test := range tests {
		store.set(test.err, nil)
		expect := func(expected string, words ...string) {
			t.Helper()
			if got := p.do(words...); !strings.HasPrefix(got, expected) {
				t.Errorf("%v, %s: got %q, expected %q", test.err, words[0], got, expected)
			}
		}
		expect(test.write, "SET", keyText(1), valueText(1, 1))
		expect(test.write, "MSET", keyText(1), valueText(1, 1))
		expect(test.write, "DEL", keyText(1))
		expect(test.read, "GET", keyText(1))
		expect(test.read, "MGET", keyText(1))
		expect(test.read, "EXISTS", keyText(1))
		expect(test.read, "SCAN", "0")
		expect(test.read, "RANGE", "-", "+")
		expect(test.read, "DBSIZE")
	}
	counters := server.Counters()
	if got := counters.RepliesUnknown.Load(); got != 12 {
		t.Errorf("%d replies UNKNOWN were counted, expected 12", got)
	}
	if got := counters.RepliesBusy.Load(); got != 9 {
		t.Errorf("%d replies BUSY were counted, expected 9", got)
	}
}

func TestReadOnlyReadsLocally(t *testing.T) {
	_, store, address := start(t, Options{})
	p, other := dial(t, address), dial(t, address)
	p.do("READONLY")
	p.do("GET", keyText(1))
	other.do("GET", keyText(1))
	if got := store.local.Load(); got != 1 {
		t.Fatalf("%d local reads, expected 1", got)
	}
	p.do("READWRITE")
	p.do("GET", keyText(1))
	p.do("READONLY")
	p.do("RESET")
	p.do("GET", keyText(1))
	if got := store.local.Load(); got != 1 {
		t.Fatalf("%d local reads after READWRITE and RESET, expected 1", got)
	}
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		expected      bool
	}{
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"a*c", "abbc", true},
		{"a*c", "abb", false}, {"?", "", false}, {"[abc]", "b", true}, {"[^abc]", "b", false},
		{"[a-c]x", "bx", true}, {"[c-a]", "b", true}, {`\*`, "*", true}, {`\*`, "a", false},
		{`[\]]`, "]", true}, {"[a", "a", true}, {"*a*b*", "xxaxxbxx", true}, {"[]", "a", false},
		{"a**", "a", true}, {`\`, `\`, true}, {"\x00*", "\x00\xff", true}, {"[^]", "a", true},
	} {
		if got := matchGlob([]byte(test.pattern), []byte(test.text)); got != test.expected {
			t.Errorf("%q on %q: %v", test.pattern, test.text, got)
		}
	}
}
