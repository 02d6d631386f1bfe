package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"

	"engine_race/cluster/service"
)

const (
	// How often a wait for another node looks again.
	pollInterval = 20 * time.Millisecond
	// Between two requests to move a leader.
	transferInterval = 500 * time.Millisecond
	// Between two looks whether a shard has a quorum, and how long it may be without one.
	quorumInterval = 500 * time.Millisecond
	quorumPatience = 2 * time.Second
)

// untilDone tries again until the context ends. It is for requests that may be carried out twice.
func (n *Node) untilDone(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || errors.Is(err, service.ErrInvalid) || errors.Is(err, service.ErrConflict) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-n.stopped:
			return err
		case <-time.After(pollInterval):
		}
	}
}

// untilServed is untilDone for a request that needs majorities of shards' replicas. It ends soon
// when they are not there: nobody should wait for a shard that nobody mends.
func (n *Node) untilServed(ctx context.Context, shardIDs []uint64, do func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failing := time.Time{} // since when too few replicas were seen to run
	checked := time.Now()
	err := n.untilDone(ctx, func() error {
		err := do()
		if err == nil || time.Since(checked) < quorumInterval {
			return err
		}
		checked = time.Now()
		var missing error
		for _, shardID := range shardIDs {
			if missing == nil {
				missing = n.quorum(ctx, shardID)
			}
		}
		switch {
		case missing == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = checked
		case time.Since(failing) >= n.inTicks(quorumPatience):
			cancel(missing)
		}
		return err
	})
	if err != nil && errors.Is(context.Cause(ctx), errNoQuorum) {
		return context.Cause(ctx)
	}
	return err
}

// readDirectory gives the directory with all changes that were made before the call.
func (n *Node) readDirectory(ctx context.Context) (*Directory, error) {
	var d *Directory
	err := n.untilServed(ctx, []uint64{directoryShard}, func() (err error) {
		attempt, cancel := context.WithTimeout(ctx, n.inTicks(controlTimeout))
		defer cancel()
		d, err = n.tryReadDirectory(attempt)
		return err
	})
	return d, err
}

func (n *Node) tryReadDirectory(ctx context.Context) (*Directory, error) {
	if n.shard(directoryShard) != nil {
		answer, err := n.host.SyncRead(ctx, directoryShard, nil)
		if err == nil {
			return answer.(*Directory), nil
		}
		if !errors.Is(err, dragonboat.ErrShardNotFound) {
			return nil, refusal(err)
		}
	}
	answer, err := n.elsewhere(ctx, directoryShard, pathDirectory, "newest=1", nil, true)
	if err != nil {
		return nil, err
	}
	d := &Directory{}
	if err := json.Unmarshal(answer, d); err != nil {
		return nil, fmt.Errorf("%w: the directory: %w", service.ErrUnavailable, err)
	}
	return d, nil
}

// placement gives the directory and the replica that the node has.
func (n *Node) placement(ctx context.Context, shardID, nodeID uint64) (*Directory, Placement,
	error) {
	d, err := n.readDirectory(ctx)
	if err != nil {
		return nil, Placement{}, err
	}
	p, placed := d.On(shardID, nodeID)
	if !placed {
		return d, p, fmt.Errorf("%w: node %d has no replica of shard %d", service.ErrInvalid, nodeID,
			shardID)
	}
	return d, p, nil
}

// AddReplica implements service.Control. The directory has the replica first, so that its node
// starts it and no other gets its ID. An interrupted call can be repeated.
func (n *Node) AddReplica(ctx context.Context, shardID, nodeID uint64) error {
	d, err := n.readDirectory(ctx)
	if err != nil {
		return err
	}
	_, known := d.Nodes[nodeID]
	if _, exists := d.Shards[shardID]; !exists || !known {
		return fmt.Errorf("%w: there is no shard %d or no node %d", service.ErrInvalid, shardID,
			nodeID)
	}
	request := controlRequest{Op: controlPlace, ShardID: shardID, NodeID: nodeID}
	err = n.untilServed(ctx, []uint64{directoryShard}, func() (err error) {
		request.ReplicaID, err = n.ask(ctx, directoryShard, request)
		return err
	})
	if err != nil {
		return fmt.Errorf("place a replica of shard %d on node %d: %w", shardID, nodeID, err)
	}
	if d, err = n.readDirectory(ctx); err != nil {
		return err
	}
	p, placed := d.On(shardID, nodeID)
	if !placed || p.ReplicaID != request.ReplicaID {
		return fmt.Errorf("%w: replica %d of shard %d was removed", service.ErrConflict,
			request.ReplicaID, shardID)
	}
	return n.bringIn(ctx, d, shardID, p)
}

