package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// leaderOf gives the node that leads the shard.
func (c *testCluster) leaderOf(shardID uint64) uint64 {
	c.t.Helper()
	leader := uint64(0)
	testkit.Succeeds(c.t, fmt.Sprintf("shard %d has a leader", shardID), func() error {
		for id, n := range c.nodes {
			if n.Node == nil {
				continue
			}
			if s := n.shard(shardID); s != nil && s.leads() {
				leader = id
				return nil
			}
		}
		return fmt.Errorf("%w: none leads", service.ErrUnavailable)
	})
	return leader
}

// A change of members that meets an election is lost, and a node whose replica was removed cannot
// carry one out: both must not take all the time of the call.
func TestALeaderLosesItsReplicaAndGetsAnother(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	for _, shardID := range []uint64{firstDataShard, directoryShard, firstDataShard, directoryShard} {
		leader := c.leaderOf(shardID)
		n := c.nodes[leader]
		if err := n.RemoveReplica(soon(t), shardID, leader); err != nil {
			t.Fatal(err)
		}
		if err := n.AddReplica(soon(t), shardID, leader); err != nil {
			t.Fatal(err)
		}
		expect(t, n, 1, 1, service.Linearizable)
	}
	// A replica that was removed while its node was away does not come back.
	c.stop(3)
	if err := c.nodes[1].RemoveReplica(soon(t), directoryShard, 3); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	c.awaitReady()
}

// Dragonboat panics when a replica is started before it has let go of the shard's earlier one.
func TestAReplicaWaitsForTheEndOfAnEarlierOne(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	n := c.nodes[3]
	for range 5 {
		d := *n.directory.Load()
		entry := d.Shards[firstDataShard]
		entry.Replicas = slices.Clone(entry.Replicas)
		for i := range entry.Replicas {
			if entry.Replicas[i].NodeID == 3 {
				entry.Replicas[i].ReplicaID = entry.NextReplicaID
			}
		}
		entry.NextReplicaID++
		d.Version += 100
		d.Shards = maps.Clone(d.Shards)
		d.Shards[firstDataShard] = entry
		n.directory.Store(&d)
		n.nudgeReconciler()
		testkit.Succeeds(t, "the other replica runs", func() error {
			if s := n.shard(firstDataShard); s == nil || s.replicaID != entry.NextReplicaID-1 {
				return errors.New("it does not")
			}
			return nil
		})
	}
}

// A replica that is being added may take long to load a snapshot.
func TestANodeAnswersWhileAReplicaIsAddedToIt(t *testing.T) {
	c := newCluster(t, 4, 1, 3)
	c.awaitReady()
	n := c.nodes[4]
	request := controlRequest{Op: controlPlace, ShardID: firstDataShard, NodeID: 4}
	testkit.Succeeds(t, "the directory places a replica", func() error {
		_, err := n.ask(soon(t), directoryShard, request)
		return err
	})
	testkit.Succeeds(t, "it runs", func() error {
		if n.shard(firstDataShard) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	put(t, n, 1, 1)
	expect(t, n, 1, 1, service.Linearizable)
	if count, err := n.Count(soon(t)); err != nil || count != 1 {
		t.Fatalf("%d keys, %v", count, err)
	}
	if err := c.nodes[1].AddReplica(soon(t), firstDataShard, 4); err != nil {
		t.Fatal(err)
	}
	expect(t, n, 1, 1, service.Linearizable)
}

// Dragonboat publishes an event before its answers tell of it.
func TestAnOldAnswerDoesNotHideAnEvent(t *testing.T) {
	s := &shard{proposer: &proposer{}}
	for i, step := range []struct {
		note         func(leader, term uint64)
		leader, term uint64
		want         uint64
	}{
		{s.noteAnswer, 1, 4, 1}, {s.noteLeader, 0, 5, 0}, {s.noteAnswer, 1, 4, 0},
		{s.noteLeader, 2, 5, 2}, {s.noteAnswer, 0, 5, 2}, {s.noteLeader, 0, 5, 0},
		{s.noteAnswer, 3, 6, 3},
	} {
		if step.note(step.leader, step.term); s.leader.Load() != step.want {
			t.Errorf("step %d: %d leads, not %d", i, s.leader.Load(), step.want)
		}
	}
}
