package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/engine"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Keys that are looked up together.
	maxReadKeys = 512
	// A read index that was asked of a dead leader never comes: it is asked for again.
	readAttempt = 250 * time.Millisecond
)

// read is a call that waits for a read index. After that `look` is called once, if it is not nil;
// otherwise the key is read together with those of other calls.
type read struct {
	ctx  context.Context
	key  uint64
	look func(r *replica.Replica) error

	value  []byte // nil: absent
	memory *readMemory
	done   chan error // has room for one
}

// reader answers linearizable reads of one shard. Calls that wait share a read index: it is asked
// for after they came.
type reader struct {
	host    *dragonboat.NodeHost
	shardID uint64
	replica *replica.Replica
	attempt time.Duration // of a read index
	stopped chan struct{}

	mu    sync.Mutex
	queue []*read
	// Keys that are being looked up. A read index costs messages to all replicas, so the next one
	// waits for as many reads or for the end of the look-up.
	looking int
	wakeup  chan struct{}
	// Closed and replaced when the shard's leader changes.
	leaderLost chan struct{}
}

func newReader(n *Node, shardID uint64, r *replica.Replica) *reader {
	re := &reader{
		host: n.host, shardID: shardID, replica: r, attempt: n.inTicks(readAttempt),
		stopped:    make(chan struct{}),
		wakeup:     make(chan struct{}, 1),
		leaderLost: make(chan struct{}),
	}
	go re.run()
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
	re.wake()
	select {
	case err := <-r.done:
		return err
	case <-r.ctx.Done():
		return fmt.Errorf("%w: no read index in time", service.ErrUnavailable)
	case <-re.stopped:
		return errStopping
	}
}

func (re *reader) wake() {
	select {
	case re.wakeup <- struct{}{}:
	default:
	}
}

// take gives calls that share the next read index; none when too few wait.
func (re *reader) take() []*read {
	re.mu.Lock()
	defer re.mu.Unlock()
	if len(re.queue) < re.looking {
		return nil
	}
	count := min(len(re.queue), maxReadKeys)
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
			// Lets clients run that are about to read, so that they share the read index.
			runtime.Gosched()
			reads := re.take()
			if len(reads) == 0 {
				break
			}
			if err := re.awaitIndex(reads); err != nil {
				answer(reads, err)
				continue
			}
			re.serve(reads)
		}
	}
}

func answer(reads []*read, err error) {
	for _, r := range reads {
		r.done <- err
	}
}

func (re *reader) serve(reads []*read) {
	together := reads[:0]
	for _, r := range reads {
		if r.look == nil {
			together = append(together, r)
			continue
		}
		go func() { r.done <- lookupError(r.look(re.replica)) }()
	}
	if len(together) == 0 {
		return
	}
	re.noteLooking(len(together))
	go func() {
		lookTogether(re.replica, together)
		re.noteLooking(-len(together))
		re.wake()
	}()
}

func (re *reader) noteLooking(keys int) {
	re.mu.Lock()
	re.looking += keys
	re.mu.Unlock()
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
		request, err := re.host.ReadIndex(re.shardID, min(left, re.attempt))
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
	var last time.Time
	for _, r := range reads {
		if deadline, limited := r.ctx.Deadline(); limited && deadline.After(last) {
			last = deadline
		}
	}
	return time.Until(last)
}

// lookTogether reads the keys of several calls at once.
func lookTogether(from *replica.Replica, reads []*read) {
	memory := newReadMemory(len(reads))
	memory.users.Store(int32(len(reads)))
	for i, r := range reads {
		memory.Keys[i] = r.key
	}
	_, err := from.Lookup(&memory.ReadQuery)
	if err != nil {
		answer(reads, lookupError(err))
		return
	}
	for i, r := range reads {
		r.memory = memory
		r.value, err = memory.value(i)
		r.done <- err
	}
}

// readKeys gives the values of a replica's keys at one moment, nil where one is absent. They may be
// used until release is called.
func readKeys(from *replica.Replica, keys []uint64) (values [][]byte, release func(), err error) {
	memory := newReadMemory(len(keys))
	memory.users.Store(1)
	copy(memory.Keys, keys)
	memory.Atomic = len(keys) > 1
	if _, err := from.Lookup(&memory.ReadQuery); err != nil {
		return nil, nil, lookupError(err)
	}
	values = make([][]byte, len(keys))
	for i := range values {
		if values[i], err = memory.value(i); err != nil {
			return nil, nil, err
		}
	}
	return values, memory.release, nil
}

// readMemory is a query with the memory of its answer, which later queries use again. Memory of a
// call that gave up is never released, and goes to the garbage collector.
type readMemory struct {
	replica.ReadQuery
	users atomic.Int32
}

var readMemories sync.Pool

func newReadMemory(keys int) *readMemory {
	m, _ := readMemories.Get().(*readMemory)
	if m == nil || cap(m.Keys) < keys {
		room := max(keys, 16)
		m = &readMemory{ReadQuery: replica.ReadQuery{Keys: make([]uint64, room),
			Values: make([]byte, room*engine.ValueBytes), Results: make(engine.Results, room)}}
	}
	m.Keys, m.Values = m.Keys[:keys], m.Values[:keys*engine.ValueBytes]
	m.Results, m.Atomic = m.Results[:keys], false
	return m
}

// release is called once by each user.
func (m *readMemory) release() {
	if m.users.Add(-1) == 0 && cap(m.Keys) <= maxReadKeys {
		readMemories.Put(m)
	}
}

// value gives the value of key number i, nil if it is absent.
func (m *readMemory) value(i int) ([]byte, error) {
	err := m.Results.Err(i)
	if err == nil {
		from, to := i*engine.ValueBytes, (i+1)*engine.ValueBytes
		return m.Values[from:to:to], nil
	}
	if errors.Is(err, engine.ErrNotFound) {
		return nil, nil
	}
	return nil, lookupError(fmt.Errorf("key %016x: %w", m.Keys[i], err))
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
