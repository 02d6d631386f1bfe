package replica

import (
	"context"
	"sync/atomic"

	"engine_race/cluster/service"
)

// maxTracked bounds the keys that a Tracker remembers: some 50 MB.
const maxTracked = 1 << 20

// Tracker remembers which keys of a range have changed, so that a copy can be brought up to date.
type Tracker struct {
	replica     *Replica
	first, last uint64
	keys        map[uint64]struct{}
	lost        bool // some keys are missing
	stopped     atomic.Bool
}

// lockUpdates waits for the end of an Update, which a full disk may hold up. False: the context has
// ended before.
func (r *Replica) lockUpdates(ctx context.Context) bool {
	select {
	case r.updating <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *Replica) unlockUpdates() { <-r.updating }

// Track begins to remember changes of the keys from `first` to `last`. Lookups that begin later
// show all changes that are not remembered. A replica has one Tracker: a further one ends it.
func (r *Replica) Track(ctx context.Context, first, last uint64) *Tracker {
	t := &Tracker{replica: r, first: first, last: last, keys: map[uint64]struct{}{}}
	if !r.lockUpdates(ctx) {
		t.lost = true
		return t
	}
	defer r.unlockUpdates()
	r.tracker = t
	return t
}

// Take gives the keys that have changed since the last Take. Lookups that begin later show these
// changes. False: some are missing, and the whole range has to be copied again.
func (t *Tracker) Take(ctx context.Context) (keys []uint64, isWhole bool) {
	if !t.replica.lockUpdates(ctx) {
		return nil, false
	}
	defer t.replica.unlockUpdates()
	for key := range t.keys {
		keys = append(keys, key)
	}
	clear(t.keys)
	return keys, !t.lost && t.replica.tracker == t
}

// Stop ends it.
func (t *Tracker) Stop() { t.stopped.Store(true) }

// track remembers the keys of ops that are applied, for a tracker. Update calls it.
func (r *Replica) track(ops []byte) {
	t := r.tracker
	if t == nil {
		return
	}
	if t.stopped.Load() {
		r.tracker = nil
		return
	}
	for len(ops) > 0 {
		var op service.Op
		if op, ops = r.next(ops); op.Read || op.Key < t.first || op.Key > t.last {
			continue
		}
		if len(t.keys) >= maxTracked {
			t.lost = true
			return
		}
		t.keys[op.Key] = struct{}{}
	}
}

// forgetTracked is called when a snapshot has replaced the records.
func (r *Replica) forgetTracked() {
	r.lockUpdates(context.Background())
	defer r.unlockUpdates()
	if r.tracker != nil {
		r.tracker.lost = true
	}
}
