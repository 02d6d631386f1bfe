package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"engine_race/cluster/check/value"
	"engine_race/cluster/check/wire"
)

// Target is a node that clients can ask.
type Target struct {
	Node   int
	Dialer wire.Dialer
	// Ready says whether a load balancer would send requests to the node. nil: always.
	Ready func() bool
}

// Options describes a workload.
type Options struct {
	Name    string
	Targets []Target
	Clients int
	// Groups has the keys of each group: 1 to MaxGroupKeys keys of one shard.
	Groups [][]uint64
	Seed   uint64
	Pause  time.Duration // between two requests of a client
	// RetryFor bounds how long after its first refusal a client sends a request again. 0: it does
	// not.
	RetryFor  time.Duration
	ValueSize value.Size
	FirstID   uint64 // ids of writes count from here; each history needs ids of its own
}

// Workload is a set of clients.
type Workload struct {
	options   Options
	start     time.Time
	nextID    atomic.Uint64
	processes atomic.Int64
	done      atomic.Int64

	mu      sync.Mutex
	history History
}

// New makes a workload. It fails if the options make no sense.
func New(options Options) (*Workload, error) {
	if len(options.Targets) == 0 || options.Clients < 1 || len(options.Groups) == 0 {
		return nil, fmt.Errorf("%d targets, %d clients, %d groups: each must be at least 1",
			len(options.Targets), options.Clients, len(options.Groups))
	}
	for i, keys := range options.Groups {
		if len(keys) < 1 || len(keys) > MaxGroupKeys {
			return nil, fmt.Errorf("group %d has %d keys, not 1 to %d", i, len(keys), MaxGroupKeys)
		}
	}
	w := &Workload{options: options}
	w.nextID.Store(max(options.FirstID, 1))
	w.history = History{Name: options.Name, Groups: options.Groups}
	return w, nil
}

// Run sends requests until ctx is done, and gives the history. Requests that are on their way
// then are waited for.
func (w *Workload) Run(ctx context.Context) *History {
	w.start = time.Now()
	var group sync.WaitGroup
	for i := range w.options.Clients {
		c := &client{
			workload: w,
			at:       i % len(w.options.Targets),
			process:  int(w.processes.Add(1)) - 1,
			random:   rand.New(rand.NewPCG(w.options.Seed, uint64(i))),
		}
		group.Go(func() { c.run(ctx) })
	}
	group.Wait()
	w.history.EndNS = time.Since(w.start).Nanoseconds()
	return &w.history
}

// Acknowledged gives the number of operations that nodes have acknowledged so far. It may be called
// from any goroutine.
func (w *Workload) Acknowledged() int64 { return w.done.Load() }

func (w *Workload) record(operations []*Operation, mixed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Operations = append(w.history.Operations, operations...)
	w.history.Mixed = append(w.history.Mixed, mixed...)
}

type client struct {
	workload   *Workload
	at         int // the target that the connection leads to
	conn       *wire.Conn
	process    int
	random     *rand.Rand
	operations []*Operation
	mixed      []string
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		operation := c.choose()
		c.perform(ctx, operation)
		c.operations = append(c.operations, operation)
		if operation.Outcome == wire.Done {
			c.workload.done.Add(1)
		}
		if operation.Outcome == wire.Unknown {
			c.process = int(c.workload.processes.Add(1)) - 1
		}
		if operation.Outcome != wire.Done {
			sleep(ctx, 10*time.Millisecond) // do not spin while nodes refuse
		}
		sleep(ctx, c.workload.options.Pause)
	}
	c.disconnect()
	c.workload.record(c.operations, c.mixed)
}

