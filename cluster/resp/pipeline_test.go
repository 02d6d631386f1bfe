package resp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"engine_race/cluster/service"
)

// sendAll sends from a goroutine, so that large replies do not block.
func (p *peer) sendAll(text string) {
	go func() { _, _ = p.conn.Write([]byte(text)) }()
}

func TestPipelineRepliesInOrder(t *testing.T) {
	_, store, address := start(t, Options{})
	p := dial(t, address)
	var text strings.Builder
	var expected []string
	add := func(reply string, words ...string) {
		text.WriteString(encode(words...))
		expected = append(expected, reply)
	}
	// Each command's reply depends on those before it, over several rounds and all ways of joining.
	version := map[uint64]int{}
	for i := range 3000 {
		number := uint64(i*7919) % 50
		current := "(nil)"
		if version[number] > 0 {
			current = valueText(number, version[number])
		}
		switch i % 11 {
		case 0, 1, 2, 3:
			version[number] = i + 1
			add("+OK", "SET", keyText(number), valueText(number, i+1))
		case 4:
			existed := ":0"
			if version[number] > 0 {
				existed = ":1"
			}
			version[number] = 0
			add(existed, "DEL", keyText(number), keyText(number), keyText(99))
		case 5:
			version[number] = i + 1
			add("+OK", "MSET", keyText(number), valueText(number, i),
				keyText(number), valueText(number, i+1))
		case 6:
			add("-ERR a key has 8 bytes and a value 4096, not 3 and 3", "SET", "bad", "bad")
		case 7:
			add("["+current+" (nil)]", "MGET", keyText(number), keyText(99))
		case 8:
			add("+PONG", "PING")
		default:
			add(current, "GET", keyText(number))
		}
	}
	p.sendAll(text.String())
	for i, reply := range expected {
		if got := p.reply(); got != reply {
			t.Fatalf("reply %d is %.80q, expected %.80q", i, got, reply)
		}
	}
	if store.largest.Load() < 2 {
		t.Error("no writes were joined")
	}
}

func TestPipelineJoinsReads(t *testing.T) {
	_, store, address := start(t, Options{})
	p := dial(t, address)
	var text strings.Builder
	for i := range uint64(200) {
		text.WriteString(encode("GET", keyText(i)))
	}
	p.send(text.String()) // Less than the socket's buffers: it comes at once.
	for range 200 {
		p.reply()
	}
	if calls := store.reads.Load(); calls > 100 {
		t.Errorf("200 pipelined GETs took %d reads", calls)
	}
}

// TestWriteGroups checks how one round's writes become calls.
func TestWriteGroups(t *testing.T) {
	server, store, _ := start(t, Options{})
	makeRequest := func(words ...string) request {
		r := request{command: server.table.find([]byte(words[0]))}
		for _, word := range words {
			r.arguments = append(r.arguments, []byte(word))
		}
		return r
	}
	sets := func(numbers ...uint64) (requests []request) {
		for _, number := range numbers {
			requests = append(requests, makeRequest("SET", keyText(number), valueText(number, 1)))
		}
		return requests
	}
	var sequence []uint64
	for i := range uint64(groupWriteOps) {
		sequence = append(sequence, i)
	}
	wide := []string{"MSET"}
	for i := range uint64(2 * groupWriteOps) {
		wide = append(wide, keyText(1000+i), valueText(i, 1))
	}
	for _, test := range []struct {
		name     string
		requests []request
		replied  int
		groups   int
	}{
		{"one group", sets(sequence...), groupWriteOps, 1},
		{"a key twice in one group", sets(1, 1, 2), 3, 1},
		{"two groups", sets(append(sequence, 100)...), groupWriteOps + 1, 2},
		{"a key of the first group", sets(append(sequence, 5, 101)...), groupWriteOps, 1},
		{"behind a new group", sets(append(sequence, 100, 5)...), groupWriteOps + 1, 2},
		{"twice in the second", sets(append(sequence, 100, 100)...), groupWriteOps + 2, 2},
		{"a wide MSET", append(sets(1), makeRequest(wide...)), 2, 2},
		{"until a read", append(sets(1), makeRequest("GET", keyText(1))), 1, 1},
		{"until an error", append(sets(1), makeRequest("SET", "x", "y")), 1, 1},
	} {
		c := &client{server: server, authed: true, account: server.budget.Open()}
		if replied := c.executeWrites(test.requests); replied != test.replied {
			t.Errorf("%s: %d requests, expected %d", test.name, replied, test.replied)
		}
		if len(c.batch.groups) != test.groups {
			t.Errorf("%s: %d groups, expected %d", test.name, len(c.batch.groups), test.groups)
		}
		if got := strings.Count(string(c.out), "+OK\r\n"); got != test.replied {
			t.Errorf("%s: %d replies, expected %d", test.name, got, test.replied)
		}
	}
	if store.counted.Load() != 0 {
		t.Error("writes without DEL were counted")
	}
}

// TestWriteGroupsAreConcurrent has a service whose calls wait for each other.
func TestWriteGroupsAreConcurrent(t *testing.T) {
	server, store, _ := start(t, Options{})
	var requests []request
	for i := range uint64(3 * groupWriteOps) {
		requests = append(requests, request{command: server.table.find([]byte("set")),
			arguments: [][]byte{[]byte("set"), []byte(keyText(i)), []byte(valueText(i, 1))}})
	}
	var together sync.WaitGroup
	together.Add(3)
	store.set(nil, func(ctx context.Context) {
		together.Done()
		together.Wait()
	})
	c := &client{server: server, authed: true, account: server.budget.Open()}
	if replied := c.executeWrites(requests); replied != len(requests) {
		t.Errorf("%d requests, expected %d", replied, len(requests))
	}
}

func TestJointErrorGoesToEachCommand(t *testing.T) {
	_, store, address := start(t, Options{})
	store.set(fmt.Errorf("%w: lost", service.ErrUnknown), nil)
	p := dial(t, address)
	p.sendAll(encode("SET", keyText(1), valueText(1, 1)) + encode("DEL", keyText(2)) +
		encode("GET", keyText(1)) + encode("EXISTS", keyText(1)))
	for i, expected := range []string{"-UNKNOWN", "-UNKNOWN", "-UNAVAILABLE", "-UNAVAILABLE"} {
		if got := p.reply(); !strings.HasPrefix(got, expected) {
			t.Errorf("reply %d is %q, expected %s", i, got, expected)
		}
	}
}

func TestObserverSeesEveryCommand(t *testing.T) {
	var mutex sync.Mutex
	seen := map[string]int{}
	failed := 0
	_, _, address := start(t, Options{Observer: func(command string, seconds float64, err error) {
		mutex.Lock()
		defer mutex.Unlock()
		seen[command]++
		if err != nil {
			failed++
		}
	}})
	p := dial(t, address)
	p.send(encode("GET", keyText(1)) + encode("get", keyText(1)) + encode("GET") +
		encode("NIX") + encode("DEL", keyText(1)) + encode("PING"))
	for range 6 {
		p.reply()
	}
	p.do("QUIT")
	mutex.Lock()
	defer mutex.Unlock()
	if seen["get"] != 3 || seen["unknown"] != 1 || seen["del"] != 1 || seen["ping"] != 1 {
		t.Errorf("observed %v", seen)
	}
	if failed != 2 {
		t.Errorf("%d failures observed, expected 2", failed)
	}
}
