package node

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftio"

	"engine_race/cluster/service"
)

// How long a node may take to name its replicas.
const statusTimeout = 500 * time.Millisecond

// Status implements service.Control. Each node is asked for its replicas.
func (n *Node) Status(ctx context.Context) (service.Status, error) {
	d := n.directory.Load()
	status := service.Status{Cluster: n.state.Genesis.Cluster, ValueBytes: n.ValueBytes(),
		NodeID: n.state.NodeID, Nodes: d.infos()}
	slices.SortFunc(status.Nodes,
		func(a, b service.NodeInfo) int { return int(a.ID) - int(b.ID) })
	running, answered := n.askForReplicas(ctx, status.Nodes)
	for _, info := range status.Nodes {
		if d.Nodes[info.ID].Leaving {
			status.Leaving = append(status.Leaving, info.ID)
		}
		if !answered[info.ID] {
			status.Silent = append(status.Silent, info.ID)
		}
	}
	for _, shardID := range slices.Sorted(maps.Keys(d.Shards)) {
		bounds, _ := d.Ranges.Of(shardID)
		one := service.ShardStatus{ShardID: shardID, Lower: bounds.First, Upper: bounds.Last,
			RangeVersion: bounds.Version, Source: d.Shards[shardID].Source}
		if bounds.Version == 0 { // The directory, or a shard that still copies its records.
			one.Lower, one.Upper = d.Shards[shardID].First, d.Shards[shardID].Last
		}
		if move := d.Shards[shardID].Move; move != (Move{}) {
			one.MovesFrom, one.MovesTo = d.nodeOf(shardID, move.From), d.nodeOf(shardID, move.To)
		}
		for _, p := range d.Shards[shardID].Replicas {
			member, known := running[raftio.NodeInfo{ShardID: shardID, ReplicaID: p.ReplicaID}]
			if !known {
				member = service.ReplicaStatus{ShardID: shardID, ReplicaID: p.ReplicaID,
					NodeID: p.NodeID}
			}
			if member.Leader {
				one.LeaderID = p.NodeID
			}
			one.Members = append(one.Members, member)
		}
		status.Shards = append(status.Shards, one)
	}
	return status, nil
}

// askForReplicas gives the replicas that run on the nodes, and the nodes that have answered soon.
func (n *Node) askForReplicas(ctx context.Context, nodes []service.NodeInfo) (
	all map[raftio.NodeInfo]service.ReplicaStatus, answered map[uint64]bool) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	all, answered = map[raftio.NodeInfo]service.ReplicaStatus{}, map[uint64]bool{}
	for _, info := range nodes {
		group.Go(func() {
			replicas := n.replicasHere()
			if info.ID != n.state.NodeID {
				answer, err := n.post(ctx, info.AdminAddress, pathReplicas, "", nil)
				if err != nil {
					return
				}
				replicas = nil
				if json.Unmarshal(answer, &replicas) != nil {
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answered[info.ID] = true
			for _, r := range replicas {
				all[raftio.NodeInfo{ShardID: r.ShardID, ReplicaID: r.ReplicaID}] = r
			}
		})
	}
	group.Wait()
	return all, answered
}

func (n *Node) serveReplicas(call) ([]byte, error) { return json.Marshal(n.replicasHere()) }

func (n *Node) replicasHere() []service.ReplicaStatus {
	var replicas []service.ReplicaStatus
	for _, s := range n.localShards() {
		r := service.ReplicaStatus{ShardID: s.shardID, ReplicaID: s.replicaID,
			NodeID: n.state.NodeID, Leader: s.leads(), Ready: s.ready() == nil && !n.draining.Load(),
			Fit: n.unfit(s) == "", Loading: !s.caughtUp.Load(),
			Differs:   s.differs.Load(),
			LogBytes:  n.log.Bytes(s.shardID, s.replicaID),
			Elections: s.load.elections.Load(), ReadKeys: s.load.reads.Load(),
			WrittenOps: s.load.writes.Load(), ReadKeysPerSecond: s.load.readRate.perSecond(),
			WrittenOpsPerSecond: s.load.writeRate.perSecond()}
		if failure := s.failure(); failure != nil {
			r.Failure = failure.Err.Error()
		}
		if s.replica != nil {
			r.Full = s.replica.Full()
			r.AppliedIndex, r.SyncedIndex = s.replica.Applied(), s.replica.Synced()
			r.RangeVersion = s.replica.Bounds().Version
		}
		replicas = append(replicas, r)
	}
	return replicas
}
