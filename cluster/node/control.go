package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/service"
)

// controlTimeout bounds one try of a request. A proposal to a leader that is lost has no answer,
// and is made again.
const controlTimeout = 2 * time.Second

// controlRequest is a step of an operator's call, for a node that has the shard, or the
// directory's. The call has resolved the replica, so that all steps mean the same one.
type controlRequest struct {
	Op        string `json:"op"`
	ShardID   uint64 `json:"shard"`
	NodeID    uint64 `json:"node,omitempty"`
	ReplicaID uint64 `json:"replica,omitempty"`
	Address   string `json:"address,omitempty"` // of raft on the node
	// Of controlAddress: the node with its new addresses, and its epoch.
	Node  service.NodeInfo `json:"node_info,omitzero"`
	Epoch uint64           `json:"epoch,omitempty"`
	// Of controlSplit: see opSplit.
	Key     uint64 `json:"key,omitempty"`
	Version uint64 `json:"version,omitempty"`
	To      uint64 `json:"to,omitempty"`      // of controlMove: a node
	Leaving bool   `json:"leaving,omitempty"` // of controlLeave
	// Of controlRemove: so many voters must be ready without the replica, and a majority in any case.
	Wanted int `json:"wanted,omitempty"`
}

const (
	controlPlace    = "place"   // in the directory; the replica's ID is the answer
	controlUnplace  = "unplace" // in the directory
	controlReplace  = "replace" // in the directory; the ID of the new replica is the answer
	controlAddress  = "address" // in the directory
	controlSplit    = "split"   // in the directory; the ID of the new shard is the answer
	controlCut      = "cut"     // in the directory
	controlFilled   = "filled"  // in the directory
	controlMove     = "move"    // in the directory; the ID of the new replica is the answer
	controlLeave    = "leave"   // in the directory
	controlLearn    = "learn"   // without a vote
	controlAdd      = "add"     // with a vote, which a replica that learns gets
	controlRemove   = "remove"
	controlLead     = "lead"
	controlSnapshot = "snapshot"
	controlMark     = "mark"  // a moment, for a comparison; its index is the answer
	controlTouch    = "touch" // the log, with a command that changes nothing
	controlDiffers  = "differs"
	controlAgrees   = "agrees"
	controlApplied  = "applied"
	controlBytes    = "bytes" // that the replica's store takes on its disk
)

// ask carries a request out here if this node has shardID, and on another node otherwise. A replica
// may not hear of a change of its own membership, so another node carries that out.
func (n *Node) ask(ctx context.Context, shardID uint64, c controlRequest) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, n.inTicks(controlTimeout))
	defer cancel()
	own := c.NodeID == n.state.NodeID &&
		slices.Contains([]string{controlAdd, controlLearn, controlRemove}, c.Op)
	if s := n.shard(shardID); s != nil && !own {
		value, err := n.carryOut(ctx, s, c)
		if !errors.Is(err, errNotHere) {
			return value, err
		}
	}
	body, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	return parseAnswer(n.elsewhere(ctx, shardID, pathControl, "", body, false))
}

// askNode lets one node carry a request out, which has the shard.
func (n *Node) askNode(ctx context.Context, node service.NodeInfo, c controlRequest) (uint64,
	error) {
	ctx, cancel := context.WithTimeout(ctx, n.inTicks(controlTimeout))
	defer cancel()
	if node.ID == n.state.NodeID {
		if s := n.shard(c.ShardID); s != nil {
			return n.carryOut(ctx, s, c)
		}
		return 0, errNotHere
	}
	body, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	query := fmt.Sprintf("shard=%d", c.ShardID)
	return parseAnswer(n.post(ctx, node.AdminAddress, pathControl, query, body))
}

func parseAnswer(answer []byte, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseUint(string(answer), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: a malformed answer: %w", service.ErrUnknown, err)
	}
	return value, nil
}

func (n *Node) serveControl(c call) ([]byte, error) {
	if c.shard == nil {
		return nil, errNotHere
	}
	var request controlRequest
	if err := json.Unmarshal(c.body, &request); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	value, err := n.carryOut(c.ctx, c.shard, request)
	return strconv.AppendUint(nil, value, 10), err
}

