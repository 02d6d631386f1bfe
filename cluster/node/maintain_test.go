package node

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// allocated is what the logs of a node take on its disk, in bytes.
func (c *testCluster) allocated(id uint64) int64 {
	c.t.Helper()
	total := int64(0)
	paths, _ := filepath.Glob(filepath.Join(c.nodes[id].config.Directory, raftName, "*", "*", "tandb",
		"*", "*.log"))
	for _, path := range paths {
		var info syscall.Stat_t
		if err := syscall.Stat(path, &info); err != nil {
			c.t.Fatal(err)
		}
		total += info.Blocks * 512
	}
	return total
}

func TestStartsReserveTheSpaceOfOneLogOnly(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	const fileBytes = 64 << 20
	for range 3 {
		c.stop(1)
		c.start(1)
		c.awaitReady()
	}
	// Two logs: the directory's and the shard's.
	if used := c.allocated(1); used < fileBytes || used > 3*fileBytes {
		t.Errorf("%d bytes", used)
	}
}

// fill writes `values` values through a node.
func (c *testCluster) fill(id uint64, values int) {
	c.t.Helper()
	for key := range uint64(values) {
		put(c.t, c.nodes[id], key, 1)
	}
}

func TestALogThatWasThereAtTheStartIsShortened(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	const values = 64
	c.fill(1, values)
	n := c.nodes[1]
	id := n.shard(firstDataShard).replicaID
	if size := n.log.Bytes(firstDataShard, id); size < values*service.DefaultValueBytes {
		t.Fatalf("the log has %d bytes", size)
	}
	c.stop(1)
	n.config.LogBytes = values * service.DefaultValueBytes / 2
	c.start(1)
	testkit.Succeeds(t, "the log is shortened", func() error {
		if size := n.log.Bytes(firstDataShard, id); size >= n.config.LogBytes {
			return fmt.Errorf("it has %d bytes", size)
		}
		return nil
	})
}

func TestALogIsNotKeptForAReplicaThatIsAway(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	leader := c.leaderOf(firstDataShard)
	n := c.nodes[leader]
	c.fill(leader, 64)
	s := n.shard(firstDataShard)
	testkit.Succeeds(t, "all replicas have applied the log", func() error {
		if at := n.keptAfter(s, 0, math.MaxUint64); at < s.replica.Applied() {
			return fmt.Errorf("it is kept after %d of %d", at, s.replica.Applied())
		}
		return nil
	})
	away := leader%3 + 1
	behind := s.replica.Applied()
	c.stop(away)
	c.fill(leader, 8)
	testkit.Succeeds(t, "the log is given up that only an absent replica needs", func() error {
		if at := n.keptAfter(s, 0, math.MaxUint64); at <= behind {
			return fmt.Errorf("it is kept after %d", at)
		}
		return nil
	})
	half := n.log.Bytes(s.shardID, s.replicaID) / 2
	if at := n.keptAfter(s, half, math.MaxUint64); at >= s.replica.Applied() || at == 0 {
		t.Errorf("half of a log of %d entries is kept after %d", s.replica.Applied(), at)
	}
}

// failSync has a replica fail to sync its store, which stops it. No snapshot is made.
func failSync(t *testing.T, n *testNode, s *shard) {
	t.Helper()
	// The index of what is synced is written as a file of this name.
	name := filepath.Join(n.replicaDirectory(s.shardID, s.replicaID), "applied.new")
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := n.snapshotHere(soon(t), s); !errors.Is(err, service.ErrUnavailable) {
		t.Errorf("a snapshot: %v", err)
	}
	if failure := s.failure(); failure == nil || !failure.Stopped {
		t.Fatalf("its failure is %+v", failure)
	}
}

// The stores of other shards must go on. Dragonboat panicked when it was to remove a directory that
// it had not made yet.
func TestAStoreThatCannotBeSyncedHasNoSnapshot(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	c.fill(1, 5)
	n := c.nodes[1]
	s := n.shard(firstDataShard)
	failSync(t, n, s)
}

// Its log may be given up, and with it a copy of the entry.
func TestAStoppedLeaderDoesNotAcknowledgeAtTheCommit(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	c.fill(1, 5)
	n := c.nodes[1]
	s := n.shard(firstDataShard)
	_, term, _, err := n.host.GetLeaderID(s.shardID)
	if err != nil || !s.acknowledgesAtCommit(term, s.replica.Bounds()) {
		t.Fatalf("a sound leader does not acknowledge: %v", err)
	}
	failSync(t, n, s)
	if s.acknowledgesAtCommit(term, s.replica.Bounds()) {
		t.Error("a leader that applies nothing acknowledges a write")
	}
}
