// Package transport carries Raft's messages and snapshots between nodes, by TCP or mutual TLS.
//
// It takes the place of dragonboat's own transport. Nothing that strangers do may hold up, end or
// fill a node. Each connection has a goroutine for its handshake, with a deadline and a Gate. Sizes
// are checked before memory is taken, and a failed accept is repeated.
//
// A dead peer is known at once, because a goroutine reads each outgoing connection, and it is
// dialled again at once. After any error dragonboat leaves a peer alone for half a second or more.
// So a link returns no errors: it drops messages that it cannot send, as Raft permits.
//
// Both sides say who they are: the node's number, the number of the node that it wants, and the
// cluster. With TLS the certificate must be valid for the host of that node's Raft address.
//
// Thread safety: every method may be called from any goroutine.
//
// Ownership: dragonboat owns the Transport and its connections, and closes them.
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
	"golang.org/x/time/rate"

	"engine_race/cluster/gate"
)

const (
	connectTimeout   = time.Second     // of TCP's handshake
	handshakeTimeout = 5 * time.Second // of TLS's and of the greeting
	firstPause       = 10 * time.Millisecond
	longestPause     = 250 * time.Millisecond // between two attempts to reach a peer
)

// PeerConnections is how many connections one peer may have to a node. A further one takes the
// place of the oldest. A link is four connections, and each snapshot of maxSending takes one.
const PeerConnections = 32

// Peers knows the nodes. Its methods may be called from any goroutine, and do not block.
type Peers interface {
	// RaftAddress gives a node's address, or "" for a node that is not known.
	RaftAddress(node uint64) string
	// NodeAt gives the node with a Raft address, or 0.
	NodeAt(raftAddress string) uint64
	// OwnerOf gives the node of a replica, or 0.
	OwnerOf(shard, replica uint64) uint64
}

// Options of a Factory. Only Node and Peers are needed.
type Options struct {
	Node  uint64
	Peers Peers
	// Server and Client are the two sides of mutual TLS; Client is called for each connection. Nil:
	// plain TCP.
	Server *tls.Config
	Client func() *tls.Config
	// Secret is what all nodes of the cluster show when they dial. Empty: none.
	Secret string
	// SnapshotBytesPerSecond bounds what the node sends of snapshots; 0: no bound.
	SnapshotBytesPerSecond int64
	// Admit may refuse a chunk of a snapshot: the stream ends, or waits if the chunk is its first
	// one. dragonboat ends the process when it cannot write a chunk. Nil: all are taken.
	Admit func(chunk raftpb.Chunk) error
	// Refused is told of a chunk that was admitted, and that dragonboat refused. Its stream ends.
	Refused func(chunk raftpb.Chunk)
	Logger  *slog.Logger

	// Tests replace them.
	listen           func(address string) (net.Listener, error)
	handshakeTimeout time.Duration // for incoming connections
	refusedPause     time.Duration // until a snapshot is offered again
}

// Factory makes the transport of a node. It implements dragonboat's config.TransportFactory.
type Factory struct{ options Options }

