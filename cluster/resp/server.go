package resp

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"engine_race/cluster/budget"
	"engine_race/cluster/gate"
	"engine_race/cluster/service"
)

// Options configures a Server. Service is required.
type Options struct {
	Service service.Service
	Limits  Limits
	// Budget has the bytes in flight of known clients; the node's calls may share it. Nil: a new one,
	// Limits.Budget().
	Budget *budget.Budget
	// TLS encrypts all connections; nil: none.
	TLS *tls.Config
	// Users has the SHA-256 of each user's password. "default" is the user of AUTH without a name.
	// Without users no client needs to authenticate.
	Users map[string][sha256.Size]byte
	// Logger gets refusals and failures; nil: slog.Default().
	Logger *slog.Logger
	// Observer learns of every command; nil: none.
	Observer Observer
}

// Server serves clients of one or more listeners.
type Server struct {
	service  service.Service
	limits   Limits
	sizes    sizes
	tls      *tls.Config
	users    map[string][sha256.Size]byte
	began    time.Time
	logger   *slog.Logger
	observer Observer

	table  *commandTable
	budget *budget.Budget
	// Of clients that are in a TLS handshake, or have not shown a password that they need: their
	// connections and bytes. So they take none of the users'.
	strangers       *gate.Gate
	strangersBudget *budget.Budget

	pools    bufferPools
	counters Counters

	call     atomic.Pointer[callContext]
	context  context.Context // the parent of all calls' contexts
	cancel   context.CancelFunc
	draining atomic.Bool // no new connections; idle ones end
	stopping atomic.Bool // connections end when their round has ended
	refusals chan struct{}

	mutex     sync.Mutex
	listeners map[net.Listener]struct{}
	clients   map[*client]struct{}
	pending   map[net.Conn]struct{} // in a TLS handshake
	lastID    uint64
	running   sync.WaitGroup // goroutines of connections
}

// ErrClosed is what Serve answers when the server was stopped before.
var ErrClosed = errors.New("resp: the server is closed")

// New makes a server. It refuses limits that cannot work.
func New(options Options) (*Server, error) {
	if options.Service == nil {
		return nil, errors.New("resp: Options.Service is nil")
	}
	limits := options.Limits.withDefaults()
	if err := limits.validate(); err != nil {
		return nil, err
	}
	logger := options.Logger
	if logger == nil {
		logger = slog.Default()
	}
	users := make(map[string][sha256.Size]byte, len(options.Users))
	for name, hash := range options.Users {
		users[name] = hash
	}
	s := &Server{
		service: options.Service, limits: limits, tls: options.TLS,
		sizes: sizesOf(options.Service.ValueBytes()), users: users,
		began: time.Now(), logger: logger, observer: options.Observer, table: newCommandTable(),
		listeners: map[net.Listener]struct{}{}, clients: map[*client]struct{}{},
		pending: map[net.Conn]struct{}{}, refusals: make(chan struct{}, 16),
	}
	// No bound for a source: all users of a proxy come from one.
	s.strangers = gate.New(limits.strangers(), limits.strangers())
	s.strangersBudget = budget.New(limits.strangersBytes())
	if s.budget = options.Budget; s.budget == nil {
		s.budget = limits.Budget()
	}
	s.context, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Counters gives the server's counters.
func (s *Server) Counters() *Counters { return &s.counters }

// StrangersEnded tells how many connections ended because too many others came that were not known
// either.
func (s *Server) StrangersEnded() uint64 { return s.strangers.Evicted() }

// BytesInFlight tells how many bytes of requests and replies are held for clients.
func (s *Server) BytesInFlight() int64 { return s.budget.InUse() + s.strangersBudget.InUse() }

// Serve accepts clients until Shutdown or Close, then answers nil. It closes the listener.
func (s *Server) Serve(listener net.Listener) error {
	s.mutex.Lock()
	if s.draining.Load() {
		s.mutex.Unlock()
		return errors.Join(ErrClosed, listener.Close())
	}
	s.listeners[listener] = struct{}{}
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		delete(s.listeners, listener)
		s.mutex.Unlock()
		_ = listener.Close() // Shutdown may have closed it.
	}()
	for {
		conn, err := gate.Accept(s.context, listener, s.logger)
		switch {
		case err == nil:
			s.accept(conn)
		case s.draining.Load():
			return nil
		default:
			return fmt.Errorf("resp: accept: %w", err)
		}
	}
}

