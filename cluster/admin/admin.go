// Package admin serves operators, monitoring and load balancers over HTTP.
//
// Purpose: health, status, metrics and the operator's calls of one node. The admin address has all
// endpoints, with mutual TLS if there is a TLS configuration. The metrics address has health and
// metrics alone, without TLS, for programs that have no client certificate.
//
// Thread safety: every method of Server may be called from any goroutine.
//
// Ownership: the Server owns its listeners from Start to Shutdown. The Control, the registry and
// the logger stay the caller's.
package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"engine_race/cluster/gate"
	"engine_race/cluster/service"
)

const (
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 30 * time.Second // to receive a request and to send an answer
	idleTimeout    = 2 * time.Minute
	statusTimeout  = 5 * time.Second // of the Status behind a scrape
	stopPatience   = 2 * time.Second // for calls under way when the context of Shutdown has ended
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 64 << 10
)

// Options has what a Server needs. Zero time-outs stand for the defaults of package config.
type Options struct {
	// Address is where all endpoints are served, as host:port. Port 0 takes a free one.
	Address string
	// MetricsAddress is where health and metrics are served without TLS. Empty: nowhere.
	MetricsAddress string
	// TLS is for Address. Nil: plain HTTP.
	TLS *tls.Config
	// Secret is what nodes and operators show, as package secret does. It may be empty with a
	// TLS that demands certificates.
	Secret string
	// Hosts are names of this node, in lower case. Requests without TLS are for one of them, or for
	// an IP address.
	Hosts   []string
	Control service.Control
	// Registry gets the server's metrics. Nil: a new one.
	Registry *prometheus.Registry
	// Sources give further metrics, as of the RESP server.
	Sources []Source
	// Gatherer gives metrics that others have made. Nil: none.
	Gatherer prometheus.Gatherer
	// BackupDir contains all backups. Empty: backups and restores are refused.
	BackupDir string
	Logger    *slog.Logger
	// Timeout bounds a call of an operator, BackupTimeout a backup or a restore.
	Timeout, BackupTimeout time.Duration

	// Tests change them.
	bodyTimeout, headerTimeout, stopPatience time.Duration
}

// Server is the HTTP server of one node.
type Server struct {
	options  Options
	logger   *slog.Logger
	requests *prometheus.CounterVec
	mux      *http.ServeMux
	admin    *http.Server
	metrics  *http.Server

	copying sync.Mutex // held by the one backup or restore that is under way

	mutex           sync.Mutex
	adminListener   net.Listener
	metricsListener net.Listener
	stopped         atomic.Bool
	serving         sync.WaitGroup
}

