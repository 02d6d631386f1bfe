package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4/raftio"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Between two looks at the replicas here.
	tendInterval = 100 * time.Millisecond
	// A leader that is not fit asks others to lead once in so long.
	handOverInterval = 2 * time.Second
	// Writes of the log that take longer make a leader slow.
	slowTime = 500 * time.Millisecond
	// Between two looks at a replica that has failed.
	failedInterval = time.Second
	// A replica that has stopped is started again after this time. After this number of stops, its
	// data counts as damaged.
	startAgainAfter = 5 * time.Second
	mostStarts      = 3
	// One that has run for so long before has failed for a reason of its own.
	startsForgotten = 10 * time.Minute
)

// tendForever looks after the replicas here that have failed and those that should not lead.
func (n *Node) tendForever() {
	for n.pause(tendInterval) {
		n.low.Store(n.hasLittleRoom())
		for _, s := range n.localShards() {
			n.tend(s)
		}
	}
}

// unfit says why a replica should not lead its shard, or "".
func (n *Node) unfit(s *shard) string {
	switch {
	case s.failure() != nil:
		return "its data is damaged"
	case s.replica != nil && s.replica.Full():
		return "its store is full"
	case n.low.Load():
		return "the disk is almost full"
	case n.log.Latency() > slowTime:
		return "the disk is slow"
	}
	return ""
}

// tend hands a shard over that should be led elsewhere, and gives a replica up that has failed.
func (n *Node) tend(s *shard) {
	why := n.unfit(s)
	if why == "" {
		return
	}
	if s.leads() && !n.draining.Load() && time.Since(s.handedOver) >= handOverInterval {
		s.handedOver = time.Now()
		go n.handOverToFit(s, why)
	}
	if n.holdsUpLeader(s) {
		n.config.Logger.Warn("stopping a full replica for a while", "shard", s.shardID)
		n.stopForAWhile(s, 0)
		return
	}
	failure := s.failure()
	if failure != nil && !n.draining.Load() && time.Since(s.tended) >= failedInterval {
		s.tended = time.Now()
		n.tendFailed(s, failure, s.tended)
	}
}

// handOverToFit asks a successor to lead. Without one the shard stays: another replica would serve
// it no better.
func (n *Node) handOverToFit(s *shard, why string) {
	other, found := n.successor(s)
	if !found {
		return
	}
	n.config.Logger.Warn("handing a shard over", "shard", s.shardID, "node", other.NodeID,
		"reason", why)
	if err := s.handOver(other.ReplicaID); err != nil {
		n.config.Logger.Warn("cannot move a leader", "shard", s.shardID, "error", err)
	}
}

// successor gives a replica on another node that is fit and ready to lead.
func (n *Node) successor(s *shard) (other service.ReplicaStatus, found bool) {
	for _, other := range n.others(s) {
		if other.Ready && other.Fit {
			return other, true
		}
	}
	return other, false
}

// others gives the running replicas of a shard on other nodes, in any order.
func (n *Node) others(s *shard) []service.ReplicaStatus {
	d := n.directory.Load()
	running, _ := n.askForReplicas(context.Background(),
		without(d.infosOf(s.shardID), n.state.NodeID))
	var others []service.ReplicaStatus
	for _, p := range d.Shards[s.shardID].Replicas {
		other := raftio.NodeInfo{ShardID: s.shardID, ReplicaID: p.ReplicaID}
		if r, runs := running[other]; runs && p.ReplicaID != s.replicaID {
			others = append(others, r)
		}
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return others
}

// tendFailed gives a replica up whose data is damaged, so that another one takes its place.
// Without it the sound replicas must be a majority: one with a damaged record may be the last that
// has the others. A replica that has stopped for another reason is started again.
func (n *Node) tendFailed(s *shard, failure *replica.Failure, now time.Time) {
	if s.leads() {
		// It is being handed over, if it can be. Otherwise it still answers for what is sound, unless
		// it has stopped.
		if _, found := n.successor(s); found || !failure.Stopped {
			return
		}
	}
	n.mu.Lock()
	starts := n.starts[s.shardID].count
	n.mu.Unlock()
	if now.Sub(s.started) > startsForgotten {
		starts = 0
	}
	isLost := failure.IsDamage() || !failure.MayPass() && starts >= mostStarts
	if isLost && n.giveUp(s, failure) {
		n.mu.Lock()
		delete(n.starts, s.shardID)
		n.mu.Unlock()
		return
	}
	if failure.Stopped {
		n.stopForAWhile(s, starts+1)
	}
}

// stopForAWhile stops a replica that has failed `count` times. The reconciler starts it again.
func (n *Node) stopForAWhile(s *shard, count int) {
	n.mu.Lock()
	n.starts[s.shardID] = restart{time.Now().Add(startAgainAfter), count}
	n.mu.Unlock()
	n.remove(s)
}

// holdsUpLeader tells whether a replica waits for room with many entries in memory. When these take
// more than their bound, dragonboat refuses writes on the leader. A replica that was started again
// reads them from its log.
func (n *Node) holdsUpLeader(s *shard) bool {
	return s.replica != nil && s.replica.Full() && !s.leads() &&
		n.log.IndexBefore(s.shardID, s.replicaID, n.config.LogMemoryBytes/2) > s.replica.Applied()
}

// restart says when a replica that has failed may be started again, and how often it has failed.
type restart struct {
	after time.Time
	count int
}

// giveUp marks a replica as lost and stops it: replaceLost does the rest.
func (n *Node) giveUp(s *shard, failure *replica.Failure) bool {
	if !n.soundWithout(s) {
		return false
	}
	directory := n.replicaDirectory(s.shardID, s.replicaID)
	if err := replica.GiveUp(directory, failure.Err); err != nil {
		n.config.Logger.Error("cannot give a replica up", "shard", s.shardID, "error", err)
		return false
	}
	n.config.Logger.Warn("giving a replica up", "shard", s.shardID, "error", failure.Err)
	n.remove(s)
	n.nudgeReconciler()
	return true
}

func (n *Node) soundWithout(s *shard) bool {
	sound := 0
	for _, other := range n.others(s) {
		if other.Ready && other.Failure == "" {
			sound++
		}
	}
	members := len(n.directory.Load().Shards[s.shardID].Replicas)
	return sound >= members/2+1
}

var errNoQuorum = fmt.Errorf("%w: the shard has no quorum", service.ErrUnavailable)

// quorum fails if too few nodes of a shard answer for a majority of its replicas. One that is about
// to come by a move does not count: it may have to be started first.
func (n *Node) quorum(ctx context.Context, shardID uint64) error {
	d := n.directory.Load()
	running, _ := n.askForReplicas(ctx, d.infosOf(shardID))
	entry := d.Shards[shardID]
	members := slices.DeleteFunc(slices.Clone(entry.Replicas),
		func(p Placement) bool { return p.ReplicaID == entry.Move.To })
	var silent []uint64
	for _, p := range members {
		if _, runs := running[raftio.NodeInfo{ShardID: shardID, ReplicaID: p.ReplicaID}]; !runs {
			silent = append(silent, p.NodeID)
		}
	}
	if len(members)-len(silent) > len(members)/2 {
		return nil
	}
	slices.Sort(silent)
	return fmt.Errorf("%w: shard %d has %d replicas, and those of the nodes %v do not answer",
		errNoQuorum, shardID, len(members), silent)
}
