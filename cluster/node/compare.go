package node

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// How often the node that leads a shard looks whether a comparison is due.
	compareLook = 10 * time.Second
	// How long one comparison in the background may take.
	compareTimeout = time.Hour
)

// Compare implements service.Control. All replicas hash the state of one index: see package
// replica. The nodes that differ from most others are told, so that status shows it.
func (n *Node) Compare(ctx context.Context, shardID uint64) (service.Comparison, error) {
	result := service.Comparison{ShardID: shardID}
	d := n.directory.Load()
	if _, known := d.Shards[shardID]; !known || shardID < firstDataShard {
		return result, fmt.Errorf("%w: there is no shard %d with records", service.ErrInvalid, shardID)
	}
	if d.commands() < 2 {
		return result, fmt.Errorf("%w: some node runs an earlier version, which cannot compare",
			service.ErrConflict)
	}
	err := n.untilDone(ctx, func() (err error) {
		result.Index, err = n.ask(ctx, shardID, controlRequest{Op: controlMark, ShardID: shardID})
		return err
	})
	if err != nil {
		return result, fmt.Errorf("mark a moment of shard %d: %w", shardID, err)
	}
	hashes, missing := n.hashAll(ctx, d, shardID, result.Index)
	result.Nodes = append(result.Nodes, slices.Sorted(maps.Keys(hashes))...)
	result.Missing = missing
	result.Differences = differences(hashes, d.Shards[shardID].First)
	n.tell(ctx, d, result)
	n.comparisons.Store(shardID, result)
	n.comparisonsDone.Add(1)
	if len(result.Nodes) < 2 {
		return result, fmt.Errorf("%w: %d replicas of shard %d gave hashes", service.ErrUnavailable,
			len(result.Nodes), shardID)
	}
	return result, nil
}

// proposeEmpty proposes a command without writes. With marks all replicas take a snapshot at its
// index, which is the answer.
func (n *Node) proposeEmpty(ctx context.Context, s *shard, marks bool) (uint64, error) {
	if s.replica == nil || !s.leads() {
		return 0, errNotHere
	}
	command := replica.NewCommand(nil, replica.Header{Version: uint8(n.commands()), Mark: marks,
		Token: s.ledTerm()})
	result, err := n.host.SyncPropose(ctx, s.proposer.session, command)
	switch {
	case err != nil:
		return 0, unknown(err)
	case result.Value != replica.ResultApplied || marks && len(result.Data) != 8:
		return 0, fmt.Errorf("%w: the shard has another leader", service.ErrUnavailable)
	case !marks:
		return 0, nil
	}
	return binary.BigEndian.Uint64(result.Data), nil
}

// hashAll gives the chunks of each node, and why others gave none.
func (n *Node) hashAll(ctx context.Context, d *Directory, shardID,
	index uint64) (map[uint64][]replica.Chunk, map[uint64]string) {
	hashes, missing := map[uint64][]replica.Chunk{}, map[uint64]string{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, p := range d.Shards[shardID].Replicas {
		group.Go(func() {
			chunks, err := n.hashOf(ctx, d.Nodes[p.NodeID], shardID, index)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missing[p.NodeID] = err.Error()
				return
			}
			hashes[p.NodeID] = chunks
		})
	}
	group.Wait()
	return hashes, missing
}

func (n *Node) hashOf(ctx context.Context, node NodeEntry, shardID,
	index uint64) ([]replica.Chunk, error) {
	if node.ID == n.state.NodeID {
		s := n.shard(shardID)
		if s == nil {
			return nil, errNotHere
		}
		return s.replica.Hash(ctx, index, n.config.CompareBytesPerSecond)
	}
	answer, err := n.post(ctx, node.AdminAddress, pathHash,
		fmt.Sprintf("shard=%d&index=%d", shardID, index), nil)
	if err != nil {
		return nil, err
	}
	var chunks []replica.Chunk
	err = json.Unmarshal(answer, &chunks)
	return chunks, err
}

