package admin

import "time"

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