// NewFactory makes a factory.
func NewFactory(options Options) *Factory {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.handshakeTimeout == 0 {
		options.handshakeTimeout = handshakeTimeout
	}
	if options.refusedPause == 0 {
		options.refusedPause = refusedPause
	}
	if options.listen == nil {
		options.listen = func(address string) (net.Listener, error) {
			return (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(context.Background(), "tcp",
				address)
		}
	}
	return &Factory{options: options}
}

// Create makes the transport; dragonboat calls it once.
func (f *Factory) Create(host config.NodeHostConfig, messages raftio.MessageHandler,
	chunks raftio.ChunkHandler) raftio.ITransport {
	t := &Transport{options: f.options, address: host.RaftAddress,
		listenAddress: host.GetListenAddress(), deployment: host.GetDeploymentID(),
		messages: messages, gate: gate.New(gate.Total, gate.PerSource),
		known: map[uint64][]net.Conn{}, links: map[*link]struct{}{},
		sending: map[string]chan struct{}{}}
	t.streams.handle, t.streams.active = chunks, map[streamID]*incoming{}
	if t.streams.admit = f.options.Admit; t.streams.admit == nil {
		t.streams.admit = func(raftpb.Chunk) error { return nil }
	}
	if t.streams.refused = f.options.Refused; t.streams.refused == nil {
		t.streams.refused = func(raftpb.Chunk) {}
	}
	limit, burst := rate.Inf, 0
	if f.options.SnapshotBytesPerSecond > 0 {
		limit, burst = rate.Limit(f.options.SnapshotBytesPerSecond), int(frameLimits[chunkFrame])
	}
	t.pace = rate.NewLimiter(limit, burst)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Validate says whether an address can be dialled.
func (*Factory) Validate(address string) bool { return ValidAddress(address) }

// ValidAddress says whether an address is host:port, with brackets around an IPv6 address. A zone
// belongs to one machine, so addresses with a zone are refused.
func ValidAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, " \t\r\n/@%") {
		return false
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return false
		}
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// Transport implements raftio.ITransport.
type Transport struct {
	options       Options
	address       string // of this node, as others know it
	listenAddress string
	deployment    uint64
	messages      raftio.MessageHandler
	gate          *gate.Gate
	pace          *rate.Limiter // of snapshots
	streams       incomingStreams

	ctx     context.Context // of all connections
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	listener net.Listener
	known    map[uint64][]net.Conn // incoming ones of a node, the oldest first
	links    map[*link]struct{}
	sending  map[string]chan struct{} // has a place for each snapshot to an address
}

// Name is for dragonboat's log.
func (t *Transport) Name() string { return "engine-raced" }

// Start listens.
func (t *Transport) Start() error {
	listener, err := t.options.listen(t.listenAddress)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.listener = listener
	t.mu.Unlock()
	t.workers.Go(func() { t.accept(listener) })
	return nil
}

// Close ends all connections and waits for their goroutines.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	listener := t.listener
	t.mu.Unlock()
	t.cancel()
	var err error
	if listener != nil {
		err = listener.Close()
	}
	t.workers.Wait()
	return err
}

// run starts a goroutine that Close waits for, unless the transport is closed.
func (t *Transport) run(work func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.workers.Go(work)
	return true
}

// accept takes connections until Close.
func (t *Transport) accept(listener net.Listener) {
	for {
		conn, err := gate.Accept(t.ctx, listener, t.options.Logger)
		switch {
		case err == nil:
			if !t.run(func() { t.receive(conn) }) {
				_ = conn.Close()
			}
		case t.ctx.Err() != nil:
			return
		default:
			t.options.Logger.Error("the raft port is closed", "error", err)
			return
		}
	}
}

// receive serves one incoming connection to its end.
func (t *Transport) receive(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(t.ctx, func() { _ = conn.Close() })
	defer stop()
	stranger := t.gate.Enter(conn)
	defer stranger.Leave()
	secure, greeting, err := t.greet(conn)
	if err != nil {
		t.options.Logger.Debug("a connection of a node was refused", "from",
			conn.RemoteAddr().String(), "error", err)
		return
	}
	stranger.Leave()
	t.know(greeting.From, conn)
	defer t.forget(greeting.From, conn)
	t.wake(greeting.Address)
	serve := t.receiveMessages
	if greeting.Purpose == forSnapshot {
		serve = t.receiveChunks
	}
	if err := serve(secure, greeting); errors.Is(err, errFrame) {
		t.options.Logger.Warn("a node's connection was ended", "node", greeting.From, "error", err)
	}
}

// know counts an incoming connection of a peer, and closes the peer's oldest one beyond the limit.
func (t *Transport) know(node uint64, conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.known[node], conn)
	if len(all) > PeerConnections {
		_ = all[0].Close()
		all = all[1:]
	}
	t.known[node] = all
}

func (t *Transport) forget(node uint64, conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.known[node]
	for i := range all {
		if all[i] == conn {
			t.known[node] = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if len(t.known[node]) == 0 {
		delete(t.known, node)
	}
}

// wake lets links to a peer dial at once: the peer has dialled, so it lives.
func (t *Transport) wake(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.links {
		if l.target == address {
			select {
			case l.woken <- struct{}{}:
			default:
			}
		}
	}
}

// receiveMessages hands batches to dragonboat.
func (t *Transport) receiveMessages(conn net.Conn, peer *greeting) error {
	in := reader{conn: conn, ahead: readAhead}
	for {
		payload, err := in.next(time.Time{}, messageFrame)
		if err != nil {
			return err
		}
		batch, err := t.decode(payload, peer)
		if err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		t.messages(batch)
	}
}
