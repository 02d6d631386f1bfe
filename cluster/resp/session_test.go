package resp

import (
	"crypto/sha256"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func passwords() map[string][sha256.Size]byte {
	return map[string][sha256.Size]byte{
		"default": sha256.Sum256([]byte("secret")), "ann": sha256.Sum256([]byte("word")),
	}
}

func TestAuthentication(t *testing.T) {
	server, _, address := start(t, Options{Users: passwords(),
		Limits: Limits{AuthDelay: time.Millisecond}})
	const noAuth, wrong = "-NOAUTH ", "-WRONGPASS invalid username-password pair or user is disabled."
	p := dial(t, address)
	for _, step := range []struct {
		words    []string
		expected string
	}{
		{[]string{"PING"}, noAuth},
		{[]string{"GET", "k0000001"}, noAuth},
		{[]string{"NIX"}, noAuth},
		{[]string{"HELLO"}, noAuth},
		{[]string{"HELLO", "2"}, noAuth},
		{[]string{"HELLO", "4", "AUTH", "default", "secret"}, "-NOPROTO"},
		{[]string{"PING"}, noAuth},
		{[]string{"AUTH", "wrong"}, wrong},
		{[]string{"AUTH", ""}, wrong},
		{[]string{"AUTH", "nobody", "secret"}, wrong},
		{[]string{"AUTH", "nobody", ""}, wrong},
		{[]string{"AUTH", "ann", "secret"}, wrong},
		{[]string{"AUTH", "a", "b", "c"}, "-ERR syntax error"},
		{[]string{"HELLO", "2", "AUTH", "ann", "wrong"}, wrong},
		{[]string{"PING"}, noAuth},
		{[]string{"AUTH", "secret"}, "+OK"},
		{[]string{"PING"}, "+PONG"},
		{[]string{"RESET"}, "+RESET"},
		{[]string{"PING"}, noAuth},
		{[]string{"AUTH", "ann", "word"}, "+OK"},
		{[]string{"CLIENT", "INFO"}, "id=1"},
		{[]string{"RESET"}, "+RESET"},
		{[]string{"HELLO", "2", "AUTH", "ann", "word", "SETNAME", "x"}, "[server"},
		{[]string{"CLIENT", "GETNAME"}, "x"},
		{[]string{"RESET"}, "+RESET"},
		{[]string{"HELLO", "3", "AUTH", "ann", "wrong", "SETNAME", "y"}, wrong},
		{[]string{"HELLO", "3", "AUTH", "ann", "word", "SETNAME", "y"}, "{server"},
		{[]string{"CLIENT", "GETNAME"}, "y"},
		{[]string{"AUTH", "wrong"}, wrong},
		{[]string{"PING"}, "+PONG"}, // As in Redis: a failure keeps the user there was.
	} {
		if got := p.do(step.words...); !strings.HasPrefix(got, step.expected) {
			t.Errorf("%q: got %q, expected %q", step.words, got, step.expected)
		}
	}
	if got := server.Counters().AuthFailures.Load(); got != 8 {
		t.Errorf("%d failures counted, expected 8", got)
	}
}

func TestPipelineBehindAuth(t *testing.T) {
	_, _, address := start(t, Options{Users: passwords()})
	p := dial(t, address)
	large := []string{"MSET"}
	for i := range uint64(20) {
		large = append(large, keyText(i), valueText(i, 1))
	}
	p.sendAll(encode("AUTH", "secret") + encode(large...) + encode("GET", keyText(1)))
	for _, expected := range []string{"+OK", "+OK", valueText(1, 1)} {
		if got := p.reply(); got != expected {
			t.Errorf("got %.80q, expected %.80q", got, expected)
		}
	}
}

func TestUnauthenticatedClientsSendLittle(t *testing.T) {
	_, _, address := start(t, Options{Users: passwords()})
	for _, text := range []string{"*1\r\n$20000\r\n", "*17\r\n"} {
		p := dial(t, address)
		p.send(text)
		if got := p.reply(); !strings.HasPrefix(got, "-ERR Protocol error: invalid") {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestWrongPasswordsAreDelayed(t *testing.T) {
	const delay = 20 * time.Millisecond
	_, _, address := start(t, Options{Users: passwords(), Limits: Limits{AuthDelay: delay}})
	p := dial(t, address)
	begin := time.Now()
	for range 3 {
		p.do("AUTH", "wrong")
	}
	if took := time.Since(begin); took < 6*delay {
		t.Errorf("3 wrong passwords took %v, less than %v", took, 6*delay)
	}
}

// TestStrangersEnd has clients that are connected and not authenticated, and one that is.
func TestStrangersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		server := startPiped(t, Options{Users: passwords(), Limits: Limits{CommandTimeout: timeout}})
		silent, busy, again, known := server.dial(t), server.dial(t), server.dial(t), server.dial(t)
		known.do("AUTH", "secret")
		again.do("AUTH", "secret")
		var err error
		for begin := time.Now(); err == nil && time.Since(begin) < 20*timeout; {
			busy.conn.Write([]byte(encode("PING"))) // The connection may have ended.
			_, err = busy.tryReply()
			time.Sleep(timeout / 8)
		}
		if err == nil {
			t.Error("a stranger that sends commands stays")
		}
		if err := silent.ended(); err != nil {
			t.Errorf("a silent stranger: %v", err)
		}
		again.do("RESET")
		if err := again.ended(); err != nil {
			t.Errorf("a client that is no longer known: %v", err)
		}
		if got := known.do("PING"); got != "+PONG" {
			t.Errorf("a client that is known: %q", got)
		}
	})
}

// TestWebPagesCannotWrite has requests as browsers send them, with a command in the body.
func TestWebPagesCannotWrite(t *testing.T) {
	body := encode("SET", keyText(1), valueText(1, 1))
	for _, users := range []map[string][sha256.Size]byte{nil, passwords()} {
		for _, head := range []string{
			"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
			"post /x HTTP/1.1\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: 127.0.0.1:7001\r\n\r\n",
			"PUT / HTTP/1.1\r\nhost: x\r\n\r\n",
			"OPTIONS / HTTP/1.1\r\nHOST: x\r\n\r\n",
			encode("POST", "/", "HTTP/1.1"),
		} {
			server, store, address := start(t, Options{Users: users})
			p := dial(t, address)
			p.sendAll(head + body)
			for {
				reply, err := p.tryReply()
				if err != nil {
					break
				}
				if !strings.HasPrefix(reply, "-") {
					t.Fatalf("%q: got %q", head, reply)
				}
			}
			if made := store.writes.Load(); made != 0 {
				t.Errorf("%q: the body was executed", head)
			}
			if got := server.Counters().ProtocolErrors.Load(); got != 1 {
				t.Errorf("%q: %d protocol errors counted", head, got)
			}
		}
	}
}
