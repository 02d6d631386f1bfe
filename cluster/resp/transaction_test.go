package resp

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"engine_race/cluster/service"
)

// expectReplies does commands one by one, and compares their replies, or how they begin if the
// expectation ends with "...".
func expectReplies(t *testing.T, p *peer, steps [][2]string) {
	t.Helper()
	values := strings.NewReplacer("$1", valueText(1, 1), "$2", valueText(2, 1))
	for _, step := range steps {
		got, expected := p.do(strings.Fields(values.Replace(step[0]))...), values.Replace(step[1])
		prefix, open := strings.CutSuffix(expected, "...")
		if got != expected && !(open && strings.HasPrefix(got, prefix)) {
			t.Errorf("%.60s: got %.200q, expected %.200q", step[0], got, expected)
		}
	}
}

func TestTransaction(t *testing.T) {
	server, store, address := start(t, Options{})
	p := dial(t, address)
	expectReplies(t, p, [][2]string{
		{"EXEC", "-ERR EXEC without MULTI"}, {"DISCARD", "-ERR DISCARD without MULTI"},
		{"MULTI", "+OK"}, {"EXEC", "[]"},
		{"MULTI", "+OK"}, {"MULTI", "-ERR MULTI calls can not be nested"},
		{"SET k0000001 $1", "+QUEUED"}, {"GET k0000001", "+QUEUED"},
		{"DEL k0000001 k0000001 k", "+QUEUED"}, {"GET k0000001", "+QUEUED"},
		{"MSET k0000002 $2 k0000003 $1", "+QUEUED"}, {"MGET k k0000003 k0000002", "+QUEUED"},
		{"EXISTS k0000001 k0000002", "+QUEUED"}, {"TYPE k0000002", "+QUEUED"},
		{"HGET k0000002 f", "+QUEUED"}, {"HLEN k0000001", "+QUEUED"}, {"UNLINK k", "+QUEUED"},
		{"EXEC", "[+OK $1 :1 (nil) +OK [(nil) $1 $2] :1 +string -WRONGTYPE Operation against a key" +
			" holding the wrong kind of value :0 :0]"},
		{"EXEC", "-ERR EXEC without MULTI"}, {"GET k0000002", "$2"},
		// Reads alone.
		{"MULTI", "+OK"}, {"GET k0000002", "+QUEUED"}, {"GET k0000001", "+QUEUED"},
		{"TTL k", "+QUEUED"}, {"EXEC", "[$2 (nil) :-2]"},
		{"MULTI", "+OK"}, {"SET k0000002 $1", "+QUEUED"}, {"DISCARD", "+OK"}, {"GET k0000002", "$2"},
		{"MULTI", "+OK"}, {"SET k0000002 $1", "+QUEUED"}, {"RESET", "+RESET"},
		{"EXEC", "-ERR EXEC without MULTI"}, {"GET k0000002", "$2"},
		{"MULTI", "+OK"}, {"DEL k", "+QUEUED"}, {"EXEC", "[:0]"},
		{"HELLO 3", "{server..."}, {"MULTI", "+OK"}, {"GET k0000009", "+QUEUED"}, {"EXEC", "[(null)]"},
	})
	if got := store.transacts.Load(); got != 1 {
		t.Errorf("%d transactions of the service, expected 1", got)
	}
	if got := store.writes.Load(); got != 0 {
		t.Errorf("%d writes beside transactions", got)
	}
	store.damaged = map[uint64]bool{keyNumber("k0000002"): true}
	expectReplies(t, p, [][2]string{{"MULTI", "+OK"}, {"SET k0000003 $2", "+QUEUED"},
		{"GET k0000002", "+QUEUED"}, {"GET k0000003", "+QUEUED"},
		{"EXEC", "[+OK -CORRUPT the other commands were done: stored data failed its checksum $2]"}})
	if held := server.BytesInFlight(); held > int64(bufferBytes(1)+bufferBytes(2)) {
		t.Errorf("%d bytes are held after the transactions", held)
	}
}

