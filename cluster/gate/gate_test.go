package gate

import (
	"net"
	"testing"
)

// fakeConn comes from an address, and remembers that it was closed.
type fakeConn struct {
	net.Conn
	address string
	closed  bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1}
}

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

func enter(g *Gate, address string) (*Stranger, *fakeConn) {
	c := &fakeConn{address: address}
	return g.Enter(c), c
}

func TestAFullSourceLosesItsOldestStranger(t *testing.T) {
	g := New(10, 2)
	_, other := enter(g, "192.0.2.1")
	_, first := enter(g, "192.0.2.2")
	_, second := enter(g, "192.0.2.2")
	_, third := enter(g, "192.0.2.2")
	if !first.closed || second.closed || third.closed || other.closed {
		t.Fatalf("closed: %v %v %v %v", first.closed, second.closed, third.closed, other.closed)
	}
	if g.Count() != 3 || g.Evicted() != 1 {
		t.Fatalf("%d strangers, %d evicted", g.Count(), g.Evicted())
	}
}

func TestAFullGateLosesAStrangerOfTheFullestSource(t *testing.T) {
	g := New(3, 2)
	_, alone := enter(g, "192.0.2.1")
	_, first := enter(g, "192.0.2.2")
	_, second := enter(g, "192.0.2.2")
	_, further := enter(g, "192.0.2.3")
	if alone.closed || !first.closed || second.closed || further.closed {
		t.Fatalf("closed: %v %v %v %v", alone.closed, first.closed, second.closed, further.closed)
	}
}

func TestWhoLeavesMakesRoom(t *testing.T) {
	g := New(2, 2)
	known, conn := enter(g, "192.0.2.1")
	known.Leave()
	known.Leave()
	for range 2 {
		if _, further := enter(g, "192.0.2.1"); further.closed {
			t.Fatal("a stranger was closed although there was room")
		}
	}
	if conn.closed || g.Count() != 2 {
		t.Fatalf("closed %v, %d strangers", conn.closed, g.Count())
	}
}

func TestClearClosesAll(t *testing.T) {
	g := New(10, 10)
	known, first := enter(g, "192.0.2.1")
	_, second := enter(g, "192.0.2.2")
	known.Leave()
	g.Clear()
	_, later := enter(g, "192.0.2.2")
	if first.closed || !second.closed || later.closed || g.Count() != 1 {
		t.Fatalf("closed: %v %v %v; %d strangers", first.closed, second.closed, later.closed, g.Count())
	}
}

func TestSourcesAreAddressesOrNetworks(t *testing.T) {
	g := New(10, 1)
	_, first := enter(g, "2001:db8::1")
	_, elsewhere := enter(g, "2001:db8:0:1::1")
	_, mapped := enter(g, "::ffff:192.0.2.1")
	enter(g, "2001:db8::2")
	enter(g, "192.0.2.1")
	if !first.closed || elsewhere.closed || !mapped.closed {
		t.Fatalf("closed: %v %v %v", first.closed, elsewhere.closed, mapped.closed)
	}
}

// TestAListenerCountsWhoIsSilent has a connection that becomes known, and one that ends.
func TestAListenerCountsWhoIsSilent(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listener{Listener: inner, Gate: New(3, 3)}
	defer l.Close()
	var accepted []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		served, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer served.Close()
		accepted = append(accepted, served)
	}
	Known(accepted[0])
	_ = accepted[1].Close()
	if count := l.Gate.Count(); count != 1 {
		t.Fatalf("%d strangers, not 1", count)
	}
}