// New makes a server that does not listen yet. It fails if the registry refuses its metrics.
func New(options Options) (*Server, error) {
	if options.Control == nil {
		return nil, errors.New("admin: needs a Control")
	}
	if options.Secret == "" && (options.TLS == nil ||
		options.TLS.ClientAuth != tls.RequireAndVerifyClientCert) {
		return nil, errors.New("admin: needs a Secret, or a TLS that demands certificates")
	}
	if options.BackupDir != "" && !filepath.IsAbs(options.BackupDir) {
		return nil, fmt.Errorf("admin: backup_dir %q is not absolute", options.BackupDir)
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Registry == nil {
		options.Registry = prometheus.NewRegistry()
	}
	if options.Timeout <= 0 {
		options.Timeout = 30 * time.Second
	}
	if options.BackupTimeout <= 0 {
		options.BackupTimeout = time.Hour
	}
	if options.bodyTimeout <= 0 {
		options.bodyTimeout = bodyTimeout
	}
	if options.stopPatience <= 0 {
		options.stopPatience = stopPatience
	}
	if options.headerTimeout <= 0 {
		options.headerTimeout = headerTimeout
	}
	s := &Server{options: options, logger: options.Logger, mux: http.NewServeMux()}
	if err := s.registerMetrics(); err != nil {
		return nil, err
	}
	s.addEndpoints()
	s.admin = s.newHTTPServer(s.mux)
	s.admin.TLSConfig = options.TLS
	plain := http.NewServeMux()
	s.addHealth(plain)
	plain.Handle("/", s.bound(s.options.bodyTimeout, http.HandlerFunc(notFound)))
	s.metrics = s.newHTTPServer(plain)
	return s, nil
}

func (s *Server) newHTTPServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           s.checkHost(handler),
		ReadHeaderTimeout: s.options.headerTimeout,
		ReadTimeout:       s.options.bodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		ErrorLog:          log.New(httpLog{s.logger}, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// httpLog takes the messages of net/http. Most of them are about clients, such as failed
// handshakes. A panic of a handler is the node's own fault.
type httpLog struct{ logger *slog.Logger }

func (l httpLog) Write(message []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.HasPrefix(message, []byte("http: panic")) {
		level = slog.LevelError
	}
	l.logger.Log(context.Background(), level, string(bytes.TrimSpace(message)))
	return len(message), nil
}

// Handle adds an endpoint for the POSTs of nodes to the admin address. The handler has
// BackupTimeout; it sets shorter time-outs and limits of the body itself. Like http.ServeMux,
// Handle panics if there is such an endpoint. Only callers that may operate the cluster reach the
// handler, and none when Shutdown was called.
func (s *Server) Handle(path string, handler http.Handler) {
	s.mux.Handle(path, s.guard(path, http.MethodPost, s.options.BackupTimeout,
		s.private(s.whileServing(handler))))
}

// whileServing refuses requests that come after Shutdown was called, before their bodies are read.
// net/http may close a connection on which a request has just come. Its caller would get no answer
// to a call that was carried out.
func (s *Server) whileServing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopped.Load() {
			writeError(w, http.StatusMisdirectedRequest, "unavailable", "the node is stopping")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bound gives the handler a time-out. It replaces the deadlines of the connection. net/http cancels
// the context of a request when its ReadTimeout ends, even while the handler works. It also keeps
// deadlines of an earlier request on the connection.
func (s *Server) bound(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		extend(w, timeout+s.options.bodyTimeout)
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// extend moves both deadlines of the connection. Only connections without deadlines refuse that.
func extend(w http.ResponseWriter, timeout time.Duration) {
	controller := http.NewResponseController(w)
	deadline := time.Now().Add(timeout)
	_ = controller.SetReadDeadline(deadline)
	_ = controller.SetWriteDeadline(deadline)
}

// Start listens, and serves in the background until Shutdown. It may be called once.
func (s *Server) Start() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.stopped.Load() || s.adminListener != nil {
		return errors.New("admin: the server was started or stopped before")
	}
	listener, err := listen(s.options.Address, s.admin)
	if err != nil {
		return fmt.Errorf("admin_address: %w", err)
	}
	if s.options.MetricsAddress != "" {
		s.metricsListener, err = listen(s.options.MetricsAddress, s.metrics)
		if err != nil {
			_ = listener.Close()
			return fmt.Errorf("metrics_address: %w", err)
		}
		s.serve(func() error { return s.metrics.Serve(s.metricsListener) })
	}
	s.adminListener = listener
	s.serve(func() error {
		if s.options.TLS != nil {
			return s.admin.ServeTLS(listener, "", "")
		}
		return s.admin.Serve(listener)
	})
	return nil
}

// listen gives a listener on which silent connections do not keep others out. The server closes
// them when it stops: net/http would wait for them.
func listen(address string, server *http.Server) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	strangers := gate.New(gate.Total, gate.PerSource)
	server.RegisterOnShutdown(strangers.Clear)
	return gate.Listener{Listener: listener, Gate: strangers}, nil
}

func (s *Server) serve(run func() error) {
	s.serving.Go(func() {
		if err := run(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.logger.Error("the admin server stopped", "error", err.Error())
		}
	})
}

// Address returns the host:port where all endpoints are served: "" before Start.
func (s *Server) Address() string { return s.addressOf(&s.adminListener) }

// MetricsAddress returns the host:port without TLS: "" if there is none.
func (s *Server) MetricsAddress() string { return s.addressOf(&s.metricsListener) }

func (s *Server) addressOf(listener *net.Listener) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if *listener == nil {
		return ""
	}
	return (*listener).Addr().String()
}

// Shutdown stops listening, refuses further calls of nodes, and waits for the calls under way. When
// the context ends first, these have stopPatience more: the outcome of a write that is cut off is
// unknown. Then Shutdown closes their connections, which cancels their contexts, and returns the
// context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mutex.Lock()
	s.stopped.Store(true)
	s.mutex.Unlock()
	err := s.admin.Shutdown(ctx)
	if err != nil {
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.stopPatience)
		defer cancel()
		if s.admin.Shutdown(patient) == nil {
			err = nil
		}
	}
	if metricsErr := s.metrics.Shutdown(ctx); err == nil {
		err = metricsErr
	}
	if err != nil {
		err = errors.Join(err, s.admin.Close(), s.metrics.Close())
	}
	s.serving.Wait()
	return err
}