// TestAbortedTransactions: a command that cannot be a part of a transaction ends it, and its EXEC
// changes nothing.
func TestAbortedTransactions(t *testing.T) {
	_, store, address := start(t, Options{})
	p := dial(t, address)
	for _, refused := range [][2]string{
		{"GET a0000001", "-ERR the keys of a transaction must lie in one shard..."},
		{"MGET k0000001 a0000001", "-ERR the keys of a transaction must lie in one shard..."},
		{"DEL k0000001 a0000001", "-ERR the keys of a transaction must lie in one shard..."},
		{"SET k0000001 x", "-ERR a key has 8 bytes and a value 4096, not 8 and 1"},
		{"SET k0000001 $1 EX 5", "-ERR SET takes a key and a value alone..."},
		{"SETNX k0000001 $1", "-ERR SETNX is not served..."},
		{"WATCH k0000001", "-ERR WATCH is not served..."},
		{"PING", "-ERR PING is not possible in a transaction..."},
		{"SCAN 0", "-ERR SCAN is not possible in a transaction..."},
		{"AUTH x", "-ERR AUTH is not possible in a transaction..."},
		{"NIX", "-ERR unknown command 'NIX'..."},
		{"GET", "-ERR wrong number of arguments for 'get' command"},
		{"EXEC now", "-ERR wrong number of arguments for 'exec' command"},
	} {
		expectReplies(t, p, [][2]string{{"MULTI", "+OK"}, {"SET k0000001 $1", "+QUEUED"}, refused,
			{"SET k0000002 $1", "+QUEUED"},
			{"EXEC", "-EXECABORT Transaction discarded because of previous errors."},
			{"EXEC", "-ERR EXEC without MULTI"}})
	}
	if store.transacts.Load()+store.writes.Load()+int64(len(store.records)) != 0 {
		t.Error("an aborted transaction was done")
	}
	// One that was refused leaves nothing behind, also for another shard.
	expectReplies(t, p, [][2]string{{"MULTI", "+OK"}, {"SET a0000001 $1", "+QUEUED"},
		{"EXEC", "[+OK]"}, {"GET k0000001", "(nil)"}})
}

func TestTransactionErrors(t *testing.T) {
	_, store, address := start(t, Options{})
	p := dial(t, address)
	for _, test := range []struct {
		err      error
		expected string
	}{
		{service.ErrUnavailable, "-UNAVAILABLE nothing was done..."},
		{service.ErrUnknown, "-UNKNOWN the write may or may not have been done..."},
		{service.ErrCorrupt, "-CORRUPT stored data failed its checksum, and the write may or..."},
	} {
		store.set(test.err, nil)
		expectReplies(t, p, [][2]string{{"MULTI", "+OK"}, {"SET k0000001 $1", "+QUEUED"},
			{"EXEC", test.expected}, {"EXEC", "-ERR EXEC without MULTI"}})
	}
	expectReplies(t, p, [][2]string{{"MULTI", "+OK"}, {"GET k0000001", "+QUEUED"},
		{"EXEC", "-CORRUPT nothing was done..."}})
}

// TestTransactionsAreBounded has clients that queue what the server may not hold.
func TestTransactionsAreBounded(t *testing.T) {
	limits := leastLimits()
	limits.CommandBytes = 1 << 20
	server, _, address := start(t, Options{Limits: limits})
	for name, words := range map[string][]string{
		"commands": {"GET", "k"}, "keys": {"MGET", keyText(1), keyText(2), keyText(3), keyText(4)},
		"bytes": {"SET", keyText(1), valueText(1, 1)},
	} {
		p := dial(t, address)
		p.do("MULTI")
		count, got := 0, "+QUEUED"
		for ; got == "+QUEUED"; count++ {
			got = p.do(words...)
		}
		if want := fmt.Sprintf("-ERR a transaction has at most 1024 commands, 1024 keys and %d",
			limits.CommandBytes); count > 1025 || !strings.HasPrefix(got, want) {
			t.Errorf("%s: command %d gets %q", name, count, got)
		}
		if got := p.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT") {
			t.Errorf("%s: %q", name, got)
		}
	}
	// What was refused holds nothing, and nothing is copied behind it.
	p := dial(t, address)
	p.do("MULTI")
	for i := range 32 {
		if i == 16 {
			p.do("NIX")
		}
		if got := p.do("SET", keyText(1), valueText(1, 1)); got != "+QUEUED" {
			t.Errorf("command %d of a transaction: %q", i, got)
		}
	}
	if held := server.BytesInFlight(); held > int64(bufferBytes(1)+bufferBytes(2)) {
		t.Errorf("%d bytes are held by a transaction that was refused", held)
	}
	others := server.budget.Open()
	defer others.Close()
	p = dial(t, address)
	p.do("MULTI")
	others.Force(limits.BytesInFlight)
	if got := p.do("GET", keyText(1)); !strings.HasPrefix(got, "-BUSY") {
		t.Errorf("without room: %q", got)
	}
	if got := p.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT") {
		t.Errorf("without room: %q", got)
	}
}

// TestOpenTransactionEndsInTime has a client that sends commands behind MULTI and never EXEC.
func TestOpenTransactionEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		server := startPiped(t, Options{Limits: Limits{CommandTimeout: timeout}})
		p := server.dial(t)
		for _, reply := range []string{"EXEC", "DISCARD"} {
			p.do("MULTI")
			time.Sleep(timeout * 3 / 4)
			p.do("GET", keyText(1))
			p.do(reply)
			time.Sleep(2 * timeout)
		}
		begin := time.Now()
		p.do("MULTI")
		for range 3 {
			time.Sleep(timeout / 4)
			p.do("GET", keyText(1))
		}
		if err := p.ended(); err != nil || time.Since(begin) != timeout {
			t.Errorf("it ends after %v: %v", time.Since(begin), err)
		}
		if got := server.server.Counters().ConnectionsSlow.Load(); got != 1 {
			t.Errorf("%d slow connections counted", got)
		}
	})
}