// bringIn makes a replica that the directory has a voter of its shard, when it has caught up.
func (n *Node) bringIn(ctx context.Context, d *Directory, shardID uint64, p Placement) error {
	info := d.Nodes[p.NodeID]
	request := controlRequest{ShardID: shardID, NodeID: p.NodeID, ReplicaID: p.ReplicaID,
		Address: info.RaftAddress}
	// A replica that is behind counts towards the majority as soon as it votes. So it gets its vote
	// when it has caught up.
	steps := []string{controlAdd, controlApplied}
	if p.Learns {
		steps = []string{controlLearn, controlApplied, controlAdd}
	}
	if shardID >= firstDataShard {
		// A leader that UnsafeRecover has made streams an empty state until it has applied a command.
		steps = slices.Insert(steps, 0, controlTouch)
	}
	for _, step := range steps {
		request.Op = step
		err := n.untilServed(ctx, []uint64{shardID}, func() (err error) {
			if step == controlApplied {
				// The new replica answers a read index once it has caught up.
				_, err = n.askNode(ctx, info.NodeInfo, request)
				return err
			}
			_, err = n.ask(ctx, shardID, request)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s replica %d of shard %d: %w", step, request.ReplicaID, shardID, err)
		}
	}
	return nil
}

// mayRemove fails if the voters that would be left and are ready have no majority: nobody could add
// another one then. It also fails if they are fewer than are wanted. It waits a little for answers.
func (n *Node) mayRemove(ctx context.Context, c controlRequest) error {
	shardID, replicaID := c.ShardID, c.ReplicaID
	members, err := n.host.SyncGetShardMembership(ctx, shardID)
	if err != nil {
		return unknown(err)
	}
	if _, votes := members.Nodes[replicaID]; !votes {
		return nil
	}
	infos := n.directory.Load().infos()
	deadline, _ := ctx.Deadline()
	for {
		running, _ := n.askForReplicas(ctx, infos)
		live := 0
		for id := range members.Nodes {
			r, known := running[raftio.NodeInfo{ShardID: shardID, ReplicaID: id}]
			if id != replicaID && known && r.Ready {
				live++
			}
		}
		left := len(members.Nodes) - 1
		if live > left/2 && live >= c.Wanted {
			return nil
		}
		if time.Until(deadline) < 2*statusTimeout {
			if live > left/2 {
				return fmt.Errorf("%w: without replica %d only %d voters of shard %d are ready, and it "+
					"is to have %d", service.ErrUnavailable, replicaID, live, shardID, c.Wanted)
			}
			return fmt.Errorf("%w: without replica %d only %d of %d voters of shard %d are ready, "+
				"which is no majority", service.ErrConflict, replicaID, live, left, shardID)
		}
		time.Sleep(pollInterval)
	}
}

// mayLose fails if the replica is the last one of its shard.
func (d *Directory) mayLose(shardID uint64, p Placement) error {
	if len(d.Shards[shardID].Replicas) > 1 {
		return nil
	}
	return fmt.Errorf("%w: replica %d is the last one of shard %d", service.ErrConflict, p.ReplicaID,
		shardID)
}

// RemoveReplica implements service.Control. The node removes its files when it sees the directory.
func (n *Node) RemoveReplica(ctx context.Context, shardID, nodeID uint64) error {
	d, p, err := n.placement(ctx, shardID, nodeID)
	if err != nil {
		return err
	}
	if err := d.mayLose(shardID, p); err != nil {
		return err
	}
	n.moveAway(ctx, d, shardID, nodeID)
	return n.takeOut(ctx, controlUnplace,
		controlRequest{ShardID: shardID, NodeID: nodeID, ReplicaID: p.ReplicaID})
}

// takeOut removes a replica from its shard, and then changes the directory by the operation `op`.
func (n *Node) takeOut(ctx context.Context, op string, request controlRequest) error {
	request.Op = controlRemove
	err := n.untilServed(ctx, []uint64{request.ShardID}, func() error {
		_, err := n.ask(ctx, request.ShardID, request)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove replica %d of shard %d: %w", request.ReplicaID, request.ShardID, err)
	}
	request.Op = op
	return n.untilServed(ctx, []uint64{directoryShard}, func() error {
		_, err := n.ask(ctx, directoryShard, request)
		return err
	})
}

// replaceReplica gives this node another replica in the place of one that it has lost. The newest
// directory decides whether it has. An interrupted call can be repeated.
func (n *Node) replaceReplica(ctx context.Context, shardID uint64) error {
	d, p, err := n.placement(ctx, shardID, n.state.NodeID)
	if err != nil || !n.isLost(shardID, p, n.leftovers()) {
		return err
	}
	if err := d.mayLose(shardID, p); err != nil {
		return err
	}
	err = n.takeOut(ctx, controlReplace, controlRequest{ShardID: shardID, NodeID: n.state.NodeID,
		ReplicaID: p.ReplicaID})
	if err != nil {
		return fmt.Errorf("replace replica %d of shard %d: %w", p.ReplicaID, shardID, err)
	}
	return n.AddReplica(ctx, shardID, n.state.NodeID)
}

// moveAway moves the leader off a node if it can: the outcome of writes that are under way is
// unknown when their leader is removed.
func (n *Node) moveAway(ctx context.Context, d *Directory, shardID, nodeID uint64) {
	leads := false
	running, _ := n.askForReplicas(ctx, []service.NodeInfo{d.Nodes[nodeID].NodeInfo})
	for _, r := range running {
		leads = leads || r.ShardID == shardID && r.Leader
	}
	for _, other := range d.Shards[shardID].Replicas {
		if !leads || other.NodeID == nodeID {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, n.inTicks(controlTimeout))
		err := n.MoveLeader(attempt, shardID, other.NodeID)
		cancel()
		if err == nil {
			return
		}
		n.config.Logger.Warn("cannot move a leader", "shard", shardID, "error", err)
	}
}

// MoveLeader implements service.Control. A transfer can fail silently, so it is asked for again.
func (n *Node) MoveLeader(ctx context.Context, shardID, nodeID uint64) error {
	d, p, err := n.placement(ctx, shardID, nodeID)
	if err != nil {
		return err
	}
	request := controlRequest{Op: controlLead, ShardID: shardID, ReplicaID: p.ReplicaID}
	var asked time.Time
	return n.untilServed(ctx, []uint64{shardID}, func() error {
		running, _ := n.askForReplicas(ctx, d.infosOf(shardID))
		for _, r := range running {
			if r.ShardID != shardID || !r.Leader {
				continue
			}
			if r.NodeID == nodeID {
				return nil
			}
			if time.Since(asked) >= transferInterval {
				asked = time.Now()
				if _, err := n.askNode(ctx, d.Nodes[r.NodeID].NodeInfo, request); err != nil {
					return err
				}
			}
		}
		return fmt.Errorf("%w: another replica leads", service.ErrUnavailable)
	})
}

// Snapshot implements service.Control.
func (n *Node) Snapshot(ctx context.Context, shardID uint64) (uint64, error) {
	if _, known := n.directory.Load().Shards[shardID]; !known {
		return 0, fmt.Errorf("%w: there is no shard %d", service.ErrInvalid, shardID)
	}
	return n.ask(ctx, shardID, controlRequest{Op: controlSnapshot, ShardID: shardID})
}

// giveUpLeadership asks other replicas to lead, with each attempt another one. Clients of a replica
// that is not ready would wait until it has applied its log.
func (n *Node) giveUpLeadership(ctx context.Context, attempt int) {
	d := n.directory.Load()
	running, _ := n.askForReplicas(ctx, d.infos())
	var group sync.WaitGroup
	for _, s := range n.localShards() {
		var others, ready []uint64
		for _, p := range d.Shards[s.shardID].Replicas {
			if p.ReplicaID == s.replicaID {
				continue
			}
			others = append(others, p.ReplicaID)
			other := raftio.NodeInfo{ShardID: s.shardID, ReplicaID: p.ReplicaID}
			if running[other].Ready && running[other].Fit {
				ready = append(ready, p.ReplicaID)
			}
		}
		if !s.leads() || len(others) == 0 {
			continue
		}
		if len(ready) > 0 {
			others = ready
		}
		group.Go(func() {
			err := s.handOver(others[attempt%len(others)])
			if err != nil && !errors.Is(err, dragonboat.ErrSystemBusy) {
				n.config.Logger.Warn("cannot move a leader", "shard", s.shardID, "error", err)
			}
		})
	}
	group.Wait()
}

// leading gives the number of shards that are led here and have other replicas.
func (n *Node) leading() int {
	count := 0
	d := n.directory.Load()
	for _, s := range n.localShards() {
		if s.leads() && len(d.Shards[s.shardID].Replicas) > 1 {
			count++
		}
	}
	return count
}
