package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Keys that are looked up together, at most: see maxReadKeysOf.
	maxReadKeys = 512
	// A read index that was asked of a dead leader never comes: it is asked for again.
	readAttempt = 250 * time.Millisecond
)

// maxReadKeysOf is how many keys are looked up together. Their values lie in memory together.
func maxReadKeysOf(valueBytes int) int {
	return service.ValuesIn(maxReadKeys, valueBytes)
}

// read is a call that waits for a read index. After that `look` is called once, if it is not nil;
// otherwise the key is looked up together with those of other calls.
type read struct {
	ctx  context.Context
	key  uint64
	look func(r *replica.Replica) error

	value  []byte // nil: absent
	memory *readMemory
	done   chan error // has room for one

	// Of a read of one key: its value as the answer of a call, and what gives the value back.
	values [1][]byte
	free   func()
}

// Reads of one key, which later calls use again. One that was given up still waits for its answer,
// and goes to the garbage collector.
var keyReads sync.Pool

func newKeyRead(ctx context.Context, key uint64) *read {
	r, _ := keyReads.Get().(*read)
	if r == nil {
		r = &read{done: make(chan error, 1)}
		r.free = r.release
	}
	r.ctx, r.key = ctx, key
	return r
}

// release ends the use of the value. It is called once, and only after an answer without an error.
func (r *read) release() {
	r.memory.release()
	r.ctx, r.value, r.memory, r.values[0] = nil, nil, nil, nil
	keyReads.Put(r)
}

// reader answers linearizable reads of one shard. Calls that wait share a read index: it is asked
// for after they came. Their keys are looked up meanwhile. If the replica has begun to apply an
// entry since, they are looked up again.
type reader struct {
	host    *dragonboat.NodeHost
	shardID uint64
	replica *replica.Replica
	attempt time.Duration // of a read index
	stopped chan struct{}

	mu    sync.Mutex
	queue []*read
	// Keys that are being looked up, or wait for their read index. An index costs messages to all
	// replicas, so the next one waits for as many reads or for the end of the look-up.
	looking int
	wakeup  chan struct{}
	// Of run: the replica has begun to apply nothing while the last read index was under way.
	isQuiet bool
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

// look calls `look` when a read index has come.
func (re *reader) look(ctx context.Context, look func(r *replica.Replica) error) error {
	return re.do(&read{ctx: ctx, look: look, done: make(chan error, 1)})
}

func (re *reader) do(r *read) error {
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
	count := min(len(re.queue), maxReadKeysOf(re.replica.ValueBytes()))
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
			re.gather()
			reads := re.take()
			if len(reads) == 0 {
				break
			}
			re.serve(reads)
		}
	}
}

// gather lets clients run that are about to read, so that they share the read index. It goes on
// while reads come: on busy CPUs few calls would share one otherwise.
func (re *reader) gather() {
	for before := -1; ; {
		runtime.Gosched()
		re.mu.Lock()
		waiting := len(re.queue)
		re.mu.Unlock()
		if waiting == before || waiting >= maxReadKeysOf(re.replica.ValueBytes()) {
			return
		}
		before = waiting
	}
}

func answer(reads []*read, err error) {
	for _, r := range reads {
		r.done <- err
	}
}

// serve gets a read index for the reads. It returns when there is one, and answers them later.
func (re *reader) serve(reads []*read) {
	var together, alone []*read
	for _, r := range reads {
		if r.look == nil {
			together = append(together, r)
		} else {
			alone = append(alone, r)
		}
	}
	applied, early := re.replica.Applied(), re.isQuiet
	indexed := make(chan readIndex, 1)
	if len(together) > 0 {
		re.noteLooking(len(together))
		go func() {
			lookTogether(re.replica, together, early, indexed)
			re.noteLooking(-len(together))
			re.wake()
		}()
	}
	err := re.awaitIndex(reads)
	re.isQuiet = err == nil && re.replica.IsStillAt(applied)
	indexed <- readIndex{err, re.isQuiet}
	if err != nil {
		answer(alone, err)
		return
	}
	for _, r := range alone {
		go func() { r.done <- lookupError(r.look(re.replica)) }()
	}
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
