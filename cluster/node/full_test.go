package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"engine_race/cluster/service"
)

// smallStores runs three nodes, and the store of node 3 is full after a few hundred records. Node
// `leader` leads the only shard of records.
func smallStores(t *testing.T, leader uint64) *testCluster {
	t.Helper()
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3}, 3)
	c.nodes[3].config.Engine = map[string]string{"bucket_count": "1", "file_count": "1",
		"bucket_capacity_records": "256", "memory_budget_bytes": "64m"}
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	if err := c.nodes[1].MoveLeader(soon(t), firstDataShard, leader); err != nil {
		t.Fatal(err)
	}
	return c
}

// fillStore writes through node 1 until the store of node 3 is full.
func (c *testCluster) fillStore() {
	c.t.Helper()
	key := uint64(0)
	eventually(c.t, "the store is full", func() error {
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

func TestAFullLeaderHandsOver(t *testing.T) {
	c := smallStores(t, 3)
	c.fillStore()
	eventually(t, "another node leads", func() error {
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
	c := smallStores(t, 1)
	c.fillStore()
	leader := c.leaderOf(firstDataShard)
	if leader == 3 {
		t.Fatal("node 3 leads")
	}
	n := c.nodes[leader]
	s := n.shard(firstDataShard)
	put(t, n, 1, 2)
	behind := c.nodes[3].shard(firstDataShard).replica.Applied()
	eventually(t, "the log is kept", func() error {
		if at := n.keptAfter(s, 0); at > behind || behind >= s.replica.Applied() {
			return fmt.Errorf("it is kept after %d of %d, and a replica has applied %d", at,
				s.replica.Applied(), behind)
		}
		return nil
	})
	// Not for ever: the disk of the leader would be full in the end.
	n.Node.config.LogBytes = 1
	if at := n.keptAfter(s, 0); at <= behind {
		t.Errorf("a log of more than twice its bytes is kept after %d", at)
	}
}
