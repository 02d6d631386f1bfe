package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// smallEngine has the options of a store that is full after a few hundred records.
func smallEngine() map[string]string {
	return map[string]string{"bucket_count": "1", "file_count": "1",
		"bucket_capacity_records": "256", "memory_budget_bytes": "64m"}
}

// smallStores runs three nodes, and node 3 has a small store.
func smallStores(t *testing.T) *testCluster {
	t.Helper()
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3,
		Commands: replica.Version}, 3)
	c.nodes[3].config.Engine = smallEngine()
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	return c
}

// fillStore writes through node 1 until the store of node 3 is full.
func (c *testCluster) fillStore() {
	c.t.Helper()
	key := uint64(0)
	testkit.Succeeds(c.t, "the store is full", func() error {
		if c.nodes[3].shard(firstDataShard).replica.Full() {
			return nil
		}
		var ops []service.Op
		for range 64 {
			key++
			ops = append(ops, service.Op{Key: key, Value: valueOf(key, 1)})
		}
		// A write that the full replica leads has no answer.
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		_, _ = c.nodes[1].Write(ctx, ops, false)
		return fmt.Errorf("after %d keys it is not", key)
	})
}

// Entries that a full replica cannot apply stay in its memory. Dragonboat refuses writes on the
// leader when they take more than their bound.
func TestAFullReplicaDoesNotHoldUpItsLeader(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3,
		Commands: replica.Version}, 3)
	const boundBytes = 1 << 20
	for id := uint64(1); id <= 3; id++ {
		c.nodes[id].config.LogMemoryBytes = boundBytes
	}
	c.nodes[3].config.Engine = smallEngine()
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	if err := c.nodes[1].MoveLeader(soon(t), firstDataShard, 1); err != nil {
		t.Fatal(err)
	}
	c.fillStore()
	for key := range uint64(4 * boundBytes / service.DefaultValueBytes) {
		put(t, c.nodes[1], 10_000+key, 1)
	}
}

func TestAFullLeaderHandsOver(t *testing.T) {
	c := smallStores(t)
	if err := c.nodes[1].MoveLeader(soon(t), firstDataShard, 3); err != nil {
		t.Fatal(err)
	}
	c.fillStore()
	testkit.Succeeds(t, "another node leads", func() error {
		if c.nodes[3].shard(firstDataShard).leads() {
			return fmt.Errorf("node 3 leads, and its store is full")
		}
		return nil
	})
	put(t, c.nodes[1], 1, 2)
	expect(t, c.nodes[2], 1, 2, service.Linearizable)
}

// A follower that runs and is behind needs the log: otherwise it has to copy all records.
func TestALogIsKeptForAReplicaThatRunsAndIsBehind(t *testing.T) {
	c := smallStores(t)
	c.fillStore()
	n := c.nodes[1]
	s := n.shard(firstDataShard)
	put(t, n, 1, 2)
	behind := uint64(0)
	testkit.Succeeds(t, "the log is kept", func() error {
		behind = c.nodes[3].shard(firstDataShard).replica.Applied()
		if at := n.keptAfter(s, 0, math.MaxUint64); at > behind || behind >= s.replica.Applied() {
			return fmt.Errorf("it is kept after %d of %d, and a replica has applied %d", at,
				s.replica.Applied(), behind)
		}
		return nil
	})
	// Not for ever: the disk of the leader would be full in the end.
	if at := n.keptAfter(s, 0, 1); at <= behind {
		t.Errorf("a log of more than twice its bytes is kept after %d", at)
	}
}

// Nodes 1 and 3 of lowDisks believe that each store takes sizeBytes. Replicas from newReplicaID on
// have no store.
const (
	sizeBytes    = 10 << 20
	newReplicaID = 98
)

// lowDisks runs three nodes. The disk of node 3 has as much room as is said.
func lowDisks(t *testing.T) (*testCluster, *atomic.Uint64) {
	t.Helper()
	free := &atomic.Uint64{}
	free.Store(1 << 40)
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3,
		Commands: replica.Version}, 3)
	c.nodes[3].config.freeBytes = func() (uint64, error) { return free.Load(), nil }
	// A real store grows when it is synced, between two calls of a test.
	for _, id := range []uint64{1, 3} {
		c.nodes[id].config.storeBytes = func(_, replicaID uint64) uint64 {
			if replicaID >= newReplicaID {
				return 0
			}
			return sizeBytes
		}
	}
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	return c, free
}

// firstPiece begins a snapshot of the replica on node 1.
func (c *testCluster) firstPiece(to uint64) raftpb.Chunk {
	return raftpb.Chunk{ShardID: firstDataShard, From: c.nodes[1].shard(firstDataShard).replicaID,
		ReplicaID: to, Index: 7}
}

func TestAStoreTakesAsMuchAsItsValues(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	const values = 1000 // more than what an empty store takes
	c.fill(1, values)
	size := c.nodes[1].storeBytes(firstDataShard, c.nodes[1].shard(firstDataShard).replicaID)
	if size < values*service.DefaultValueBytes {
		t.Errorf("a store of %d values takes %d bytes", values, size)
	}
}

