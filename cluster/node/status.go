package node

import (
	"context"
	"encoding/json"
	"fmt"
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
	status := service.Status{Cluster: n.state.Genesis.Cluster, NodeID: n.state.NodeID}
	for _, entry := range d.Nodes {
		status.Nodes = append(status.Nodes, entry.NodeInfo)
	}
	slices.SortFunc(status.Nodes,
		func(a, b service.NodeInfo) int { return int(a.ID) - int(b.ID) })
	running := n.askForReplicas(ctx, status.Nodes)
	division := divisionOf(&n.state.Genesis)
	for shardID := uint64(directoryShard); shardID < firstDataShard+division.Shards; shardID++ {
		one := service.ShardStatus{ShardID: shardID}
		if shardID >= firstDataShard {
			one.Lower = division.Lower(shardID - firstDataShard)
			one.Upper = division.Upper(shardID - firstDataShard)
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

// askForReplicas gives the replicas that run on the nodes. Nodes that do not answer soon are left
// out.
func (n *Node) askForReplicas(ctx context.Context,
	nodes []service.NodeInfo) map[raftio.NodeInfo]service.ReplicaStatus {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	all := map[raftio.NodeInfo]service.ReplicaStatus{}
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
			for _, r := range replicas {
				all[raftio.NodeInfo{ShardID: r.ShardID, ReplicaID: r.ReplicaID}] = r
			}
		})
	}
	group.Wait()
	return all
}

func (n *Node) serveReplicas(call) ([]byte, error) { return json.Marshal(n.replicasHere()) }

func (n *Node) replicasHere() []service.ReplicaStatus {
	var replicas []service.ReplicaStatus
	for _, s := range n.localShards() {
		r := service.ReplicaStatus{ShardID: s.shardID, ReplicaID: s.replicaID,
			NodeID: n.state.NodeID, Leader: s.leads(), Ready: s.ready() == nil && !n.draining.Load(),
			Fit: n.unfit(s) == ""}
		if failure := s.failure(); failure != nil {
			r.Failure = failure.Err.Error()
		}
		if s.replica != nil {
			r.AppliedIndex, r.SyncedIndex = s.replica.Applied(), s.replica.Synced()
		}
		replicas = append(replicas, r)
	}
	return replicas
}

// Live implements service.Control. It never fails: failures that need a restart end the process.
func (n *Node) Live() error { return nil }

// Ready implements service.Control: it fails when clients should go to another node.
func (n *Node) Ready() error {
	if n.draining.Load() {
		return fmt.Errorf("%w: draining", service.ErrUnavailable)
	}
	if err := n.hasBegun(); err != nil {
		return err
	}
	d := n.directory.Load()
	for shardID := range d.Shards {
		_, placed := d.On(shardID, n.state.NodeID)
		s := n.shard(shardID)
		switch {
		case s != nil:
			if err := s.ready(); err != nil {
				return err
			}
		case placed:
			// The shard has one replica less meanwhile: no other node should be stopped.
			return fmt.Errorf("%w: shard %d does not run", service.ErrLoading, shardID)
		}
	}
	return nil
}
