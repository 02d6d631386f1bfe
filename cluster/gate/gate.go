// Package gate bounds the connections that have not yet shown who they are.
//
// Purpose: anybody who reaches a port can open connections and be silent. A Gate holds at most a
// number of such strangers, in total and from one source. A further one takes the place of the
// oldest stranger of its source, or of the source with the most strangers. So silent connections
// never keep out a peer or a user, who is a stranger for milliseconds.
//
// Thread safety: every method may be called from any goroutine.
//
// Ownership: a Gate closes the connections that it evicts. Their owner sees an error and calls
// Leave like for any other one.
package gate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits of a gate for nodes, operators and monitoring. A source is an IPv4 address, or the first
// 64 bits of an IPv6 address.
const (
	Total     = 256
	PerSource = 64
)

// Gate holds strangers. New makes one.
type Gate struct {
	total, perSource int

	mu        sync.Mutex
	count     int
	evicted   uint64
	strangers map[netip.Prefix][]*Stranger // of a source, the oldest first
}

// Stranger is a connection whose other side is not known yet.
type Stranger struct {
	gate   *Gate
	source netip.Prefix
	conn   net.Conn
}

// New makes a gate for `total` strangers, of which one source has `perSource` at most.
func New(total, perSource int) *Gate {
	return &Gate{total: total, perSource: perSource, strangers: map[netip.Prefix][]*Stranger{}}
}

// Enter counts a connection until Leave. It may close another one.
func (g *Gate) Enter(conn net.Conn) *Stranger {
	s := &Stranger{gate: g, source: sourceOf(conn.RemoteAddr()), conn: conn}
	g.mu.Lock()
	var evicted *Stranger
	switch {
	case len(g.strangers[s.source]) >= g.perSource:
		evicted = g.strangers[s.source][0]
	case g.count >= g.total:
		evicted = g.strangers[g.fullest()][0]
	}
	if evicted != nil {
		g.remove(evicted)
		g.evicted++
	}
	g.strangers[s.source] = append(g.strangers[s.source], s)
	g.count++
	g.mu.Unlock()
	if evicted != nil {
		_ = evicted.conn.Close()
	}
	return s
}

// Leave ends the count of the connection: it is known by now, or has ended. It may be called again,
// and for nil.
func (s *Stranger) Leave() {
	if s == nil {
		return
	}
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	s.gate.remove(s)
}

// Clear closes all strangers.
func (g *Gate) Clear() {
	g.mu.Lock()
	all := g.strangers
	g.strangers, g.count = map[netip.Prefix][]*Stranger{}, 0
	g.mu.Unlock()
	for _, some := range all {
		for _, s := range some {
			_ = s.conn.Close()
		}
	}
}

// Count tells how many strangers there are.
func (g *Gate) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// Evicted tells how many strangers others took the place of.
func (g *Gate) Evicted() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.evicted
}

// fullest gives the source with the most strangers.
func (g *Gate) fullest() netip.Prefix {
	var most netip.Prefix
	for source, all := range g.strangers {
		if len(all) > len(g.strangers[most]) {
			most = source
		}
	}
	return most
}

func (g *Gate) remove(s *Stranger) {
	all := g.strangers[s.source]
	at := slices.Index(all, s)
	if at < 0 {
		return
	}
	g.count--
	if len(all) == 1 {
		delete(g.strangers, s.source)
		return
	}
	g.strangers[s.source] = slices.Delete(all, at, at+1)
}

// sourceOf gives what one machine or one network can choose freely: all of an IPv4 address, the
// upper half of an IPv6 address. Addresses of other kinds count as one source.
func sourceOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// Between two attempts to accept.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// Accept gives the next connection of a listener. It tries again after errors that may pass: too
// many files are open, or the other side is gone. It fails when the listener is closed or ctx ends.
func Accept(ctx context.Context, listener net.Listener, logger *slog.Logger) (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		conn, err := listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return conn, err
		}
		logger.Warn("a connection was not accepted", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Listener lets connections of a listener pass through a gate. Each is a stranger until Known is
// called for it or it is closed.
type Listener struct {
	net.Listener
	Gate *Gate
}

// Accept waits for a connection.
func (l Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &passing{Conn: conn, stranger: l.Gate.Enter(conn)}, nil
}

type passing struct {
	net.Conn
	stranger *Stranger
}

// Close closes the connection, which may be a stranger still.
func (p *passing) Close() error {
	p.stranger.Leave()
	return p.Conn.Close()
}

// Known ends the count of a connection of a Listener, or of TLS over one.
func Known(conn net.Conn) {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if p, ok := conn.(*passing); ok {
		p.stranger.Leave()
	}
}
