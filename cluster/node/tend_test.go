package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// rot changes bytes in all values of the store of a node's replica.
func (c *testCluster) rot(id, shardID uint64) {
	c.t.Helper()
	n := c.nodes[id]
	store := filepath.Join(n.replicaDirectory(shardID, n.shard(shardID).replicaID), "store")
	changed := 0
	err := filepath.Walk(store, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || filepath.Base(filepath.Dir(path)) == "" {
			return err
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for at := 0; at+service.DefaultValueBytes <= len(data); at += service.DefaultValueBytes {
			value := data[at : at+service.DefaultValueBytes]
			// Values of these tests begin with the key and a version, and have zeros after that.
			if value[15] == 0 || value[15] > 9 || value[100] != 0 {
				continue
			}
			if _, err := file.WriteAt([]byte{0xff}, int64(at)+100); err != nil {
				return err
			}
			changed++
		}
		return nil
	})
	if err != nil || changed == 0 {
		c.t.Fatalf("%d records were changed: %v", changed, err)
	}
}

// isReplaced waits until the node has another replica in the place of one, which is ready.
func (c *testCluster) isReplaced(id, shardID, replicaID uint64) {
	c.t.Helper()
	testkit.Succeeds(c.t, "the replica is replaced", func() error {
		s := c.nodes[id].shard(shardID)
		switch {
		case s == nil:
			return errors.New("there is none")
		case s.replicaID == replicaID:
			return fmt.Errorf("replica %d is still there", replicaID)
		}
		return s.ready()
	})
}

func TestARottenLeaderHandsOverAndIsCopiedAnew(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	const values = 300
	c.fill(1, values)
	leader := c.leaderOf(firstDataShard)
	n := c.nodes[leader]
	before := n.shard(firstDataShard).replicaID
	if err := n.shard(firstDataShard).replica.Sync(); err != nil {
		t.Fatal(err)
	}
	c.rot(leader, firstDataShard)
	// Each read that meets the damage is answered by another node.
	for key := range uint64(values) {
		expect(t, n, key, 1, service.Linearizable)
	}
	c.isReplaced(leader, firstDataShard, before)
	for key := range uint64(values) {
		expect(t, n, key, 1, service.Local)
	}
}

// The last sound replicas must not be given up: one with a damaged record may be the last that has
// the others.
func TestARottenReplicaStaysWhileTheOthersAreAway(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	c.fill(1, 300)
	leader := c.leaderOf(firstDataShard)
	n := c.nodes[leader]
	s := n.shard(firstDataShard)
	c.stop(leader%3 + 1)
	if n.soundWithout(s) {
		t.Error("one other replica of three counts as a majority")
	}
}

func TestAStoreThatDoesNotOpenIsCopiedAnew(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	c.fill(1, 20)
	n := c.nodes[2]
	before := n.shard(firstDataShard).replicaID
	store := filepath.Join(n.replicaDirectory(firstDataShard, before), "store")
	c.stop(2)
	if err := os.WriteFile(filepath.Join(store, "manifest"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(2)
	c.isReplaced(2, firstDataShard, before)
	expect(t, n, 3, 1, service.Local)
}

// A leader that has stopped, and that no other replica can follow, is started again.
func TestAStoppedLeaderWithoutOthersIsStartedAgain(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	c.fill(1, 5)
	n := c.nodes[1]
	s := n.shard(firstDataShard)
	// Earlier starts do not count: it has run for long since.
	n.mu.Lock()
	n.starts[firstDataShard] = restart{count: mostStarts}
	n.mu.Unlock()
	n.tendFailed(s, &replica.Failure{Err: errors.New("a disk that does not answer"), Stopped: true},
		time.Now().Add(2*startsForgotten))
	n.mu.Lock()
	starts := n.starts[firstDataShard].count
	n.mu.Unlock()
	if starts != 1 {
		t.Errorf("it counts as started %d times", starts)
	}
	if n.shard(firstDataShard) == s {
		t.Fatal("it goes on")
	}
	// The reconciler may find at the same time that the replica is to be removed.
	n.remove(s)
	n.mu.Lock()
	n.starts[firstDataShard] = restart{count: 1}
	n.mu.Unlock()
	n.nudgeReconciler()
	testkit.Succeeds(t, "it is started again", func() error {
		if again := n.shard(firstDataShard); again != nil {
			return again.ready()
		}
		return errors.New("it does not run")
	})
	expect(t, n, 3, 1, service.Linearizable)
}

func TestANodeWithoutOthersIsNotCutOff(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	if !c.nodes[1].askWitnesses().excuses(firstDataShard, true) {
		t.Error("a shard that it cannot serve takes it away from clients of other shards")
	}
}

func TestLeadersAreSpread(t *testing.T) {
	c := newCluster(t, 3, 5, 3)
	c.awaitReady()
	for shardID := uint64(directoryShard); shardID < firstDataShard+5; shardID++ {
		if err := c.nodes[1].MoveLeader(soon(t), shardID, 1); err != nil {
			t.Fatal(err)
		}
	}
	var b balancer
	testkit.Succeeds(t, "leaders are spread", func() error {
		if err := c.controllerLooks(&b); err != nil {
			return err
		}
		most, least := 0, 99
		for _, n := range c.nodes {
			most, least = max(most, n.leading()), min(least, n.leading())
		}
		if most-least > 1 {
			return fmt.Errorf("one node leads %d shards, another %d", most, least)
		}
		return nil
	})
}

func TestCallsForAShardWithoutQuorumEndSoon(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	c.stop(2)
	c.stop(3)
	n := c.nodes[1]
	for name, call := range map[string]func() error{
		"add":    func() error { return n.AddReplica(soon(t), firstDataShard, 1) },
		"remove": func() error { return n.RemoveReplica(soon(t), firstDataShard, 3) },
		"move":   func() error { return n.MoveLeader(soon(t), firstDataShard, 1) },
		"backup": func() error {
			_, err := n.Backup(soon(t), filepath.Join(t.TempDir(), "backup"), "")
			return err
		},
		"restore": func() error {
			r := newRestorer(soon(t), n.Node)
			if err := r.add(service.Op{Key: 1, Value: valueOf(1, 1)}); err != nil {
				return err
			}
			return r.finish()
		},
	} {
		if err := call(); !errors.Is(err, errNoQuorum) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
