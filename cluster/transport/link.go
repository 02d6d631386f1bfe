package transport

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// link sends messages to a peer. It lives from GetConnection to Close, over any number of
// connections. A goroutine dials, reads the connection until it ends, and dials again.
type link struct {
	transport *Transport
	target    string
	ctx       context.Context
	cancel    context.CancelFunc
	release   func() bool // lets go of dragonboat's context
	woken     chan struct{}

	mu sync.Mutex
	// Closed when the attempt to connect that is under way has ended. Messages wait for it if no
	// attempt has failed since the last connection.
	settled chan struct{}
	out     *writer // nil: there is no connection

	sending sync.Mutex // one batch at a time
}

// GetConnection gives a link at once. dragonboat calls it for the first message to a peer, and
// again when it has closed the link after a minute without messages.
//
// The link ends with the context. dragonboat closes the transport after that, and waits for
// messages that are being sent in between.
func (t *Transport) GetConnection(ctx context.Context, target string) (raftio.IConnection, error) {
	l := &link{transport: t, target: target, woken: make(chan struct{}, 1),
		settled: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(t.ctx)
	l.release = context.AfterFunc(ctx, l.cancel)
	t.mu.Lock()
	t.links[l] = struct{}{}
	t.mu.Unlock()
	if !t.run(l.connectForever) {
		l.settle(nil)
	}
	return l, nil
}

// Close ends the link.
func (l *link) Close() {
	l.release()
	l.cancel()
	l.transport.mu.Lock()
	delete(l.transport.links, l)
	l.transport.mu.Unlock()
}

// connectForever keeps a connection until the link is closed.
func (l *link) connectForever() {
	pause := time.Duration(0)
	for l.ctx.Err() == nil {
		conn, err := l.transport.dial(l.ctx, l.target, forMessages)
		if err != nil {
			l.settle(nil)
			if pause == 0 {
				l.transport.options.Logger.Warn("a node cannot be reached", "address", l.target,
					"error", err)
			}
			pause = pauseAfter(pause, 0)
			l.rest(pause)
			continue
		}
		if pause != 0 {
			l.transport.options.Logger.Info("a node is reached again", "address", l.target)
		}
		l.settle(&writer{conn: conn})
		began := time.Now()
		l.watch(conn)
		l.begin()
		if pause = pauseAfter(pause, time.Since(began)); pause > 0 {
			l.rest(pause)
		}
	}
	l.settle(nil)
}

// pauseAfter gives the pause before the next attempt to connect. A connection that has lived for a
// while is dialled again at once. A peer that ends connections as soon as they are there counts as
// one that cannot be reached.
func pauseAfter(before, lived time.Duration) time.Duration {
	if lived >= longestPause {
		return 0
	}
	return min(max(2*before, firstPause), longestPause)
}

// rest waits at random up to the pause, or until the peer has dialled this node.
func (l *link) rest(pause time.Duration) {
	timer := time.NewTimer(pause/2 + rand.N(pause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.woken:
	case <-l.ctx.Done():
	}
}

// watch reads the connection to its end. The peer sends nothing, so a read ends with the peer.
func (l *link) watch(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(l.ctx, func() { _ = conn.Close() })
	defer stop()
	_, _ = io.CopyN(io.Discard, conn, 1)
}

// settle ends an attempt to connect.
func (l *link) settle(out *writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	select {
	case <-l.settled:
	default:
		close(l.settled)
	}
}

// begin lets messages wait for the next connection, unless drop has done so.
func (l *link) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out, l.settled = nil, make(chan struct{})
	}
}

// await gives the connection, or nil if the peer cannot be reached.
func (l *link) await() *writer {
	l.mu.Lock()
	settled := l.settled
	l.mu.Unlock()
	<-settled
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out
}

// SendMessageBatch sends the messages, or drops them if the peer cannot be reached. A batch that
// was not sent whole has not been received, and is sent once more over a new connection.
func (l *link) SendMessageBatch(batch raftpb.MessageBatch) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	for range 2 {
		out := l.await()
		if out == nil {
			return nil
		}
		if err := out.write(messageFrame, nil, &batch, batch.SizeUpperLimit()); err == nil {
			return nil
		}
		l.drop(out)
	}
	return nil
}

// drop ends a connection that failed. Messages wait for the next one.
func (l *link) drop(out *writer) {
	l.mu.Lock()
	if l.out == out {
		l.out, l.settled = nil, make(chan struct{})
	}
	l.mu.Unlock()
	_ = out.conn.Close()
}
