package resp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"engine_race/cluster/testkit"
)

// heapBytes tells how much memory the process has taken from the system for its heap.
func heapBytes() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapSys
}

// watchHeap fails the test if the heap grows by more than `limit` until its end.
func watchHeap(t *testing.T, limit uint64) {
	runtime.GC()
	before := heapBytes()
	t.Cleanup(func() {
		if after := heapBytes(); after > before+limit {
			t.Errorf("the heap grew by %d bytes, more than %d", after-before, limit)
		}
	})
}

func TestBadRequestsEndTheConnection(t *testing.T) {
	watchHeap(t, 64<<20)
	server, _, address := start(t, Options{})
	for i, test := range [][2]string{
		{"*1000000000\r\n", "invalid multibulk length"},
		{"*9223372036854775807\r\n", "invalid multibulk length"},
		{"*99999999999999999999999\r\n", "invalid multibulk length"},
		{"*x\r\n", "invalid multibulk length"},
		{"*\r\n", "invalid multibulk length"},
		{"*1\r\n$2000000000\r\n", "invalid bulk length: a command has at most 8388608 bytes"},
		{"*1\r\n$9223372036854775807\r\nabc\r\n", "invalid bulk length"},
		{"*1\r\n$-1\r\n", "invalid bulk length"},
		{"*1\r\n$x\r\n", "invalid bulk length"},
		{"*1\r\n$" + strings.Repeat("1", 40), "invalid bulk length"},
		{"*1\r\nGET\r\n", "expected '$', got 'G'"},
		{"*1\r\n$3\r\nGETxx", "invalid bulk length"},
		{"*2\r\n$3\r\nGET\r\n:1\r\n", "expected '$', got ':'"},
		{"GET \"abc\r\n", "unbalanced quotes in request"},
		{"GET \"a\"b\r\n", "unbalanced quotes in request"},
		{strings.Repeat("x", BaseBufferBytes+1), "too big inline request"},
		{"*" + strings.Repeat("0", BaseBufferBytes), "too big inline request"},
		{"\x16\x03\x01\x02\x00\r\n", "ERR unknown command"},
	} {
		p := dial(t, address)
		p.send("PING\r\n" + test[0])
		if got := p.reply(); got != "+PONG" {
			t.Errorf("%.40q: the command before it: %q", test[0], got)
		}
		if got := p.reply(); !strings.Contains(got, test[1]) {
			t.Errorf("%.40q: got %q, expected %q", test[0], got, test[1])
		}
		if strings.Contains(test[1], "unknown") {
			continue
		}
		if err := p.ended(); err != nil {
			t.Errorf("%.40q: %v", test[0], err)
		}
		if got := server.Counters().ProtocolErrors.Load(); got != uint64(i+1) {
			t.Errorf("%.40q: %d protocol errors counted, expected %d", test[0], got, i+1)
		}
	}
}

func TestInlineCommandsAndEmptyOnes(t *testing.T) {
	_, _, address := start(t, Options{})
	p := dial(t, address)
	p.send("\r\n\n*0\r\n*-1\r\n  ping  \r\n" +
		`echo "a\x41\n\"b"` + "\r\necho 'it\\'s'\necho \"\"\r\n" + strings.Repeat("\r\n", 100_000) +
		"PING x\n")
	for _, expected := range []string{"+PONG", "aA\n\"b", "it's", "", "x"} {
		if got := p.reply(); got != expected {
			t.Errorf("got %q, expected %q", got, expected)
		}
	}
}

// TestEmptyCommandsTakeNoRoom has a client that is not known and sends nothing but empty commands.
func TestEmptyCommandsTakeNoRoom(t *testing.T) {
	server, _, address := start(t, Options{
		Users: map[string][sha256.Size]byte{defaultUser: sha256.Sum256([]byte("secret"))}})
	p := dial(t, address)
	text := strings.Repeat("\r\n*0\r\n", 300_000)
	p.send(text)
	testkit.Eventually(t, "the empty commands are read", func() bool {
		return server.Counters().BytesReceived.Load() == uint64(len(text))
	})
	if held := server.BytesInFlight(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	if got := p.do("AUTH", "secret"); got != "+OK" {
		t.Errorf("the command behind: %q", got)
	}
}

// TestEmptyCommandTakesNoTime sends an empty command in two parts, and much later another command
// in two parts.
func TestEmptyCommandTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		p := startPiped(t, Options{Limits: Limits{CommandTimeout: timeout}}).dial(t)
		for _, part := range []string{"\r", "\n"} {
			p.send(part)
			time.Sleep(timeout / 4)
		}
		time.Sleep(timeout)
		p.send("PI")
		time.Sleep(timeout / 4)
		p.send("NG\r\n")
		if got := p.reply(); got != "+PONG" {
			t.Errorf("got %q", got)
		}
	})
}

