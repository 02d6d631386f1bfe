package resp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"engine_race/cluster/testkit"
)

// TestClientsThatDoNotReadLeaveRoom has twenty clients that ask for much and read nothing. A small
// read beside them waits for nobody.
func TestClientsThatDoNotReadLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		large := []string{"MGET"}
		for i := range uint64(1000) {
			store.records[keyNumber(keyText(i))] = []byte(valueText(i, 1))
			large = append(large, keyText(i))
		}
		limits := leastLimits()
		limits.BusyWait, limits.WriteTimeout = time.Hour, time.Hour
		clients := startPiped(t, Options{Service: store, Limits: limits})
		var greedy []*peer
		for range 20 {
			p := clients.dial(t)
			p.send(encode(large...))
			greedy = append(greedy, p)
		}
		synctest.Wait()
		if calls := store.reads.Load(); calls == 0 || calls == 20 {
			t.Errorf("%d of 20 clients hold bytes: this test has too many or too few", calls)
		}
		begin := time.Now()
		small := clients.dial(t)
		if got := small.do("GET", keyText(1)); got != valueText(1, 1) {
			t.Errorf("got %.80q", got)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("the small read waited %v", waited)
		}
		for _, p := range greedy {
			p.conn.Close()
		}
	})
}

// TestStrangersHaveFewPlaces has more connections without a password than there are places.
func TestStrangersHaveFewPlaces(t *testing.T) {
	limits := Limits{Clients: 2 * strangersShare}
	places := limits.withDefaults().strangers()
	server, _, address := start(t, Options{Users: passwords(), Limits: limits})
	known := dial(t, address)
	known.do("AUTH", "secret")
	var silent []*peer
	for range places + 3 {
		p := dial(t, address)
		if got := p.do("PING"); !strings.HasPrefix(got, "-NOAUTH") {
			t.Errorf("a stranger got %q", got)
		}
		silent = append(silent, p)
	}
	for i, p := range silent[:3] {
		if _, err := p.tryReply(); err == nil {
			t.Errorf("the stranger %d is still connected", i)
		}
	}
	if got := server.StrangersEnded(); got != 3 {
		t.Errorf("%d strangers were ended", got)
	}
	if got := known.do("PING"); got != "+PONG" {
		t.Errorf("a user got %q", got)
	}
	if got := silent[3].do("AUTH", "secret"); got != "+OK" {
		t.Errorf("a stranger with a place got %q", got)
	}
	if got := dial(t, address).do("AUTH", "secret"); got != "+OK" {
		t.Errorf("a user who comes late got %q", got)
	}
	// A user that forgets its password is the youngest stranger.
	known.do("RESET")
	if got := known.do("AUTH", "secret"); got != "+OK" {
		t.Errorf("a user that was reset got %q", got)
	}
}

// TestStrangersTakeNoBytesOfUsers has strangers that send halves of commands.
func TestStrangersTakeNoBytesOfUsers(t *testing.T) {
	server, _, address := start(t, Options{Users: passwords()})
	half := "*2\r\n$4\r\nAUTH\r\n$15000\r\n" + strings.Repeat("x", 9000)
	for range 20 {
		dial(t, address).send(half)
	}
	testkit.Eventually(t, "the strangers hold bytes", func() bool {
		return server.strangersBudget.InUse() == int64(20*bufferBytes(1))
	})
	if held := server.budget.InUse(); held != 0 {
		t.Errorf("strangers hold %d bytes of users", held)
	}
	user := dial(t, address)
	user.sendAll(encode("AUTH", "secret") + encode("SET", keyText(1), valueText(1, 1)) +
		strings.Repeat(encode("SET", keyText(2), valueText(2, 1)), 3) + "*2\r\n$4\r\nECHO\r\n$20000\r\n" +
		strings.Repeat("x", 10000))
	for range 5 {
		if got := user.reply(); got != "+OK" {
			t.Errorf("a user got %q", got)
		}
	}
	testkit.Eventually(t, "the user holds bytes of users", func() bool {
		return server.budget.InUse() == int64(bufferBytes(1))
	})
	user.send(strings.Repeat("x", 10000) + "\r\n" + encode("RESET"))
	user.reply()
	user.reply()
	testkit.Eventually(t, "nothing is held", func() bool { return server.budget.InUse() == 0 })
}

// TestResetGivesAStrangerNoTime has one that sends RESET before its time is over, again and again.
func TestResetGivesAStrangerNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second // a peer has a minute
		clients := startPiped(t, Options{Users: passwords(),
			Limits: Limits{CommandTimeout: timeout}})
		begin := time.Now()
		p := clients.dial(t)
		for {
			if _, err := p.conn.Write([]byte(encode("RESET"))); err != nil {
				break
			}
			if _, err := p.tryReply(); err != nil {
				break
			}
			time.Sleep(timeout / 7)
		}
		if lasted := time.Since(begin); lasted < timeout || lasted > timeout+timeout/7 {
			t.Errorf("the connection ended after %v", lasted)
		}
		// A user that was known has the time again.
		user := clients.dial(t)
		_ = user.conn.SetDeadline(time.Time{}) // It would end at the moment of the last command.
		user.do("AUTH", "secret")
		time.Sleep(timeout + time.Second)
		user.do("RESET")
		time.Sleep(timeout - time.Second)
		if got := user.do("AUTH", "secret"); got != "+OK" {
			t.Errorf("a user that was reset got %q", got)
		}
	})
}

// TestArgumentsCount has a command of many empty arguments while there is no room for them.
func TestArgumentsCount(t *testing.T) {
	limits := leastLimits()
	server, _, address := start(t, Options{Limits: limits})
	others := server.budget.Open()
	p := dial(t, address)
	text := fmt.Sprintf("*%d\r\n", 16000) + strings.Repeat("$0\r\n\r\n", 16000)
	others.Force(limits.BytesInFlight - int64(bufferBytes(1)+bufferBytes(2)+bufferBytes(3)))
	held := server.budget.InUse()
	p.sendAll(text + encode("PING"))
	if got := p.reply(); !strings.HasPrefix(got, "-BUSY") {
		t.Errorf("got %.80q", got)
	}
	if got := p.reply(); got != "+PONG" {
		t.Errorf("the command behind it got %.80q", got)
	}
	testkit.Eventually(t, "the client holds nothing",
		func() bool { return server.budget.InUse() == held })
	others.Close()
	p.sendAll(text)
	if got := p.reply(); !strings.HasPrefix(got, "-ERR unknown command") {
		t.Errorf("with room: %.80q", got)
	}
}

// TestWritesHoldTheirCopies looks at the bytes in flight while the service writes.
func TestWritesHoldTheirCopies(t *testing.T) {
	server, store, address := start(t, Options{})
	held := int64(0)
	store.set(nil, func(context.Context) { held = server.BytesInFlight() })
	p := dial(t, address)
	words := []string{"MSET"}
	for i := range uint64(100) {
		words = append(words, keyText(i), valueText(i, 1))
	}
	p.sendAll(encode(words...))
	if got := p.reply(); got != "+OK" {
		t.Errorf("got %q", got)
	}
	copies := int64(writeCopies * 100 * 4096)
	if buffer := int64(bufferBytes(3)); held < buffer+copies || held > buffer+copies+copies/4 {
		t.Errorf("%d bytes are in flight, %d of a buffer and %d of copies", held, buffer, copies)
	}
}
