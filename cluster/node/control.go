package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/service"
)

// How often a wait for another node looks again.
const pollInterval = 20 * time.Millisecond

// Between two requests to move a leader.
const transferInterval = 500 * time.Millisecond

// How long one try of a request is waited for. Raft drops a change of members that meets an
// election, and tells nobody: the request must be made again.
const attemptTimeout = 2 * time.Second

// changeDirectory proposes a change and gives its result. The node has the directory.
func (n *Node) changeDirectory(ctx context.Context, c change) (uint64, error) {
	command, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	result, err := n.host.SyncPropose(ctx, n.host.GetNoOPSession(directoryShard), command)
	if err != nil {
		return 0, fmt.Errorf("change the directory: %w", unknown(err))
	}
	if len(result.Data) > 0 {
		return 0, fmt.Errorf("%w: %s", service.ErrConflict, result.Data)
	}
	n.nudgeReconciler()
	return result.Value, nil
}

func (n *Node) nudgeReconciler() {
	select {
	case n.nudge <- struct{}{}:
	default:
	}
}

// A request of control that another node carries out, which has the directory and the shard.
type controlRequest struct {
	Op      string `json:"op"`
	ShardID uint64 `json:"shard"`
	NodeID  uint64 `json:"node"`
}

const (
	controlPlace    = "place"
	controlUnplace  = "unplace"
	controlAdd      = "add"
	controlRemove   = "remove"
	controlLead     = "lead"
	controlSnapshot = "snapshot"
	controlApplied  = "applied"
)

// ask carries a request out here if this node has the shard, and on another node otherwise. Of a
// change of its own membership a replica may not hear: others carry it out.
func (n *Node) ask(ctx context.Context, shardID uint64, c controlRequest) (uint64, error) {
	own := c.NodeID == n.state.NodeID && (c.Op == controlAdd || c.Op == controlRemove)
	if n.shard(shardID) != nil && !own {
		value, err := n.carryOut(ctx, c)
		if !errors.Is(err, errNotHere) {
			return value, err
		}
	}
	body, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	answer, err := n.elsewhere(ctx, shardID, pathControl, "", body, false)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(answer), 10, 64)
}

// try asks once, for a request that may be carried out twice.
func (n *Node) try(ctx context.Context, shardID uint64, c controlRequest) error {
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err := n.ask(attempt, shardID, c)
	return err
}

func (n *Node) serveControl(c call) ([]byte, error) {
	if c.shard == nil {
		return nil, errNotHere
	}
	var request controlRequest
	if err := json.Unmarshal(c.body, &request); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	value, err := n.carryOut(c.ctx, request)
	return strconv.AppendUint(nil, value, 10), err
}

func (n *Node) carryOut(ctx context.Context, c controlRequest) (uint64, error) {
	d := n.directory.Load()
	switch c.Op {
	case controlPlace:
		return n.changeDirectory(ctx, change{Op: opPlace, ShardID: c.ShardID, NodeID: c.NodeID})
	case controlUnplace:
		p, _ := n.machine.current.Load().On(c.ShardID, c.NodeID)
		return n.changeDirectory(ctx,
			change{Op: opRemove, ShardID: c.ShardID, ReplicaID: p.ReplicaID})
	case controlAdd:
		p, placed := n.newestDirectory(d).On(c.ShardID, c.NodeID)
		if !placed {
			return 0, fmt.Errorf("%w: the directory is behind", service.ErrUnavailable)
		}
		address := n.newestDirectory(d).Nodes[c.NodeID].RaftAddress
		err := n.host.SyncRequestAddReplica(ctx, c.ShardID, p.ReplicaID, address, 0)
		return 0, n.changed(ctx, err, c.ShardID, p.ReplicaID, true)
	case controlRemove:
		p, placed := n.newestDirectory(d).On(c.ShardID, c.NodeID)
		if !placed {
			return 0, nil
		}
		err := n.host.SyncRequestDeleteReplica(ctx, c.ShardID, p.ReplicaID, 0)
		return 0, n.changed(ctx, err, c.ShardID, p.ReplicaID, false)
	case controlLead:
		p, placed := d.On(c.ShardID, c.NodeID)
		if !placed {
			return 0, fmt.Errorf("%w: node %d has no replica of shard %d",
				service.ErrInvalid, c.NodeID, c.ShardID)
		}
		return 0, unknown(n.host.RequestLeaderTransfer(c.ShardID, p.ReplicaID))
	case controlSnapshot:
		return n.snapshotHere(ctx, n.shard(c.ShardID))
	case controlApplied:
		return n.appliedHere(ctx, n.shard(c.ShardID))
	}
	return 0, fmt.Errorf("%w: an unknown request %q", service.ErrUnavailable, c.Op)
}

func unknown(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, dragonboat.ErrShardNotFound), errors.Is(err, dragonboat.ErrShardClosed):
		// The replica here was removed: another node must be asked.
		return fmt.Errorf("%w: %w", errNotHere, err)
	}
	return fmt.Errorf("%w: %w", service.ErrUnknown, err)
}

// changed gives the outcome of a change of members. One that was carried out before is rejected.
func (n *Node) changed(ctx context.Context, err error, shardID, replicaID uint64,
	member bool) error {
	if !errors.Is(err, dragonboat.ErrRejected) {
		return unknown(err)
	}
	members, err := n.host.SyncGetShardMembership(ctx, shardID)
	if err != nil {
		return unknown(err)
	}
	if _, is := members.Nodes[replicaID]; is != member {
		return fmt.Errorf("%w: replica %d of shard %d: rejected", service.ErrUnavailable, replicaID,
			shardID)
	}
	return nil
}