// accept starts a connection's goroutine, or refuses the connection.
func (s *Server) accept(conn net.Conn) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.draining.Load() {
		_ = conn.Close()
		return
	}
	raw := conn
	if s.tls != nil {
		conn = tls.Server(conn, s.tls)
	}
	if len(s.clients)+len(s.pending) >= s.limits.Clients {
		s.counters.ConnectionsRefused.Add(1)
		s.refuse(conn, raw)
		return
	}
	s.counters.ConnectionsAccepted.Add(1)
	s.counters.ConnectionsOpen.Add(1)
	s.pending[raw] = struct{}{}
	var place *gate.Stranger
	if s.tls != nil || len(s.users) > 0 {
		place = s.strangers.Enter(raw)
	}
	s.running.Go(func() {
		defer s.counters.ConnectionsOpen.Add(-1)
		s.serveConnection(conn, raw, place)
	})
}

// refuse tells a client that there are too many. If many are being told, it only closes the
// connection.
func (s *Server) refuse(conn, raw net.Conn) {
	select {
	case s.refusals <- struct{}{}:
	default:
		_ = raw.Close()
		return
	}
	go func() {
		defer func() { <-s.refusals }()
		_ = raw.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(redcon.AppendError(nil, string(errMaxClients)))
		closeGently(conn)
	}()
}

// serveConnection serves one connection to its end. A stranger has a place.
func (s *Server) serveConnection(conn, raw net.Conn, place *gate.Stranger) {
	err := s.handshake(conn)
	s.mutex.Lock()
	delete(s.pending, raw)
	_ = raw.SetDeadline(time.Time{}) // A drain limits handshakes.
	if err != nil || s.stopping.Load() {
		s.mutex.Unlock()
		place.Leave()
		_ = raw.Close()
		return
	}
	s.lastID++
	c := &client{
		server: s, conn: conn, id: s.lastID, since: time.Now(),
		protocol: 2, user: defaultUser, authed: len(s.users) == 0, stranger: time.Now(), place: place,
	}
	c.buffer, c.spans = s.pools.take(0), make([]span, 0, baseSpans)
	c.reset()
	if c.authed {
		c.account, c.place = s.budget.Open(), nil
		place.Leave()
	} else {
		c.account = s.strangersBudget.Open()
	}
	s.clients[c] = struct{}{}
	s.mutex.Unlock()

	s.finish(c, c.serve())
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.clients, c)
	c.place.Leave()
}

// handshake does TLS's, within CommandTimeout.
func (s *Server) handshake(conn net.Conn) error {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.context, s.limits.CommandTimeout)
	defer cancel()
	err := secure.HandshakeContext(ctx)
	if err != nil {
		s.counters.HandshakesFailed.Add(1)
		s.logger.Debug("a TLS handshake failed", "client", conn.RemoteAddr().String(), "error", err)
	}
	return err
}

// finish ends a connection that served until `err`.
func (s *Server) finish(c *client, err error) {
	var protocol protocolError
	switch {
	case errors.As(err, &protocol):
		s.counters.ProtocolErrors.Add(1)
		s.logger.Debug("a request could not be parsed", "client", c.conn.RemoteAddr().String(),
			"error", err)
		c.fail(err)
		c.flush()
		closeGently(c.conn)
	case err == nil || errors.Is(err, errDrained):
		closeGently(c.conn)
	default:
		_ = c.conn.Close() // The connection is broken, or its client has closed it.
	}
}

func (s *Server) snapshotClients() []*client {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clients := make([]*client, 0, len(s.clients))
	for c := range s.clients {
		clients = append(clients, c)
	}
	return clients
}