// carryOut carries a request out with a shard that is here.
func (n *Node) carryOut(ctx context.Context, s *shard, c controlRequest) (uint64, error) {
	if s.shardID == directoryShard {
		switch c.Op {
		case controlPlace:
			return n.changeDirectory(ctx,
				change{Op: opPlace, ShardID: c.ShardID, NodeID: c.NodeID})
		case controlUnplace:
			return n.changeDirectory(ctx,
				change{Op: opRemove, ShardID: c.ShardID, ReplicaID: c.ReplicaID})
		case controlAddress:
			return n.changeDirectory(ctx, change{Op: opAddress, Node: c.Node, Epoch: c.Epoch})
		case controlSplit:
			return n.changeDirectory(ctx,
				change{Op: opSplit, ShardID: c.ShardID, Key: c.Key, Version: c.Version})
		case controlMove:
			return n.changeDirectory(ctx,
				change{Op: opMove, ShardID: c.ShardID, NodeID: c.NodeID, To: c.To})
		case controlLeave:
			return n.changeDirectory(ctx, change{Op: opLeave, NodeID: c.NodeID, Leaving: c.Leaving})
		case controlCut:
			return n.changeDirectory(ctx, change{Op: opCut, ShardID: c.ShardID})
		case controlFilled:
			return n.changeDirectory(ctx, change{Op: opFilled, ShardID: c.ShardID})
		case controlReplace:
			return n.changeDirectory(ctx, change{Op: opReplace, ShardID: c.ShardID,
				NodeID: c.NodeID, ReplicaID: c.ReplicaID})
		}
	}
	if s.shardID != c.ShardID {
		return 0, errNotHere
	}
	switch c.Op {
	case controlLearn:
		err := n.host.SyncRequestAddNonVoting(ctx, c.ShardID, c.ReplicaID, c.Address, 0)
		return 0, n.changed(ctx, err, c.ShardID, c.ReplicaID, true)
	case controlAdd:
		err := n.host.SyncRequestAddReplica(ctx, c.ShardID, c.ReplicaID, c.Address, 0)
		return 0, n.changed(ctx, err, c.ShardID, c.ReplicaID, true)
	case controlRemove:
		if err := n.mayRemove(ctx, c); err != nil {
			return 0, err
		}
		err := n.host.SyncRequestDeleteReplica(ctx, c.ShardID, c.ReplicaID, 0)
		return 0, n.changed(ctx, err, c.ShardID, c.ReplicaID, false)
	case controlLead:
		if !s.leads() {
			return 0, errNotHere
		}
		return 0, unknown(s.handOver(c.ReplicaID))
	case controlSnapshot:
		return n.snapshotHere(ctx, s)
	case controlMark:
		return n.proposeEmpty(ctx, s, true)
	case controlTouch:
		return n.proposeEmpty(ctx, s, false)
	case controlDiffers, controlAgrees:
		s.differs.Store(c.Op == controlDiffers)
		return 0, nil
	case controlBytes:
		return n.storeBytes(s.shardID, s.replicaID), nil
	case controlApplied:
		return 0, n.awaitApplied(ctx, s)
	}
	return 0, fmt.Errorf("%w: an unknown request %q", service.ErrInvalid, c.Op)
}

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

// unknown turns an error of dragonboat, which may have carried a request out, into one of the
// service.
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
	if _, was := members.Removed[replicaID]; was && member {
		return fmt.Errorf("%w: replica %d of shard %d was removed", service.ErrConflict, replicaID,
			shardID)
	}
	_, is := members.Nodes[replicaID]
	_, learns := members.NonVotings[replicaID]
	if (is || learns) != member {
		return fmt.Errorf("%w: replica %d of shard %d: rejected", service.ErrUnavailable, replicaID,
			shardID)
	}
	return nil
}

func (n *Node) snapshotHere(ctx context.Context, s *shard) (uint64, error) {
	deadline, _ := ctx.Deadline()
	request, err := n.requestSnapshot(s, keptBytes, time.Until(deadline))
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

// awaitApplied waits until the replica has applied everything that was committed before the call.
func (n *Node) awaitApplied(ctx context.Context, s *shard) error {
	deadline, _ := ctx.Deadline()
	request, err := n.host.ReadIndex(s.shardID, time.Until(deadline))
	if err != nil {
		return fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	select {
	case result := <-request.ResultC():
		if !result.Completed() {
			return fmt.Errorf("%w: the replica is behind", service.ErrUnavailable)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", service.ErrUnavailable, ctx.Err())
	}
}
