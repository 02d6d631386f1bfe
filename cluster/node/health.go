package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/service"
)

const (
	// Between two pulses.
	pulseInterval = time.Second
	// A node that misses this number of pulses in a row does not live.
	maxMissedPulses = 30
	// Between two looks at the replicas of other nodes, while one here is not ready.
	witnessInterval = 250 * time.Millisecond
	// A node that was just started and that no other node excuses waits so long for leaders.
	startGrace = 10 * time.Second
)

// pulse tells whether the node works: it goes on as long as raft and the node's own locks do. It
// counts missed beats, not time, so that a process that was stopped for long does not seem dead.
type pulse struct{ missed atomic.Int64 }

// Live implements service.Control. It fails when raft or a lock hangs: a restart may help then.
func (n *Node) Live() error { return n.pulse.live() }

func (p *pulse) live() error {
	if missed := p.missed.Load(); missed >= maxMissedPulses {
		return fmt.Errorf("%w: raft, or a lock of the node, has hung for %d s",
			service.ErrUnavailable, missed)
	}
	return nil
}

// countPulses counts the pulses that do not come.
func (n *Node) countPulses() {
	ticker := time.NewTicker(pulseInterval)
	defer ticker.Stop()
	for {
		select {
		case <-n.stopped:
			return
		case <-ticker.C:
			n.pulse.missed.Add(1)
		}
	}
}

// beatForever gives a pulse each time that raft has answered, and takes the shards in turn. It also
// notes what each shard does.
func (n *Node) beatForever() {
	for turn := 0; n.pause(pulseInterval); turn++ {
		n.beat(turn)
	}
}

func (n *Node) beat(turn int) {
	shards := n.localShards()
	for _, s := range shards {
		s.proposer.waiting() // The proposer's lock is free, or this hangs.
		s.load.note()
	}
	if len(shards) == 0 || n.hearRaft(shards[turn%len(shards)].shardID) {
		n.pulse.missed.Store(0)
	}
}

// hearRaft asks for a read index. Any answer will do, a time-out too: raft's own worker gives it.
func (n *Node) hearRaft(shardID uint64) bool {
	request, err := n.host.ReadIndex(shardID, n.inTicks(pulseInterval))
	if err != nil {
		// A replica may have ended or not have begun. A queue that stays full is a hang.
		return !errors.Is(err, dragonboat.ErrSystemBusy)
	}
	select {
	case <-request.ResultC():
		request.Release()
		return true
	case <-n.stopped:
		return false
	}
}

// witness is what other nodes said about their replicas, while one here was not ready.
type witness struct {
	answered bool
	ready    map[uint64]bool // shards that are ready on another node
}

// watchWitnesses asks the other nodes as long as a replica here is not ready.
func (n *Node) watchWitnesses() {
	for n.pause(witnessInterval) {
		if n.draining.Load() || len(n.problems()) == 0 {
			n.witness.Store(nil)
			continue
		}
		n.witness.Store(n.askWitnesses())
	}
}

func (n *Node) askWitnesses() *witness {
	others := without(n.directory.Load().infos(), n.state.NodeID)
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	w := &witness{ready: map[uint64]bool{}}
	running, answered := n.askForReplicas(ctx, others)
	// A node without others is not cut off from them.
	w.answered = len(answered) > 0 || len(others) == 0
	for _, r := range running {
		w.ready[r.ShardID] = w.ready[r.ShardID] || r.Ready
	}
	return w
}

// problems gives the shards that the node should serve and cannot.
func (n *Node) problems() map[uint64]error {
	d := n.directory.Load()
	found := map[uint64]error{}
	for shardID := range d.Shards {
		_, placed := d.On(shardID, n.state.NodeID)
		s := n.shard(shardID)
		switch {
		case s != nil:
			if err := s.ready(); err != nil {
				found[shardID] = err
			}
		case placed:
			// The shard has one replica less meanwhile: no other node should be stopped.
			found[shardID] = fmt.Errorf("%w: shard %d does not run", service.ErrLoading, shardID)
		}
	}
	return found
}

// Ready implements service.Control: it fails when clients should go to another node. A shard that
// no node can serve is no reason: all nodes would refuse clients for it, of other shards too.
func (n *Node) Ready() error {
	if n.draining.Load() {
		return fmt.Errorf("%w: draining", service.ErrUnavailable)
	}
	if err := n.hasBegun(); err != nil {
		return err
	}
	problems := n.problems()
	if len(problems) == 0 {
		n.wasReady.Store(true)
		return nil
	}
	w, settled := n.witness.Load(), n.wasReady.Load() || time.Since(n.opened) > startGrace
	for shardID, err := range problems {
		if !w.excuses(shardID, settled) {
			return err
		}
	}
	return nil
}

// excuses tells whether no other node can serve the shard either. `settled`: the node was ready
// before, or has been started long ago. An election is over before a node that was ready has asked.
func (w *witness) excuses(shardID uint64, settled bool) bool {
	if !settled {
		return false
	}
	return w == nil || w.answered && !w.ready[shardID]
}

// load is what a shard has done since its start, and of late.
type load struct {
	reads, writes atomic.Uint64
	elections     atomic.Uint64
	readRate      rate
	writeRate     rate
}

// rate is a mean over the last seconds, of a count that is noted each second.
type rate struct {
	before uint64
	now    atomic.Uint64 // per 1000 seconds
}

// lately is the weight of the last second in a rate.
const lately = 0.2

func (r *rate) note(count uint64) {
	last := float64(r.now.Load())
	r.now.Store(uint64(last + lately*(1000*float64(count-r.before)-last)))
	r.before = count
}

func (r *rate) perSecond() float64 { return float64(r.now.Load()) / 1000 }

func (l *load) note() {
	l.readRate.note(l.reads.Load())
	l.writeRate.note(l.writes.Load())
}
