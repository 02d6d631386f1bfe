package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftio"

	"engine_race/cluster/service"
)

const (
	// Between two looks of the controller.
	balanceInterval = 2 * time.Second
	// How long one try of a move may take. The next look goes on with it, or finds it given up.
	moveTimeout = time.Minute
	// How long the controller asks another replica to lead.
	leadTimeout = 10 * time.Second
)

// balanceForever is the controller. It works on the node that leads the directory, and looks anew
// for each step. Moves that were noted in the directory are ended here in any case.
func (n *Node) balanceForever() {
	ctx, cancel := n.untilStopped()
	defer cancel()
	var b balancer
	for n.pause(cmp.Or(n.config.lookInterval, balanceInterval)) {
		if s := n.shard(directoryShard); s == nil || !s.leads() || n.draining.Load() {
			b = balancer{}
			continue
		}
		// One that waits says so once.
		if err := n.balance(ctx, &b); err != nil && err.Error() != b.waits {
			b.waits = err.Error()
			n.config.Logger.Warn("a move has not come to its end, and goes on", "error", err)
		}
	}
}

// goOn ends a move, or gives it up where an operator empties the node that it leads to.
func (n *Node) goOn(ctx context.Context, d *Directory, shardID uint64, move Move) error {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	if to := d.nodeOf(shardID, move.To); d.Nodes[to].Leaving {
		return n.RemoveReplica(ctx, shardID, to)
	}
	return n.endMove(ctx, shardID)
}

// balance ends the moves that are under way, or takes the next step that is due.
func (n *Node) balance(ctx context.Context, b *balancer) error {
	d := n.directory.Load()
	isMoving, failures := false, []error(nil)
	for _, shardID := range slices.Sorted(maps.Keys(d.Shards)) {
		if move := d.Shards[shardID].Move; move != (Move{}) {
			isMoving = true
			failures = append(failures, n.goOn(ctx, d, shardID, move))
		}
	}
	if isMoving {
		return errors.Join(failures...)
	}
	wanted, waits := n.nextStep(ctx, d)
	if waits != b.waits && waits != "" {
		n.config.Logger.Info("no replica and no leader is moved for now", "reason", waits)
	}
	b.waits = waits
	next := b.next(wanted)
	switch {
	case next == (step{}):
		return nil
	case next.isLeader:
		n.config.Logger.Info("spreading leaders", "shard", next.shard, "from", next.from, "to", next.to)
		ctx, cancel := context.WithTimeout(ctx, leadTimeout)
		defer cancel()
		return n.MoveLeader(ctx, next.shard, next.to)
	}
	n.config.Logger.Info("moving a replica", "shard", next.shard, "from", next.from, "to", next.to)
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	return n.MoveReplica(ctx, next.shard, next.from, next.to)
}

// nextStep looks at the cluster and gives the step that it needs, or why it has to wait. Only a
// move of a replica needs to know the room on disks, for which all files of the stores are looked
// at.
func (n *Node) nextStep(ctx context.Context, d *Directory) (next step, waits string) {
	v := n.look(ctx, d)
	if waits = v.unsettled(); waits != "" {
		return next, waits
	}
	next = v.plan(n.config.SpreadReplicas, n.config.SpreadLeaders)
	if next == (step{}) || next.isLeader {
		return next, ""
	}
	n.lookAtRoom(ctx, d, v)
	return v.plan(n.config.SpreadReplicas, n.config.SpreadLeaders), ""
}

// look asks all nodes for their replicas. Room counts as unlimited.
func (n *Node) look(ctx context.Context, d *Directory) *survey {
	v := &survey{}
	running, answered := n.askForReplicas(ctx, d.infos())
	for _, id := range slices.Sorted(maps.Keys(d.Nodes)) {
		entry := d.Nodes[id]
		host, _, _ := net.SplitHostPort(entry.RaftAddress)
		v.nodes = append(v.nodes, surveyedNode{id: id, host: host, answers: answered[id],
			leaving: entry.Leaving, freeBytes: 1 << 62})
	}
	sources := map[uint64]bool{}
	for _, entry := range d.Shards {
		sources[entry.Source] = true
	}
	for _, shardID := range slices.Sorted(maps.Keys(d.Shards)) {
		entry := d.Shards[shardID]
		s := surveyedShard{id: shardID}
		switch {
		case entry.Move != (Move{}):
			s.busy = "a replica is being moved"
		case entry.Source != 0 || sources[shardID]:
			s.busy = "its range is being split"
		case len(entry.Replicas) < len(entry.Founders):
			// An operator is about to add another one, perhaps where the controller would move one.
			s.busy = fmt.Sprintf("it has %d of %d replicas", len(entry.Replicas), len(entry.Founders))
		}
		for _, p := range entry.Replicas {
			r := running[raftio.NodeInfo{ShardID: shardID, ReplicaID: p.ReplicaID}]
			s.replicas = append(s.replicas, surveyedReplica{node: p.NodeID, ready: r.Ready,
				leads: r.Leader, isFit: r.Fit, differs: r.Differs})
		}
		v.shards = append(v.shards, s)
	}
	return v
}

// room is what a node answers of its disk.
type room struct {
	FreeBytes  uint64            `json:"free_bytes"`
	StoreBytes map[uint64]uint64 `json:"store_bytes"` // by shard
}

func (n *Node) serveRoom(call) ([]byte, error) { return json.Marshal(n.roomHere()) }

func (n *Node) roomHere() room {
	r := room{StoreBytes: map[uint64]uint64{}}
	r.FreeBytes, _ = n.freeBytes()
	for _, s := range n.localShards() {
		r.StoreBytes[s.shardID] = n.storeBytes(s.shardID, s.replicaID)
	}
	return r
}

// lookAtRoom asks the nodes for the room on their disks. One that does not answer has none.
func (n *Node) lookAtRoom(ctx context.Context, d *Directory, v *survey) {
	ctx, cancel := context.WithTimeout(ctx, n.inTicks(controlTimeout))
	defer cancel()
	rooms := make([]room, len(v.nodes))
	var group sync.WaitGroup
	for i := range v.nodes {
		group.Go(func() {
			if v.nodes[i].id == n.state.NodeID {
				rooms[i] = n.roomHere()
				return
			}
			answer, err := n.post(ctx, d.Nodes[v.nodes[i].id].AdminAddress, pathRoom, "", nil)
			if err == nil {
				err = json.Unmarshal(answer, &rooms[i])
			}
			if err != nil {
				n.config.Logger.Debug("a node does not tell its room", "node", v.nodes[i].id,
					"error", err)
			}
		})
	}
	group.Wait()
	for i := range v.nodes {
		v.nodes[i].freeBytes = rooms[i].FreeBytes
		for k := range v.shards {
			v.shards[k].bytes = max(v.shards[k].bytes, rooms[i].StoreBytes[v.shards[k].id])
		}
	}
}

// Decommission implements service.Control.
func (n *Node) Decommission(ctx context.Context, nodeID uint64, leaves bool) error {
	d, err := n.readDirectory(ctx)
	if err != nil {
		return err
	}
	if _, known := d.Nodes[nodeID]; !known {
		return fmt.Errorf("%w: there is no node %d", service.ErrInvalid, nodeID)
	}
	return n.untilServed(ctx, []uint64{directoryShard}, func() error {
		_, err := n.ask(ctx, directoryShard, controlRequest{Op: controlLeave, NodeID: nodeID,
			Leaving: leaves})
		return err
	})
}
