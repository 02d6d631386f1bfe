package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"engine_race/cluster/service"
)

// A write that is sent to the leader's node can arrive late. Links hold back what TCP repeats, and
// a stopped process has requests in its buffers. Its client may have given up by then and have
// written again. So the sender says until when the leader may propose it, by the leader's own
// clock. No two clocks are compared. Answers tell the sender how far the leader's clock is. The
// sender adds the time that its own clock has counted since. An estimate is never ahead of the
// leader's clock, if the clocks run equally fast to one part in a thousand.
//
// A leader that is stopped between the look at its clock and the proposal is caught by the token of
// the command: see package replica.
const (
	clockHeader = "Engine-Race-Clock"
	untilQuery  = "until"
	// Clocks may drift apart by one part in this number.
	driftShare = 1000
)

// clock counts milliseconds since the start of this process, under a name that no other start has.
type clock struct {
	name  string
	start time.Time
}

func newClock() clock { return clock{name: rand.Text(), start: time.Now()} }

func (c *clock) text() string { return c.at(time.Since(c.start).Milliseconds()) }

func (c *clock) at(ms int64) string { return c.name + "." + strconv.FormatInt(ms, 10) }

// errBefore: the write was refused before anything was done, and may be sent again.
var errBefore = fmt.Errorf("%w: %w: its bound does not fit", service.ErrUnavailable, errNotHere)

// bound gives the time that a text of this clock names, which no later start takes for its own.
func (c *clock) bound(text string) (time.Time, error) {
	name, ms, found := strings.Cut(text, ".")
	count, err := strconv.ParseInt(ms, 10, 64)
	if !found || err != nil || name != c.name {
		return time.Time{}, errBefore
	}
	return c.start.Add(time.Duration(count) * time.Millisecond), nil
}

// heard is what is known of another node's clock: it was at `ms`, or later, at a time of ours.
type heard struct {
	name string
	ms   int64
	when time.Time
}

// at gives what the other clock shows at least at a time of ours.
func (h heard) at(when time.Time) int64 {
	since := when.Sub(h.when)
	return h.ms + (since - since.Abs()/driftShare).Milliseconds()
}

// noteClock keeps the later of two estimates: answers that were slow make early ones.
func (n *Node) noteClock(address, text string) {
	name, ms, found := strings.Cut(text, ".")
	count, err := strconv.ParseInt(ms, 10, 64)
	if !found || err != nil {
		return
	}
	now := time.Now()
	before, known := n.clocks.Load(address)
	if known && before.(heard).name == name && before.(heard).at(now) > count {
		return
	}
	n.clocks.Store(address, heard{name, count, now})
}

// until gives the part of a query that bounds a write by the clock of its receiver. It asks for the
// clock if it is not known. A node of an earlier version has none.
func (n *Node) until(ctx context.Context, address string) string {
	deadline, limited := ctx.Deadline()
	if !limited {
		return ""
	}
	known, found := n.clocks.Load(address)
	if !found {
		if _, err := n.post(ctx, address, pathVersion, "", nil); err != nil {
			return ""
		}
		if known, found = n.clocks.Load(address); !found {
			return ""
		}
	}
	h := known.(heard)
	return "&" + untilQuery + "=" + (&clock{name: h.name}).at(h.at(deadline))
}

// boundOf gives the time until which a write may be proposed.
func (n *Node) boundOf(c call) (context.Context, context.CancelFunc, error) {
	text := c.query(untilQuery)
	if text == "" {
		return c.ctx, func() {}, nil
	}
	until, err := n.clock.bound(text)
	if err == nil && !time.Now().Before(until) {
		err = errBefore
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithDeadline(c.ctx, until)
	return ctx, cancel, nil
}

// tellClock lets an answer say what this node's clock shows.
func (n *Node) tellClock(w http.ResponseWriter) { w.Header().Set(clockHeader, n.clock.text()) }