// choose makes the next request: mostly SET and GET, and all kinds for groups of several keys.
func (c *client) choose() *Operation {
	groups := c.workload.options.Groups
	group := c.random.IntN(len(groups))
	size := len(groups[group])
	operation := &Operation{Process: c.process, Group: group}
	dice := c.random.IntN(100)
	if size == 1 {
		dice %= 60
	}
	switch {
	case dice < 24:
		operation.Kind = Set
	case dice < 56:
		operation.Kind = Get
	case dice < 60:
		operation.Kind = Del
	case dice < 78:
		operation.Kind = MSet
	default:
		operation.Kind = MGet
	}
	switch operation.Kind {
	case MSet, MGet:
		operation.Keys = c.random.Perm(size)[:2+c.random.IntN(size-1)]
	default:
		operation.Keys = []int{c.random.IntN(size)}
	}
	if operation.Kind == Set || operation.Kind == MSet {
		for range operation.Keys {
			operation.Written = append(operation.Written, c.workload.nextID.Add(1))
		}
	}
	return operation
}

// perform sends the request. With RetryFor it sends a refused request again, to another node.
func (c *client) perform(ctx context.Context, operation *Operation) {
	w := c.workload
	operation.CallNS = time.Since(w.start).Nanoseconds()
	for {
		err := c.attempt(ctx, operation)
		operation.DoneNS = time.Since(w.start).Nanoseconds()
		operation.Node = w.options.Targets[c.at].Node
		operation.Error = ""
		if err != nil {
			operation.Error = err.Error()
			c.next()
		}
		if operation.Outcome != wire.Refused {
			return
		}
		if operation.RefusedNS == 0 {
			operation.RefusedNS = operation.DoneNS
		}
		refusedFor := operation.DoneNS - operation.RefusedNS
		if ctx.Err() != nil || refusedFor >= w.options.RetryFor.Nanoseconds() {
			return
		}
		sleep(ctx, 5*time.Millisecond)
	}
}

func (c *client) attempt(ctx context.Context, operation *Operation) error {
	targets := c.workload.options.Targets
	for range targets {
		if ready := targets[c.at].Ready; ready == nil || ready() {
			break
		}
		c.next()
	}
	if c.conn == nil {
		conn, err := targets[c.at].Dialer.Dial(ctx)
		if err != nil {
			operation.Outcome = wire.Refused
			return err
		}
		c.conn = conn
	}
	err := c.send(operation)
	operation.Outcome = wire.Classify(err)
	return err
}

// send makes the request, and stores its answer in the operation.
func (c *client) send(operation *Operation) error {
	var keys []uint64
	for _, i := range operation.Keys {
		keys = append(keys, c.workload.options.Groups[operation.Group][i])
	}
	var values [][]byte
	for i, id := range operation.Written {
		values = append(values, c.workload.options.ValueSize.Encode(keys[i], id))
	}
	found := make([][]byte, 1)
	var err error
	switch operation.Kind {
	case Set:
		return c.conn.Set(keys[0], values[0])
	case MSet:
		return c.conn.MSet(keys, values)
	case Del:
		operation.Deleted, err = c.conn.Del(keys[0])
		return err
	case Get:
		found[0], err = c.conn.Get(keys[0])
	case MGet:
		found, err = c.conn.MGet(keys)
	}
	if err != nil {
		return err
	}
	return c.decode(operation, keys, found)
}

// decode stores the ids of the values that were read. A mixed value is recorded by itself, and
// makes the read useless for the model.
func (c *client) decode(operation *Operation, keys []uint64, found [][]byte) error {
	ids := make([]uint64, len(keys))
	for i, bytes := range found {
		if bytes == nil {
			continue
		}
		id, err := c.workload.options.ValueSize.Decode(keys[i], bytes)
		if err != nil {
			c.mixed = append(c.mixed, err.Error())
			return err
		}
		ids[i] = id
	}
	operation.Read = ids
	return nil
}

// next leaves the node, for another one.
func (c *client) next() {
	c.disconnect()
	c.at = (c.at + 1) % len(c.workload.options.Targets)
}

func (c *client) disconnect() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func sleep(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}