func (n *Node) snapshotHere(ctx context.Context, s *shard) (uint64, error) {
	deadline, _ := ctx.Deadline()
	request, err := n.requestSnapshot(s, time.Until(deadline))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	select {
	case result := <-request.ResultC():
		if !result.Completed() {
			return 0, fmt.Errorf("%w: no snapshot was taken: one is under way, or nothing was "+
				"written since the last one", service.ErrUnavailable)
		}
		return result.SnapshotIndex(), nil
	case <-ctx.Done():
		return 0, unknown(ctx.Err())
	}
}

// appliedHere gives an index up to which the replica has applied everything that was committed
// before the call.
func (n *Node) appliedHere(ctx context.Context, s *shard) (uint64, error) {
	if s == nil {
		return 0, errNotHere
	}
	deadline, _ := ctx.Deadline()
	request, err := n.host.ReadIndex(s.shardID, time.Until(deadline))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	select {
	case result := <-request.ResultC():
		if !result.Completed() {
			return 0, fmt.Errorf("%w: the replica is behind", service.ErrUnavailable)
		}
		return 1, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", service.ErrUnavailable, ctx.Err())
	}
}

// AddReplica implements service.Control.
func (n *Node) AddReplica(ctx context.Context, shardID, nodeID uint64) error {
	d := n.directory.Load()
	if _, known := d.Shards[shardID]; !known {
		return fmt.Errorf("%w: there is no shard %d", service.ErrInvalid, shardID)
	}
	place := controlRequest{controlPlace, shardID, nodeID}
	if err := n.untilDone(ctx, func() error {
		return n.try(ctx, directoryShard, place)
	}); err != nil {
		return err
	}
	add := controlRequest{controlAdd, shardID, nodeID}
	if err := n.untilDone(ctx, func() error { return n.try(ctx, shardID, add) }); err != nil {
		return fmt.Errorf("add a replica of shard %d on node %d: %w", shardID, nodeID, err)
	}
	// The new replica answers a read index once it has caught up.
	caughtUp := controlRequest{controlApplied, shardID, nodeID}
	return n.untilDone(ctx, func() error {
		_, err := n.askNode(ctx, nodeID, caughtUp)
		return err
	})
}

// askNode lets one node carry a request out.
func (n *Node) askNode(ctx context.Context, nodeID uint64, c controlRequest) (uint64, error) {
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if nodeID == n.state.NodeID {
		if n.shard(c.ShardID) == nil {
			return 0, errNotHere
		}
		return n.carryOut(attempt, c)
	}
	body, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	address := n.directory.Load().Nodes[nodeID].AdminAddress
	answer, err := n.post(attempt, address, pathControl, fmt.Sprintf("shard=%d", c.ShardID), body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(answer), 10, 64)
}

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

// RemoveReplica implements service.Control. The node removes its files when it sees the directory.
func (n *Node) RemoveReplica(ctx context.Context, shardID, nodeID uint64) error {
	p, err := n.placement(shardID, nodeID)
	if err != nil {
		return err
	}
	if len(n.directory.Load().Shards[shardID].Replicas) == 1 {
		return fmt.Errorf("%w: replica %d is the last one of shard %d", service.ErrConflict,
			p.ReplicaID, shardID)
	}
	remove := controlRequest{controlRemove, shardID, nodeID}
	if err := n.untilDone(ctx, func() error { return n.try(ctx, shardID, remove) }); err != nil {
		return fmt.Errorf("remove the replica of shard %d on node %d: %w", shardID, nodeID, err)
	}
	unplace := controlRequest{controlUnplace, shardID, nodeID}
	return n.untilDone(ctx, func() error { return n.try(ctx, directoryShard, unplace) })
}

// placement gives the replica that the node has.
func (n *Node) placement(shardID, nodeID uint64) (Placement, error) {
	p, placed := n.directory.Load().On(shardID, nodeID)
	if !placed {
		return p, fmt.Errorf("%w: node %d has no replica of shard %d", service.ErrInvalid, nodeID,
			shardID)
	}
	return p, nil
}

// MoveLeader implements service.Control.
func (n *Node) MoveLeader(ctx context.Context, shardID, nodeID uint64) error {
	p, err := n.placement(shardID, nodeID)
	if err != nil {
		return err
	}
	// A transfer can fail silently, so it is asked for again.
	var asked time.Time
	return n.untilDone(ctx, func() error {
		if s := n.shard(shardID); s != nil && s.leader.Load() == p.ReplicaID {
			return nil
		}
		if time.Since(asked) >= transferInterval {
			asked = time.Now()
			_, err := n.ask(ctx, shardID, controlRequest{controlLead, shardID, nodeID})
			if err == nil && n.shard(shardID) == nil {
				return nil
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
	return n.ask(ctx, shardID, controlRequest{controlSnapshot, shardID, n.state.NodeID})
}

// giveUpLeadership asks other replicas to lead, and gives the number of shards led here.
func (n *Node) giveUpLeadership() int {
	leading := 0
	d := n.directory.Load()
	for _, s := range n.localShards() {
		if !s.leads() {
			continue
		}
		for _, p := range d.Shards[s.shardID].Replicas {
			if p.ReplicaID == s.replicaID {
				continue
			}
			leading++
			err := n.host.RequestLeaderTransfer(s.shardID, p.ReplicaID)
			if err != nil && !errors.Is(err, dragonboat.ErrSystemBusy) {
				n.config.Logger.Warn("cannot move a leader", "shard", s.shardID, "error", err)
			}
			break
		}
	}
	return leading
}