func (n *Node) serveHash(c call) ([]byte, error) {
	s, err := c.data()
	if err != nil {
		return nil, err
	}
	index, err := strconv.ParseUint(c.query("index"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	chunks, err := s.replica.Hash(c.ctx, index, n.config.CompareBytesPerSecond)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	return json.Marshal(chunks)
}

// differences compares the chunks of nodes. Those that most nodes have are right: with two nodes
// that differ, none is.
func differences(hashes map[uint64][]replica.Chunk, lower uint64) []service.Difference {
	at := map[uint64]map[uint64]replica.Chunk{} // by node and last key
	lasts := map[uint64]bool{}
	for id, chunks := range hashes {
		at[id] = map[uint64]replica.Chunk{}
		for _, chunk := range chunks {
			at[id][chunk.Last] = chunk
			lasts[chunk.Last] = true
		}
	}
	var all []service.Difference
	for _, last := range slices.Sorted(maps.Keys(lasts)) {
		if odd := minority(at, last); len(odd) > 0 {
			if i := len(all) - 1; i >= 0 && all[i].Upper+1 == lower && slices.Equal(all[i].Nodes, odd) {
				all[i].Upper = last
			} else {
				all = append(all, service.Difference{Lower: lower, Upper: last, Nodes: odd})
			}
		}
		lower = last + 1
	}
	return all
}

// minority gives the nodes whose chunk is not that of more than half of all nodes.
func minority(at map[uint64]map[uint64]replica.Chunk, last uint64) []uint64 {
	votes := map[replica.Chunk]int{}
	for id := range at {
		votes[at[id][last]]++
	}
	var odd []uint64
	for id := range at {
		if 2*votes[at[id][last]] <= len(at) {
			odd = append(odd, id)
		}
	}
	slices.Sort(odd)
	return odd
}

// tell logs a comparison, and tells each node whether its replica differs.
func (n *Node) tell(ctx context.Context, d *Directory, c service.Comparison) {
	for id, reason := range c.Missing {
		n.config.Logger.Warn("a replica was not compared", "shard", c.ShardID, "node", id,
			"reason", reason)
	}
	differ := map[uint64]bool{}
	for _, one := range c.Differences {
		n.config.Logger.Error("replicas differ: a node was set up wrongly, or its store is damaged",
			"shard", c.ShardID, "index", c.Index, "nodes", one.Nodes, "lower",
			fmt.Sprintf("%016x", one.Lower), "upper", fmt.Sprintf("%016x", one.Upper))
		for _, id := range one.Nodes {
			differ[id] = true
		}
	}
	for _, id := range c.Nodes {
		op := controlAgrees
		if differ[id] {
			op = controlDiffers
		}
		_, err := n.askNode(ctx, d.Nodes[id].NodeInfo, controlRequest{Op: op, ShardID: c.ShardID})
		if err != nil {
			n.config.Logger.Warn("cannot tell a node the result of a comparison", "node", id,
				"error", err)
		}
	}
}

// compareForever compares the shards that this node leads, one after the other, in the background.
func (n *Node) compareForever() {
	if n.config.CompareInterval <= 0 {
		return
	}
	ctx, cancel := n.untilStopped()
	defer cancel()
	last := map[uint64]time.Time{}
	for ctx.Err() == nil {
		shards := n.localShards()
		slices.SortFunc(shards, func(a, b *shard) int { return cmp.Compare(a.shardID, b.shardID) })
		for _, s := range shards {
			before, compared := last[s.shardID]
			if !compared {
				before = s.started
			}
			if s.replica == nil || !s.leads() || time.Since(before) < n.config.CompareInterval {
				continue
			}
			last[s.shardID] = time.Now()
			attempt, done := context.WithTimeout(ctx, compareTimeout)
			_, err := n.Compare(attempt, s.shardID)
			done()
			if err != nil && !errors.Is(err, service.ErrConflict) {
				n.config.Logger.Warn("cannot compare replicas", "shard", s.shardID, "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(compareLook, n.config.CompareInterval)):
		}
	}
}

// Comparisons gives how many comparisons this node has made, and the last one of each shard.
func (n *Node) Comparisons() (done uint64, last []service.Comparison) {
	n.comparisons.Range(func(_, c any) bool {
		last = append(last, c.(service.Comparison))
		return true
	})
	return n.comparisonsDone.Load(), last
}
