package resp

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"engine_race/cluster/testkit"
)

func TestShutdownClosesIdleConnections(t *testing.T) {
	server, _, address := start(t, Options{})
	p := dial(t, address)
	p.do("PING")
	if err := server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("a connection was accepted after Shutdown")
	}
}

// TestShutdownLetsRequestsEnd has a call of the service under way, a command behind it, and another
// connection that sends requests while the server drains.
func TestShutdownLetsRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		clients := startPiped(t, Options{Service: store, Limits: Limits{DrainIdle: 3 * time.Second}})
		p, other := clients.dial(t), clients.dial(t)
		other.do("PING")
		leave := make(chan struct{})
		store.set(nil, func(context.Context) { <-leave })
		p.send(encode("SET", keyText(1), valueText(1, 1)))
		ended := make(chan error, 1)
		go func() { ended <- clients.server.Shutdown(context.Background()) }()
		synctest.Wait()
		for range 10 {
			if got := other.do("PING"); got != "+PONG" {
				t.Errorf("a request while the server drains: %q", got)
			}
			time.Sleep(2 * time.Second)
		}
		go p.send(encode("PING"))
		synctest.Wait()
		store.set(nil, nil)
		close(leave)
		for _, expected := range []string{"+OK", "+PONG"} {
			if got := p.reply(); got != expected {
				t.Errorf("got %q, expected %q", got, expected)
			}
		}
		for _, peer := range []*peer{p, other} {
			if err := peer.ended(); err != nil {
				t.Error(err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownAtItsDeadline has a call that ends when it is cancelled, and half a command.
func TestShutdownAtItsDeadline(t *testing.T) {
	server, store, address := start(t, Options{Limits: Limits{RequestTimeout: time.Hour}})
	entered := make(chan struct{})
	store.set(context.Canceled, func(ctx context.Context) {
		close(entered)
		<-ctx.Done()
	})
	p, half := dial(t, address), dial(t, address)
	half.do("PING")
	half.send("*1\r\n$4\r\nPI")
	p.send(encode("SET", keyText(1), valueText(1, 1)))
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	if got := p.reply(); !strings.HasPrefix(got, "-UNKNOWN the write may or may not") {
		t.Errorf("the call under way: %q", got)
	}
	for _, peer := range []*peer{p, half} {
		if err := peer.ended(); err != nil {
			t.Error(err)
		}
	}
}

// TestShutdownWaitsForNoStranger has a silent TLS handshake, and half a command of a client without
// a password. A Shutdown that waits for them ends only with its context.
func TestShutdownWaitsForNoStranger(t *testing.T) {
	own, pool := certificate(t)
	server, _, address := start(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{own}},
		Users: map[string][sha256.Size]byte{"default": sha256.Sum256([]byte("secret"))}})
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	half := newPeer(t, conn)
	half.send("*1\r\n$4\r\nPI")
	testkit.Eventually(t, "both are connected", func() bool {
		counters := server.Counters()
		return counters.ConnectionsOpen.Load() == 2 && counters.BytesReceived.Load() > 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Shutdown(ctx) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Shutdown waits for strangers")
	}
}

// TestShutdownFailsNoCall has a client that is never silent when the time is over.
func TestShutdownFailsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		clients := startPiped(t, Options{Service: store, Limits: Limits{DrainIdle: 3 * time.Second}})
		var cancelled atomic.Int64
		store.set(nil, func(ctx context.Context) {
			select {
			case <-ctx.Done():
				cancelled.Add(1)
			case <-time.After(20 * time.Millisecond):
			}
		})
		p := clients.dial(t)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		ended := make(chan error, 1)
		p.do("SET", keyText(1), valueText(1, 0))
		go func() { ended <- clients.server.Shutdown(ctx) }()
		got := "+OK"
		for i := 1; got == "+OK"; i++ {
			got = p.do("SET", keyText(1), valueText(1, i))
		}
		if got != "-UNAVAILABLE nothing was done: the node is stopping" {
			t.Errorf("got %q", got)
		}
		if err := p.ended(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if got := cancelled.Load(); got != 0 {
			t.Errorf("%d calls were cancelled", got)
		}
	})
}

func TestServeAfterClose(t *testing.T) {
	server, err := New(Options{Service: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(listener); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}