func TestALeaderOnAnAlmostFullDiskHandsOver(t *testing.T) {
	c, free := lowDisks(t)
	for _, shardID := range []uint64{directoryShard, firstDataShard} {
		if err := c.nodes[1].MoveLeader(soon(t), shardID, 3); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(lowBytes - 1)
	testkit.Succeeds(t, "node 3 leads nothing", func() error {
		if leading := c.nodes[3].leading(); leading > 0 {
			return fmt.Errorf("it leads %d shards", leading)
		}
		return nil
	})
}

// Dragonboat ends the process when it cannot write a piece of a snapshot.
func TestASnapshotWithoutRoomIsRefused(t *testing.T) {
	c, free := lowDisks(t)
	n := c.nodes[3]
	first := c.firstPiece(n.shard(firstDataShard).replicaID)
	if err := n.admitSnapshot(first); err != nil {
		t.Errorf("with room: %v", err)
	}
	// There is room for a piece, and not for all of them.
	free.Store(lowBytes + sizeBytes - 1)
	if err := n.admitSnapshot(first); !errors.Is(err, service.ErrFull) {
		t.Errorf("with too little room: %v", err)
	}
	// A replica that is new here has no store whose room the records could take.
	added := c.firstPiece(newReplicaID)
	free.Store(lowBytes + 2*sizeBytes - 1)
	if err := n.admitSnapshot(added); !errors.Is(err, service.ErrFull) {
		t.Errorf("with room for the pieces, and not for their records beside them: %v", err)
	}
	free.Store(lowBytes + 2*sizeBytes)
	if err := n.admitSnapshot(added); err != nil {
		t.Errorf("with room for the pieces and the records: %v", err)
	}
	n.snapshotRefused(added)
	free.Store(lowBytes + sizeBytes)
	if err := n.admitSnapshot(first); err != nil {
		t.Errorf("with room for the pieces: %v", err)
	}
	next := first
	next.ChunkId = 1
	if err := n.admitSnapshot(next); err != nil {
		t.Errorf("a further piece: %v", err)
	}
	free.Store(lowBytes / 2)
	if err := n.admitSnapshot(next); !errors.Is(err, service.ErrFull) {
		t.Errorf("a further piece without room: %v", err)
	}
}

// A node that has lost its disk gets many snapshots at once. Each one is to have its room until its
// records are loaded.
func TestSnapshotsThatArriveTogetherHaveRoom(t *testing.T) {
	c, free := lowDisks(t)
	n := c.nodes[3]
	one, two := c.firstPiece(newReplicaID), c.firstPiece(newReplicaID+1)
	admits := func(what string, chunk raftpb.Chunk) {
		t.Helper()
		if err := n.admitSnapshot(chunk); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuses := func(what string) {
		t.Helper()
		if err := n.admitSnapshot(two); !errors.Is(err, service.ErrFull) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Each takes its size for the pieces, and for the records.
	free.Store(lowBytes + 3*sizeBytes)
	admits("the first snapshot", one)
	refuses("another without room beside the first")
	admits("the first snapshot, begun again", one)
	piece := one
	piece.ChunkId, piece.Data = 1, make([]byte, sizeBytes)
	admits("a piece", piece)
	free.Store(lowBytes + 3*sizeBytes - 1)
	refuses("another without room beside the records of the first")
	n.snapshotLoaded(raftio.SnapshotInfo{ShardID: firstDataShard, ReplicaID: newReplicaID,
		Index: 6})
	refuses("another when an earlier snapshot was loaded")
	n.snapshotLoaded(raftio.SnapshotInfo{ShardID: firstDataShard, ReplicaID: newReplicaID,
		Index: 7})
	admits("another when the first was loaded", two)
	n.snapshotRefused(two)
	admits("the first when the other was refused", one)
	free.Store(lowBytes + 3*sizeBytes)
	n.snapshotRefused(one)
	admits("the first", one)
	admits("a piece of the first", piece)
	admits("another beside the records of the first", two)
}

// Dragonboat ends the process when a snapshot comes for a replica that was never here. The leader
// has one for the replica of a disk that is lost: its log was shortened meanwhile.
func TestTheReplicaOfALostDiskGetsNoSnapshot(t *testing.T) {
	c := newest(t, 3, 1, 3)
	c.stop(3)
	if err := os.RemoveAll(c.nodes[3].config.Directory); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	for id := uint64(1); id <= 2; id++ {
		testkit.Succeeds(t, "a short log", func() error {
			_, err := c.nodes[id].snapshotHere(soon(t), c.nodes[id].shard(firstDataShard))
			return err
		})
	}
	if err := c.join(3, 1, true); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	c.awaitReady()
	testkit.Succeeds(t, "node 3 has a replica", func() error {
		if s := c.nodes[3].shard(firstDataShard); s == nil || s.ready() != nil {
			return errors.New("not yet")
		}
		return nil
	})
	n := c.nodes[3]
	chunk := raftpb.Chunk{ShardID: firstDataShard, ReplicaID: 3, From: 1, Index: math.MaxUint64}
	hasRoom := func() bool {
		n.arrivingMu.Lock()
		defer n.arrivingMu.Unlock()
		return n.arriving[receiverOf(chunk)] != nil
	}
	// It may have run here when the first piece came.
	if err := n.admitSnapshot(chunk); err != nil || !hasRoom() {
		t.Fatal(err)
	}
	chunk.ChunkId = 1
	if err := n.admitPiece(chunk); !errors.Is(err, errNotHere) {
		t.Errorf("a snapshot for a replica of a lost disk: %v", err)
	}
	if hasRoom() {
		t.Error("room is kept for a snapshot that was refused")
	}
	chunk.ReplicaID, chunk.ChunkId = n.shard(firstDataShard).replicaID, 0
	if err := n.admitPiece(chunk); err != nil || !hasRoom() {
		t.Errorf("a snapshot for the replica that runs: %v", err)
	}
	n.snapshotRefused(chunk)
}
