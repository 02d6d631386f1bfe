package check

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"engine_race/cluster/check/wire"
	"engine_race/cluster/service"
)

// Settings of the measurement of failovers.
const (
	failoverWriters = 64 // spread over all nodes
	failoverKeys    = 4096
	failoverTime    = 30 * time.Second // until a shard without its leader must take writes
	failoverRest    = 4 * time.Second  // unless Options say otherwise
	refusedPause    = 5 * time.Millisecond
)

// Failover says how long shards took no writes after the loss of their leader.
type Failover struct {
	// Milliseconds has one figure for each loss. It ends when a write to the shard is acknowledged
	// that began after the loss, through a node that survived.
	Milliseconds []float64 `json:"ms"`
	Losses       int       `json:"losses"` // that were asked for
	Writes       int       `json:"writes"` // acknowledged, of the load
}

// outage is one measurement.
type outage struct {
	shard int // its place in the order of keys
	node  int // that was lost
	from  time.Time
	lost  time.Time // when the node was gone: writes must begin later
	over  chan time.Duration
}

// loader writes to all shards through all nodes.
type loader struct {
	checker *checker

	mu     sync.Mutex
	outage *outage // nil: none is measured
	writes int
}

// load writes to all shards through all nodes until ctx ends, and gives the number of acknowledged
// writes.
func (c *checker) load(ctx context.Context) int {
	l := &loader{checker: c}
	var group sync.WaitGroup
	for i := range failoverWriters {
		group.Go(func() { l.write(ctx, 1+i%c.cluster.Nodes(), uint64(i), nil) })
	}
	group.Wait()
	return l.writes
}

// failovers loses leaders under load, one after the other, and heals the cluster in between. `lose`
// takes a node away, until the cluster is healed.
func (c *checker) failovers(ctx context.Context, result *Failover, lose func(int) error) error {
	l := &loader{checker: c}
	loadCtx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	for i := range failoverWriters {
		group.Go(func() { l.write(loadCtx, 1+i%c.cluster.Nodes(), uint64(i), nil) })
	}
	defer group.Wait()
	defer stop()
	for number := range result.Losses {
		pause(ctx, c.options.FailoverRest)
		took, err := l.measure(ctx, lose)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			result.Milliseconds = append(result.Milliseconds, float64(took)/float64(time.Millisecond))
			c.options.Log.Info("failover", "number", number, "took", took)
			err = c.env.Heal(ctx)
		}
		if err != nil {
			return fmt.Errorf("failover %d: %w", number, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	result.Writes = l.writes
	return nil
}

// measure loses the leader of a random shard, and waits for the first write to the shard.
func (l *loader) measure(ctx context.Context, lose func(int) error) (time.Duration, error) {
	c := l.checker
	limit := c.options.patient(failoverTime)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	shards, err := c.leaders(ctx)
	if err != nil {
		return 0, err
	}
	place := c.env.Random.IntN(len(shards))
	o := &outage{shard: place, node: int(shards[place].LeaderID), from: time.Now(),
		over: make(chan time.Duration, 1)}
	c.options.Log.Info("lose", "leader", o.node, "shard", shards[place].ShardID)
	if err := lose(o.node); err != nil {
		return 0, err
	}
	o.lost = time.Now()
	l.mu.Lock()
	l.outage = o
	l.mu.Unlock()
	// Writers may all wait for the lost leader. So fresh clients come too.
	probeCtx, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer stop()
	for id := 1; id <= c.cluster.Nodes(); id++ {
		if id != o.node {
			probes.Go(func() { l.write(probeCtx, id, uint64(failoverWriters+id), &place) })
		}
	}
	select {
	case took := <-o.over:
		return took, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("shard %d took no write in %v", shards[place].ShardID, limit)
	}
}

// leaders gives the shards that have keys, in the order of these, when all have a leader.
func (c *checker) leaders(ctx context.Context) ([]service.ShardStatus, error) {
	for {
		status, err := c.cluster.Status(ctx, c.env.Random.IntN(c.cluster.Nodes())+1)
		shards := slices.DeleteFunc(status.Shards, func(shard service.ShardStatus) bool {
			return shard.Upper == shard.Lower
		})
		led := err == nil && len(shards) == c.options.Shards
		for _, shard := range shards {
			led = led && shard.LeaderID != 0 && int(shard.LeaderID) <= c.cluster.Nodes()
		}
		if led {
			slices.SortFunc(shards, func(a, b service.ShardStatus) int {
				return cmp.Compare(a.Lower, b.Lower)
			})
			return shards, nil
		}
		pause(ctx, refusedPause)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("a shard has no leader: %w", ctx.Err())
		}
	}
}

// write stores values through the node until ctx ends, and through another one while that one
// refuses. With `only` all of them go to one shard, and the node does not change.
func (l *loader) write(ctx context.Context, node int, seed uint64, only *int) {
	c := l.checker
	random := rand.New(rand.NewPCG(c.options.Seed, seed))
	var conn *wire.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for id := uint64(1); ctx.Err() == nil; id++ {
		shard := random.IntN(c.options.Shards)
		if only != nil {
			shard = *only
		}
		key := c.shardBase(shard) + failoverBase + random.Uint64N(failoverKeys)
		began := time.Now()
		var err error
		if conn == nil {
			conn, err = c.cluster.Dialer(node).Dial(ctx)
		}
		if err == nil {
			err = conn.Set(key, c.valueSize.Encode(key, seed<<40|id))
		}
		if err == nil {
			l.note(shard, node, began)
			continue
		}
		if conn != nil {
			conn.Close()
			conn = nil
		}
		if only == nil {
			node = 1 + node%c.cluster.Nodes()
		}
		pause(ctx, refusedPause)
	}
}

// note counts a write that was acknowledged. The first one that fits ends the outage.
func (l *loader) note(shard, node int, began time.Time) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	o := l.outage
	if o != nil && o.shard == shard && o.node != node && began.After(o.lost) {
		o.over <- now.Sub(o.from)
		l.outage = nil
	}
}

// quantile of at least one value, between its neighbours.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	below := int(at)
	if below+1 == len(sorted) {
		return sorted[below]
	}
	return sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
}
