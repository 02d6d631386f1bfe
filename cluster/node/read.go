package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/engine"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Goroutines that fetch read indexes for one shard.
	readerCount = 4
	// Keys that are looked up together.
	maxReadKeys = 512
	// A read index that was asked of a dead leader never comes: it is asked for again.
	readAttempt = 250 * time.Millisecond
)

// read is a call that waits for a read index. After that `look` is called once, if it is not nil;
// otherwise the keys are read together with those of other calls.
type read struct {
	ctx  context.Context
	keys []uint64
	look func(r *replica.Replica) error

	values [][]byte
	done   chan error // has room for one
}

// reader answers linearizable reads of one shard. Calls that wait share a read index: it is asked
// for after they came.
type reader struct {
	host    *dragonboat.NodeHost
	shardID uint64
	replica *replica.Replica
	stopped chan struct{}

	mu     sync.Mutex
	queue  []*read
	wakeup chan struct{}
	// Closed and replaced when the shard's leader changes.
	leaderLost chan struct{}
}

func newReader(host *dragonboat.NodeHost, shardID uint64, r *replica.Replica) *reader {
	re := &reader{
		host: host, shardID: shardID, replica: r,
		stopped:    make(chan struct{}),
		wakeup:     make(chan struct{}, readerCount),
		leaderLost: make(chan struct{}),
	}
	for range readerCount {
		go re.run()
	}
	return re
}

// stop refuses reads that wait. It is called once.
func (re *reader) stop() { close(re.stopped) }

func (re *reader) noteLeaderChange() {
	re.mu.Lock()
	defer re.mu.Unlock()
	close(re.leaderLost)
	re.leaderLost = make(chan struct{})
}

func (re *reader) do(r *read) error {
	r.done = make(chan error, 1)
	re.mu.Lock()
	re.queue = append(re.queue, r)
	re.mu.Unlock()
	select {
	case re.wakeup <- struct{}{}:
	default:
	}
	select {
	case err := <-r.done:
		return err
	case <-r.ctx.Done():
		return fmt.Errorf("%w: no read index in time", service.ErrUnavailable)
	case <-re.stopped:
		return errStopping
	}
}

// take gives calls that wait. Those whose time is over are dropped.
func (re *reader) take() []*read {
	re.mu.Lock()
	defer re.mu.Unlock()
	keys, count := 0, 0
	for count < len(re.queue) && keys < maxReadKeys {
		keys += len(re.queue[count].keys)
		count++
	}
	reads := re.queue[:count:count]
	re.queue = re.queue[count:]
	if len(re.queue) == 0 {
		re.queue = nil
	}
	return reads
}

func (re *reader) run() {
	for {
		select {
		case <-re.stopped:
			return
		case <-re.wakeup:
		}
		for {
			reads := re.take()
			if len(reads) == 0 {
				break
			}
			re.serve(reads)
		}
	}
}

func (re *reader) serve(reads []*read) {
	if err := re.awaitIndex(reads); err != nil {
		for _, r := range reads {
			r.done <- err
		}
		return
	}
	var together []*read
	for _, r := range reads {
		if r.look == nil {
			together = append(together, r)
			continue
		}
		go func() { r.done <- lookupError(r.look(re.replica)) }()
	}
	if len(together) > 0 {
		lookTogether(re.replica, together)
	}
}

// awaitIndex waits until the replica has applied all that was committed when it was called. It goes
// on until no call waits any more.
func (re *reader) awaitIndex(reads []*read) error {
	for {
		left := longest(reads)
		if left <= 0 {
			return fmt.Errorf("%w: no read index in time", service.ErrUnavailable)
		}
		re.mu.Lock()
		leaderLost := re.leaderLost
		re.mu.Unlock()
		request, err := re.host.ReadIndex(re.shardID, min(left, readAttempt))
		if err != nil && !isPassing(err) && !errors.Is(err, dragonboat.ErrTimeoutTooSmall) {
			return refusal(err)
		}
		if err == nil {
			select {
			case result := <-request.ResultC():
				request.Release()
				if result.Completed() {
					return nil
				}
				if result.Terminated() {
					return errStopping
				}
				if result.Timeout() {
					continue
				}
			case <-leaderLost:
				// The request is not released: it is still under way.
				continue
			case <-re.stopped:
				return errStopping
			}
		}
		select {
		case <-time.After(retryDelay):
		case <-re.stopped:
		}
	}
}

func longest(reads []*read) time.Duration {
	most := time.Duration(0)
	for _, r := range reads {
		if deadline, limited := r.ctx.Deadline(); limited && r.ctx.Err() == nil {
			most = max(most, time.Until(deadline))
		}
	}
	return most
}

// lookTogether reads the keys of several calls at once.
func lookTogether(from *replica.Replica, reads []*read) {
	var keys []uint64
	for _, r := range reads {
		keys = append(keys, r.keys...)
	}
	q := newReadQuery(keys, false)
	if _, err := from.Lookup(q); err != nil {
		for _, r := range reads {
			r.done <- lookupError(err)
		}
		return
	}
	begin := 0
	for _, r := range reads {
		var err error
		r.values, err = valuesOf(q, begin, begin+len(r.keys))
		begin += len(r.keys)
		r.done <- err
	}
}

func newReadQuery(keys []uint64, atomic bool) *replica.ReadQuery {
	return &replica.ReadQuery{
		Keys: keys, Values: make([]byte, len(keys)*engine.ValueBytes),
		Results: make(engine.Results, len(keys)), Atomic: atomic,
	}
}

// valuesOf gives the values of the query's keys from `begin` to `end`, nil where one is absent.
func valuesOf(q *replica.ReadQuery, begin, end int) ([][]byte, error) {
	values := make([][]byte, end-begin)
	for i := begin; i < end; i++ {
		switch err := q.Results.Err(i); {
		case err == nil:
			from, to := i*engine.ValueBytes, (i+1)*engine.ValueBytes
			values[i-begin] = q.Values[from:to:to]
		case !errors.Is(err, engine.ErrNotFound):
			return nil, lookupError(fmt.Errorf("key %016x: %w", q.Keys[i], err))
		}
	}
	return values, nil
}

// readKeys gives the values of a replica's keys, nil where one is absent.
func readKeys(from *replica.Replica, keys []uint64, atomic bool) ([][]byte, error) {
	q := newReadQuery(keys, atomic)
	if _, err := from.Lookup(q); err != nil {
		return nil, lookupError(err)
	}
	return valuesOf(q, 0, len(keys))
}

// lookupError turns errors of a replica into those of the service.
func lookupError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, replica.ErrClosed):
		return fmt.Errorf("%w: %w", service.ErrLoading, err)
	case errors.Is(err, engine.ErrCorruption):
		return fmt.Errorf("%w: %w", service.ErrCorrupt, err)
	}
	return fmt.Errorf("%w: %w", service.ErrUnavailable, err)
}
