package admin

import (
	"net/http"
	"time"
)

// WithBodyTimeout returns the options with a shorter time for bodies.
func (o Options) WithBodyTimeout(timeout time.Duration) Options {
	o.bodyTimeout = timeout
	return o
}

// WithHeaderTimeout returns the options with another time in which a connection may be silent.
func (o Options) WithHeaderTimeout(timeout time.Duration) Options {
	o.headerTimeout = timeout
	return o
}

// WithStopPatience returns the options with another time for calls that a shutdown finds.
func (o Options) WithStopPatience(patience time.Duration) Options {
	o.stopPatience = patience
	return o
}

// Serve handles a request as if it had come on a connection.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) { s.admin.Handler.ServeHTTP(w, r) }