// TestByteByByte sends commands in parts of every size.
func TestByteByByte(t *testing.T) {
	_, _, address := start(t, Options{})
	text := encode("SET", keyText(1), valueText(1, 1)) + "GET " + keyText(1) + "\r\n" +
		encode("DEL", keyText(1))
	for _, part := range []int{1, 2, 3, 7, 1000} {
		p := dial(t, address)
		for rest := text; rest != ""; {
			count := min(part, len(rest))
			if part == 1 && len(rest) > 4000 && len(rest) < 8000 {
				count = min(500, len(rest)) // The middle of a value is dull.
			}
			p.send(rest[:count])
			rest = rest[count:]
		}
		for _, expected := range []string{"+OK", valueText(1, 1), ":1"} {
			if got := p.reply(); got != expected {
				t.Fatalf("parts of %d bytes: got %.80q, expected %.80q", part, got, expected)
			}
		}
	}
}

func TestHalfCommandEndsInTime(t *testing.T) {
	server, _, address := start(t, Options{Limits: Limits{CommandTimeout: 20 * time.Millisecond}})
	p := dial(t, address)
	p.send("*2\r\n$3\r\nGET\r\n$8\r\nabc")
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	if got := server.Counters().ConnectionsSlow.Load(); got != 1 {
		t.Errorf("%d slow connections counted", got)
	}
}

func TestHalfCommandDoesNotDelayRepliesBeforeIt(t *testing.T) {
	_, _, address := start(t, Options{})
	p := dial(t, address)
	p.send("PING\r\n*1\r\n$4\r\nPI")
	if got := p.reply(); got != "+PONG" {
		t.Errorf("got %q", got)
	}
	p.send("NG\r\n")
	if got := p.reply(); got != "+PONG" {
		t.Errorf("got %q", got)
	}
}

func TestIdleConnectionEnds(t *testing.T) {
	server, _, address := start(t, Options{Limits: Limits{IdleTimeout: 20 * time.Millisecond}})
	p := dial(t, address)
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	if got := server.Counters().ConnectionsIdle.Load(); got != 1 {
		t.Errorf("%d idle connections counted", got)
	}
}

func TestMillionPipelinedPings(t *testing.T) {
	watchHeap(t, 64<<20)
	server, _, address := start(t, Options{})
	p := dial(t, address)
	const count, block = 1_000_000, 10_000
	text := strings.Repeat("*1\r\n$4\r\nPING\r\n", block)
	go func() {
		for range count / block {
			if _, err := io.WriteString(p.conn, text); err != nil {
				return
			}
		}
	}()
	for i := range count {
		if got, err := p.reader.ReadString('\n'); got != "+PONG\r\n" {
			t.Fatalf("reply %d: %q %v", i, got, err)
		}
	}
	if got := server.Counters().Commands.Load(); got != count {
		t.Errorf("%d commands counted", got)
	}
}

// TestSlowReaderEnds has a client that asks for much and reads nothing.
func TestSlowReaderEnds(t *testing.T) {
	watchHeap(t, 128<<20)
	server, store, address := start(t, Options{Limits: Limits{WriteTimeout: 50 * time.Millisecond}})
	store.records[keyNumber(keyText(1))] = []byte(valueText(1, 1))
	p := dial(t, address)
	text := strings.Repeat(encode("GET", keyText(1)), 1000)
	p.sendAll(strings.Repeat(text, 100))
	testkit.Eventually(t, "the slow reader's connection ends", func() bool {
		return server.Counters().ConnectionsSlow.Load() == 1
	})
}

func TestTooManyClients(t *testing.T) {
	server, _, address := start(t, Options{Limits: Limits{Clients: 2}})
	first, second := dial(t, address), dial(t, address)
	first.do("PING")
	second.do("PING")
	third := dial(t, address)
	if got := third.reply(); got != "-ERR max number of clients reached" {
		t.Errorf("the third client got %q", got)
	}
	if err := third.ended(); err != nil {
		t.Error(err)
	}
	second.do("QUIT")
	testkit.Eventually(t, "a place is free", func() bool {
		return server.Counters().ConnectionsOpen.Load() == 1
	})
	if got := dial(t, address).do("PING"); got != "+PONG" {
		t.Errorf("a client after another left: %q", got)
	}
}

