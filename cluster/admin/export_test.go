package admin

import "time"

// WithBodyTimeout returns the options with a shorter time for bodies.
func (o Options) WithBodyTimeout(timeout time.Duration) Options {
	o.bodyTimeout = timeout
	return o
}
