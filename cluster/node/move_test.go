package node

import (
	"context"
	"errors"
	"fmt"
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

// The call that has begun a move is lost after each of its steps. The node that leads the directory
// ends it.
func TestAMoveIsEndedByTheDirectorysLeader(t *testing.T) {
	c := readyCluster(t, 4, 1, 3)
	c.fill(1, 20)
	from, to := uint64(1), uint64(4)
	for step := range 4 {
		request := controlRequest{Op: controlMove, ShardID: firstDataShard, NodeID: from, To: to}
		n := c.nodes[2]
		id, err := n.ask(soon(t), directoryShard, request)
		if err != nil {
			t.Fatal(err)
		}
		d, err := n.readDirectory(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := d.On(firstDataShard, to)
		if p.ReplicaID != id || d.Shards[firstDataShard].Move.To != id {
			t.Fatalf("replica %d, %+v", id, d.Shards[firstDataShard])
		}
		request = controlRequest{ShardID: firstDataShard, NodeID: to, ReplicaID: id,
			Address: d.Nodes[to].RaftAddress}
		for _, op := range []string{controlLearn, controlAdd}[:min(step, 2)] {
			request.Op = op
			testkit.Succeeds(t, op, func() error {
				_, err := n.ask(soon(t), firstDataShard, request)
				return err
			})
		}
		if step == 3 {
			// The former replica is no member any more, and the directory still has it.
			if err := n.bringIn(soon(t), d, firstDataShard, p); err != nil {
				t.Fatal(err)
			}
			former := controlRequest{Op: controlRemove, ShardID: firstDataShard, NodeID: from,
				ReplicaID: d.Shards[firstDataShard].Move.From}
			testkit.Succeeds(t, "a removal", func() error {
				_, err := n.ask(soon(t), firstDataShard, former)
				return err
			})
		}
		var b balancer
		testkit.Succeeds(t, "the move comes to its end", func() error {
			leader := c.nodes[c.leaderOf(directoryShard)]
			leader.refreshDirectoryNow(t)
			if err := leader.balance(soon(t), &b); err != nil {
				return err
			}
			if c.replicasOf(2, firstDataShard)[from] {
				return errors.New("the former replica is still there")
			}
			return nil
		})
		c.expectReplicas(2, firstDataShard, 2, 3, to)
		from, to = to, from
	}
	expect(t, c.nodes[1], 3, 1, service.Linearizable)
}

// refreshDirectoryNow takes the newest directory without waiting for the reconciler.
func (n *testNode) refreshDirectoryNow(t *testing.T) {
	t.Helper()
	d, err := n.readDirectory(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Version > n.directory.Load().Version {
		n.directory.Store(d)
	}
}

// The former replica stays while another one of the shard is away: there would be two left of the
// three that are wanted.
func TestAMoveKeepsTheNumberOfReadyVoters(t *testing.T) {
	c := readyCluster(t, 5, 1, 3)
	c.fill(1, 5)
	c.stop(3)
	n := c.nodes[5]
	// Other replicas may not be ready at first.
	testkit.Succeeds(t, "the move waits for node 3", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := n.MoveReplica(ctx, firstDataShard, 1, 4)
		if err == nil {
			t.Fatal("the replica was moved while node 3 is away")
		}
		// Node 3 may have led the directory.
		if errors.Is(err, service.ErrUnknown) && strings.Contains(err.Error(), "on node 3 is ready") {
			return nil
		}
		return err
	})
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

// controllerLooks lets the node that leads the directory take one look, and the step that is due.
func (c *testCluster) controllerLooks(b *balancer) error {
	leader := c.nodes[c.leaderOf(directoryShard)]
	leader.refreshDirectoryNow(c.t)
	return leader.balance(soon(c.t), b)
}

// spread tells whether all nodes have as many replicas of records, or one more.
func (c *testCluster) spread(nodes uint64) error {
	d, err := c.nodes[1].readDirectory(soon(c.t))
	if err != nil {
		return err
	}
	counts := map[uint64]int{}
	for shardID, entry := range d.Shards {
		for _, p := range entry.Replicas {
			if shardID != directoryShard {
				counts[p.NodeID]++
			}
		}
	}
	most, least := 0, 99
	for id := uint64(1); id <= nodes; id++ {
		most, least = max(most, counts[id]), min(least, counts[id])
	}
	if most-least > 1 {
		return fmt.Errorf("replicas by node: %v", counts)
	}
	return nil
}

// A fourth node joins and gets its share. Nobody waits for a clock here: the test takes the looks
// itself. It counts the moves, which the directory's replica IDs tell.
func TestAFourthNodeGetsItsShareWithoutAnOperator(t *testing.T) {
	c := readyCluster(t, 3, 4, 3)
	for i := range 40 {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	c.add(4)
	if err := c.join(4, 1, false); err != nil {
		t.Fatal(err)
	}
	c.start(4)
	var b balancer
	testkit.Succeeds(t, "the replicas are spread", func() error {
		if err := c.controllerLooks(&b); err != nil {
			return err
		}
		return c.spread(4)
	})
	moves := uint64(0)
	d, err := c.nodes[4].readDirectory(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for shardID, entry := range d.Shards {
		if shardID != directoryShard {
			moves += entry.NextReplicaID - 4
		}
		if entry.Move != (Move{}) || len(entry.Replicas) != 3 {
			t.Errorf("shard %d: %+v", shardID, entry)
		}
	}
	if moves != 3 {
		t.Errorf("%d moves for a node that gets 3 of 12 replicas", moves)
	}
	for i := range 40 {
		expect(t, c.nodes[4], keyAt(i), 1, service.Linearizable)
	}
	// Further looks move no replica.
	testkit.Succeeds(t, "leaders are spread", func() error {
		for range 2 * settledLooks {
			if err := c.controllerLooks(&b); err != nil {
				return err
			}
		}
		leads, most, least := map[uint64]int{}, 0, 99
		for shardID := range d.Shards {
			leads[c.leaderOf(shardID)]++
		}
		for id := range c.nodes {
			most, least = max(most, leads[id]), min(least, leads[id])
		}
		if most-least > 1 {
			return fmt.Errorf("leaders by node: %v", leads)
		}
		return nil
	})
	now, err := c.nodes[4].readDirectory(soon(t))
	if err != nil || now.Version != d.Version {
		t.Errorf("the directory has changed from %d to %d: %v", d.Version, now.Version, err)
	}
}

// A node that leaves gives its replicas away, that of the directory too, and gets no others.
func TestADecommissionedNodeIsEmptied(t *testing.T) {
	c := readyCluster(t, 4, 2, 3)
	if err := c.nodes[3].Decommission(soon(t), 2, true); err != nil {
		t.Fatal(err)
	}
	if err := c.nodes[3].Decommission(soon(t), 9, true); !errors.Is(err, service.ErrInvalid) {
		t.Error(err)
	}
	var b balancer
	testkit.Succeeds(t, "the node is empty", func() error {
		if err := c.controllerLooks(&b); err != nil {
			return err
		}
		for shardID := uint64(1); shardID <= 3; shardID++ {
			if c.replicasOf(1, shardID)[2] {
				return fmt.Errorf("shard %d is still there", shardID)
			}
		}
		return nil
	})
	status, err := c.nodes[1].Status(soon(t))
	if err != nil || len(status.Leaving) != 1 || status.Leaving[0] != 2 {
		t.Errorf("%+v, %v", status, err)
	}
	if err := c.nodes[1].Decommission(soon(t), 2, false); err != nil {
		t.Fatal(err)
	}
	testkit.Succeeds(t, "it gets replicas again", func() error {
		if err := c.controllerLooks(&b); err != nil {
			return err
		}
		return c.spread(4)
	})
}
