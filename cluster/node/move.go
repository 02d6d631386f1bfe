package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4/raftio"

	"engine_race/cluster/service"
)

// readyPatience is how long a move waits until the other replicas of its shard are ready.
const readyPatience = 5 * time.Second

// Move is a move of a replica that is under way. The zero value: there is none. It is a part of the
// directory, so that the node that leads the directory ends it when the call that began it was
// lost. It ends with the removal of the former replica. The removal of the new one gives it up.
type Move struct {
	From uint64 `json:"from"` // the ID of the replica that goes
	To   uint64 `json:"to"`   // that of the one that takes its place
}

func (m Move) has(replicaID uint64) bool {
	return replicaID != 0 && (m.From == replicaID || m.To == replicaID)
}

// with gives the move after a replica was replaced.
func (m Move) with(former, next uint64) Move {
	if m.From == former {
		m.From = next
	}
	if m.To == former {
		m.To = next
	}
	return m
}

// nodeOf gives the node of a replica, or 0.
func (d *Directory) nodeOf(shardID, replicaID uint64) uint64 {
	for _, p := range d.Shards[shardID].Replicas {
		if p.ReplicaID == replicaID {
			return p.NodeID
		}
	}
	return 0
}

// move places a replica on the node `to`, which is to take the place of that on the node `from`. A
// call that is repeated gives the same replica.
func (d *Directory) move(shardID, from, to uint64) (uint64, string) {
	former, placed := d.On(shardID, from)
	if !placed || from == to {
		return resultRefused, fmt.Sprintf("node %d has no replica of shard %d to move", from, shardID)
	}
	if move := d.Shards[shardID].Move; move != (Move{}) {
		if move.From == former.ReplicaID && d.nodeOf(shardID, move.To) == to {
			return move.To, ""
		}
		return resultRefused, fmt.Sprintf("a replica of shard %d is being moved from node %d to node "+
			"%d: wait for its end, or give it up by a remove-replica of node %d", shardID,
			d.nodeOf(shardID, move.From), d.nodeOf(shardID, move.To), d.nodeOf(shardID, move.To))
	}
	if _, there := d.On(shardID, to); there {
		return resultRefused, fmt.Sprintf("node %d has a replica of shard %d already", to, shardID)
	}
	if other, isSplit := d.splitOf(shardID); isSplit {
		return resultRefused, fmt.Sprintf("shard %d is being split: wait until shard %d has its "+
			"records", shardID, other)
	}
	id, refusal := d.place(shardID, to)
	if refusal == "" {
		entry := d.Shards[shardID]
		entry.Move = Move{From: former.ReplicaID, To: id}
		d.Shards[shardID] = entry
	}
	return id, refusal
}

// splitOf tells whether a shard gives or gets records by a split, and the shard that gets them.
func (d *Directory) splitOf(shardID uint64) (uint64, bool) {
	if d.Shards[shardID].Source != 0 {
		return shardID, true
	}
	for _, id := range slices.Sorted(maps.Keys(d.Shards)) {
		if d.Shards[id].Source == shardID {
			return id, true
		}
	}
	return 0, false
}

// MoveReplica implements service.Control. The directory notes the move before its first step, so an
// interrupted call goes on by itself, and can be repeated.
func (n *Node) MoveReplica(ctx context.Context, shardID, from, to uint64) error {
	d, err := n.readDirectory(ctx)
	if err != nil {
		return err
	}
	for _, nodeID := range []uint64{from, to} {
		_, knownShard := d.Shards[shardID]
		if _, known := d.Nodes[nodeID]; !known || !knownShard {
			return fmt.Errorf("%w: there is no shard %d or no node %d", service.ErrInvalid, shardID,
				nodeID)
		}
	}
	if from == to {
		return fmt.Errorf("%w: from and to are both node %d", service.ErrInvalid, to)
	}
	_, isFrom := d.On(shardID, from)
	p, isTo := d.On(shardID, to)
	if !isFrom && isTo {
		// A call before this one has come to its end.
		return n.bringIn(ctx, d, shardID, p)
	}
	if isFrom && isTo && d.Shards[shardID].Move == (Move{}) {
		return fmt.Errorf("%w: node %d has a replica of shard %d already", service.ErrInvalid, to,
			shardID)
	}
	if !isFrom {
		return fmt.Errorf("%w: node %d has no replica of shard %d", service.ErrInvalid, from, shardID)
	}
	request := controlRequest{Op: controlMove, ShardID: shardID, NodeID: from, To: to}
	err = n.untilServed(ctx, []uint64{directoryShard}, func() error {
		_, err := n.ask(ctx, directoryShard, request)
		return err
	})
	if err != nil {
		return fmt.Errorf("move a replica of shard %d from node %d to node %d: %w", shardID, from, to,
			err)
	}
	return n.endMove(ctx, shardID)
}

// endMove carries a move out that the directory has. The new replica votes before the former one
// goes. All others of the shard must be ready then, so that no move makes the shard any weaker.
func (n *Node) endMove(ctx context.Context, shardID uint64) error {
	d, err := n.readDirectory(ctx)
	if err != nil {
		return err
	}
	move := d.Shards[shardID].Move
	if move == (Move{}) {
		return nil
	}
	from, to := d.nodeOf(shardID, move.From), d.nodeOf(shardID, move.To)
	p, _ := d.On(shardID, to)
	// Before the new replica has a vote: with another one down it would take one more to agree.
	if err := n.awaitOthers(ctx, d, shardID, move.From, move.To); err != nil {
		return err
	}
	if err := n.bringIn(ctx, d, shardID, p); err != nil {
		return err
	}
	if d, err = n.readDirectory(ctx); err != nil {
		return err
	}
	if now := d.Shards[shardID].Move; now != move {
		if now == (Move{}) && d.nodeOf(shardID, move.From) == 0 {
			return nil // Another node has carried it out.
		}
		return fmt.Errorf("%w: the move of a replica of shard %d was given up", service.ErrConflict,
			shardID)
	}
	if err := n.awaitOthers(ctx, d, shardID, move.From); err != nil {
		return err
	}
	n.moveAway(ctx, d, shardID, from)
	request := controlRequest{ShardID: shardID, NodeID: from, ReplicaID: move.From,
		Wanted: len(d.Shards[shardID].Replicas) - 1}
	return n.takeOut(ctx, controlUnplace, request)
}

// awaitOthers waits until all replicas of a shard but some are ready.
func (n *Node) awaitOthers(ctx context.Context, d *Directory, shardID uint64,
	except ...uint64) error {
	ctx, cancel := context.WithTimeout(ctx, n.inTicks(readyPatience))
	defer cancel()
	return n.untilDone(ctx, func() error {
		running, _ := n.askForReplicas(ctx, d.infosOf(shardID))
		for _, p := range d.Shards[shardID].Replicas {
			id := raftio.NodeInfo{ShardID: shardID, ReplicaID: p.ReplicaID}
			if !slices.Contains(except, p.ReplicaID) && !running[id].Ready {
				return fmt.Errorf("%w: the move goes on when the replica of shard %d on node %d is ready",
					service.ErrUnknown, shardID, p.NodeID)
			}
		}
		return nil
	})
}
