package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// replicasOf gives the nodes of a shard's replicas as the newest directory has them.
func (c *testCluster) replicasOf(via, shardID uint64) map[uint64]bool {
	c.t.Helper()
	d, err := c.nodes[via].readDirectory(soon(c.t))
	if err != nil {
		c.t.Fatal(err)
	}
	nodes := map[uint64]bool{}
	for _, p := range d.Shards[shardID].Replicas {
		nodes[p.NodeID] = true
	}
	return nodes
}

func (c *testCluster) expectReplicas(via, shardID uint64, nodes ...uint64) {
	c.t.Helper()
	got := c.replicasOf(via, shardID)
	for _, id := range nodes {
		if !got[id] {
			c.t.Errorf("node %d has no replica of shard %d", id, shardID)
		}
	}
	if len(got) != len(nodes) {
		c.t.Errorf("shard %d is on the nodes %v, not %v", shardID, got, nodes)
	}
}

func TestAReplicaMovesWithItsRecords(t *testing.T) {
	c := readyCluster(t, 4, 1, 3)
	c.fill(1, 20)
	for _, shardID := range []uint64{firstDataShard, directoryShard} {
		leader := c.leaderOf(shardID)
		if err := c.nodes[4].MoveReplica(soon(t), shardID, leader, 4); err != nil {
			t.Fatal(err)
		}
		want := []uint64{4}
		for id := uint64(1); id <= 3; id++ {
			if id != leader {
				want = append(want, id)
			}
		}
		c.expectReplicas(1, shardID, want...)
		// A call whose answer was lost is given again.
		if err := c.nodes[1].MoveReplica(soon(t), shardID, leader, 4); err != nil {
			t.Fatal(err)
		}
		c.expectReplicas(1, shardID, want...)
		if err := c.nodes[1].MoveReplica(soon(t), shardID, 4, leader); err != nil {
			t.Fatal(err)
		}
	}
	for key := range uint64(20) {
		expect(t, c.nodes[4], key, 1, service.Linearizable)
	}
	for _, wrong := range [][3]uint64{{9, 1, 4}, {2, 1, 9}, {2, 9, 4}, {2, 4, 1}, {2, 1, 1}} {
		err := c.nodes[1].MoveReplica(soon(t), wrong[0], wrong[1], wrong[2])
		if wrong == [3]uint64{2, 4, 1} { // Node 1 has it, so this is the end of a move that was made.
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// The former replica stays while another one of the shard is away: there would be two left of the
// three that are wanted.
func TestAMoveKeepsTheNumberOfReadyVoters(t *testing.T) {
	c := readyCluster(t, 5, 1, 3)
	c.fill(1, 5)
	c.stop(3)
	n := c.nodes[5]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := n.MoveReplica(ctx, firstDataShard, 1, 4)
	if !errors.Is(err, service.ErrUnknown) || !strings.Contains(err.Error(), "on node 3 is ready") {
		t.Fatal(err)
	}
	c.expectReplicas(5, firstDataShard, 1, 2, 3, 4)
	// Another move of the shard has to wait.
	if err := n.MoveReplica(soon(t), firstDataShard, 2, 5); !errors.Is(err, service.ErrConflict) {
		t.Error(err)
	}
	c.start(3)
	testkit.Succeeds(t, "the move goes on", func() error {
		return n.MoveReplica(soon(t), firstDataShard, 1, 4)
	})
	c.expectReplicas(5, firstDataShard, 2, 3, 4)
	// The replica of a node that is down may go.
	c.stop(3)
	testkit.Succeeds(t, "a replica of a node that is down moves", func() error {
		return n.MoveReplica(soon(t), firstDataShard, 3, 5)
	})
	c.expectReplicas(5, firstDataShard, 2, 4, 5)
	expect(t, n, 3, 1, service.Linearizable)
}

// A move to a node that never comes back is given up by a removal of the new replica.
func TestAMoveIsGivenUp(t *testing.T) {
	c := readyCluster(t, 4, 1, 3)
	c.fill(1, 5)
	c.stop(4)
	n := c.nodes[1]
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := n.MoveReplica(ctx, firstDataShard, 2, 4); err == nil {
		t.Fatal("a replica was moved to a node that is down")
	}
	if err := n.RemoveReplica(soon(t), firstDataShard, 4); err != nil {
		t.Fatal(err)
	}
	c.expectReplicas(1, firstDataShard, 1, 2, 3)
	d, err := n.readDirectory(soon(t))
	if err != nil || d.Shards[firstDataShard].Move != (Move{}) {
		t.Errorf("%+v, %v", d.Shards[firstDataShard], err)
	}
}