// leastLimits has commands of 1 MiB and no more bytes in flight than these need.
func leastLimits() Limits {
	limits := Limits{CommandBytes: 1 << 20}.withDefaults()
	limits.BytesInFlight = limits.leastBytesInFlight()
	return limits
}

// TestBusyWithoutRoom has clients that keep all bytes in flight by half commands. Another client's
// large command gets BUSY, and the connection goes on behind it.
func TestBusyWithoutRoom(t *testing.T) {
	limits := leastLimits()
	limits.BusyWait = 5 * time.Millisecond
	server, _, address := start(t, Options{Limits: limits})
	others := server.budget.Open()
	others.Force(limits.BytesInFlight)
	p := dial(t, address)
	large := []string{"MSET"}
	for i := range uint64(200) {
		large = append(large, keyText(i), valueText(i, 1))
	}
	p.sendAll(encode("PING") + encode(large...) + encode("PING") + encode("GET", keyText(1)) +
		encode(large...) + encode("PING"))
	const busy = "-BUSY nothing was done: too many bytes are in flight, try again"
	for i, expected := range []string{"+PONG", busy, "+PONG", busy, busy, "+PONG"} {
		if got := p.reply(); got != expected {
			t.Errorf("reply %d: got %q, expected %q", i, got, expected)
		}
	}
	for _, words := range [][]string{{"RANGE", "-", "+"}, {"SCAN", "0"}, {"CLIENT", "LIST"}} {
		if got := p.do(words...); got != busy {
			t.Errorf("%s: got %q", words[0], got)
		}
	}
	others.Close()
	p.sendAll(encode(large...))
	if got := p.reply(); got != "+OK" {
		t.Errorf("with room again: %q", got)
	}
}

// TestManyClientsHoldFewBytes has clients that each ask for more than their share.
func TestManyClientsHoldFewBytes(t *testing.T) {
	limits := leastLimits()
	limits.BusyWait, limits.RequestTimeout = 20*time.Second, 20*time.Second
	watchHeap(t, 8*uint64(limits.BytesInFlight))
	server, store, address := start(t, Options{Limits: limits})
	for i := range uint64(256) {
		store.records[keyNumber(keyText(i))] = []byte(valueText(i, 1))
	}
	var excess atomic.Int64
	store.set(nil, func(context.Context) {
		if held := server.BytesInFlight(); held > limits.BytesInFlight {
			excess.Store(held)
		}
	})
	const clients = 32
	done := make(chan error, clients)
	for range clients {
		p := dial(t, address)
		go func() {
			text := ""
			for i := range uint64(1000) {
				text += encode("GET", keyText(i%256))
			}
			go func() { _, _ = io.WriteString(p.conn, text) }()
			for range 1000 {
				got, err := p.tryReply()
				if err != nil || len(got) != 4096 {
					done <- fmt.Errorf("%.80q %w", got, errors.Join(err, errors.New("bad reply")))
					return
				}
			}
			done <- nil
		}()
	}
	for range clients {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	testkit.Eventually(t, "idle connections hold nothing", func() bool {
		return server.BytesInFlight() == 0
	})
	if held := excess.Load(); held > 0 {
		t.Errorf("%d bytes in flight", held)
	}
}

func TestRequestTimeoutReachesTheService(t *testing.T) {
	_, store, address := start(t, Options{Limits: Limits{RequestTimeout: 10 * time.Millisecond}})
	store.set(context.DeadlineExceeded, func(ctx context.Context) { <-ctx.Done() })
	p := dial(t, address)
	if got := p.do("SET", keyText(1), valueText(1, 1)); !strings.HasPrefix(got, "-UNKNOWN") {
		t.Errorf("SET: %q", got)
	}
	if got := p.do("GET", keyText(1)); !strings.HasPrefix(got, "-UNAVAILABLE") {
		t.Errorf("GET: %q", got)
	}
}

func TestLimitsAreValidated(t *testing.T) {
	for _, limits := range []Limits{
		{Clients: -1}, {CommandBytes: 1}, {CommandBytes: 1 << 31}, {CommandArguments: 2},
		{BytesInFlight: 1 << 20}, {PipelineBytes: 1 << 30}, {RequestTimeout: -1},
	} {
		if _, err := New(Options{Service: newFake(), Limits: limits}); err == nil {
			t.Errorf("%+v was accepted", limits)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no service was accepted")
	}
}
