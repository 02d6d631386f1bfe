package resp

import (
	"context"
	"time"
)

// The deadlines of connections and calls are set rarely: a timer costs as much as a small read. So
// most come up to a sixteenth of their wait later than they could.

// lateness is how much later than after `wait` a deadline may be.
func lateness(wait time.Duration) time.Duration { return wait / 16 }

// later gives a deadline in at least `wait`: the present one if that will do.
func later(present time.Time, wait time.Duration) time.Time {
	now := time.Now()
	if left := present.Sub(now); left >= wait && left <= wait+lateness(wait) {
		return present
	}
	return now.Add(wait + lateness(wait))
}

// readUntil sets the deadline of reads, unless it is the one that is set. While the server drains,
// another goroutine may have set one.
func (c *client) readUntil(deadline time.Time) error {
	if deadline.Equal(c.readDeadline) && !c.server.draining.Load() {
		return nil
	}
	c.readDeadline = deadline
	return c.conn.SetReadDeadline(deadline)
}

// writeUntil sets the deadline of writes, unless it is the one that is set.
func (c *client) writeUntil(deadline time.Time) error {
	if deadline.Equal(c.writeDeadline) {
		return nil
	}
	c.writeDeadline = deadline
	return c.conn.SetWriteDeadline(deadline)
}

// callContext is the context of calls that begin within a short time. None of them cancels it.
type callContext struct {
	context.Context
	cancel   context.CancelFunc
	deadline time.Time
}

// callContext gives the context of a call that begins now.
func (s *Server) callContext() context.Context {
	call := s.call.Load()
	if call != nil && later(call.deadline, s.limits.RequestTimeout).Equal(call.deadline) {
		return call.Context
	}
	next := &callContext{deadline: later(time.Time{}, s.limits.RequestTimeout)}
	next.Context, next.cancel = context.WithDeadline(s.context, next.deadline)
	// Of several that are made at one time one is kept.
	s.call.Store(next)
	return next.Context
}
