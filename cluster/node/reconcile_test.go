package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// awaitGone waits until a replica's files are deleted.
func (c *testCluster) awaitGone(id, shardID, replicaID uint64) {
	c.t.Helper()
	testkit.Succeeds(c.t, "the files of the replica are gone", func() error {
		if _, err := os.Stat(c.nodes[id].replicaDirectory(shardID, replicaID)); err == nil {
			return errors.New("they are there")
		}
		return nil
	})
}

// awaitOther waits until another replica of the first shard is ready at a node.
func (c *testCluster) awaitOther(id, replicaID uint64) {
	c.t.Helper()
	testkit.Succeeds(c.t, "there is another replica", func() error {
		s := c.nodes[id].shard(firstDataShard)
		if s == nil || s.replicaID == replicaID {
			return errors.New("not yet")
		}
		return s.ready()
	})
}

func TestADamagedDirectoryFileIsFetchedAgain(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	removed := c.nodes[3].shard(firstDataShard).replicaID
	if err := c.nodes[1].RemoveReplica(soon(t), firstDataShard, 3); err != nil {
		t.Fatal(err)
	}
	newest := c.nodes[1].machine.current.Load().Version
	c.awaitGone(3, firstDataShard, removed)
	c.stop(3)
	path := filepath.Join(c.nodes[3].config.Directory, directoryName)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	// Its log is gone, and with it its votes.
	if c.nodes[3].shard(firstDataShard) != nil {
		t.Error("the replica that was removed begins anew")
	}
	testkit.Succeeds(t, "the directory is there again", func() error {
		d := &Directory{}
		if err := readJSON(path, d); err != nil || d.Version < newest {
			return fmt.Errorf("version %d, %v", d.Version, err)
		}
		return nil
	})
}

func TestFilesAreKeptUntilTheDirectoryIsSaved(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	removed := c.nodes[3].shard(firstDataShard).replicaID
	obstacle := filepath.Join(c.nodes[3].config.Directory, directoryName+".new")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.nodes[1].RemoveReplica(soon(t), firstDataShard, 3); err != nil {
		t.Fatal(err)
	}
	testkit.Succeeds(t, "the replica stops", func() error {
		if c.nodes[3].shard(firstDataShard) != nil {
			return errors.New("it runs")
		}
		return nil
	})
	// Once the channel takes another nudge, the reconciler has ended what an earlier one began.
	for range 4 {
		c.nodes[3].nudge <- struct{}{}
	}
	if _, err := os.Stat(c.nodes[3].replicaDirectory(firstDataShard, removed)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	c.awaitGone(3, firstDataShard, removed)
}

// Dragonboat ends the process when a replica opens below the last snapshot of its log.
func TestALostDirectoryOfAReplicaIsReplaced(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	n := c.nodes[3]
	s := n.shard(firstDataShard)
	testkit.Succeeds(t, "a snapshot", func() error {
		_, err := n.snapshotHere(soon(t), s)
		return err
	})
	directory := n.replicaDirectory(firstDataShard, s.replicaID)
	c.stop(3)
	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	c.awaitOther(3, s.replicaID)
	expect(t, n, 1, 1, service.Local)
}

// Of a removal that was interrupted the directory does not know, and a removed ID cannot be added.
func TestAnInterruptedRemovalEnds(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	n := c.nodes[3]
	removed := n.shard(firstDataShard).replicaID
	leader := c.nodes[c.leaderOf(firstDataShard)]
	request := controlRequest{Op: controlRemove, ShardID: firstDataShard, NodeID: 3,
		ReplicaID: removed}
	testkit.Succeeds(t, "raft removes the replica", func() error {
		_, err := leader.ask(soon(t), firstDataShard, request)
		return err
	})
	err := c.nodes[1].AddReplica(soon(t), firstDataShard, 3)
	if !errors.Is(err, service.ErrConflict) {
		t.Fatal(err)
	}
	// The reconciler tries again, too, when the time of a step is over.
	testkit.Succeeds(t, "the removal comes to its end", func() error {
		n.addAgain(soon(t), firstDataShard)
		if c.replicasOf(1, firstDataShard)[3] {
			return errors.New("the directory still has the replica")
		}
		return nil
	})
	c.awaitGone(3, firstDataShard, removed)
	if err := c.nodes[1].AddReplica(soon(t), firstDataShard, 3); err != nil {
		t.Fatal(err)
	}
	c.awaitReady()
}

// A disk that was thought lost comes back after another one has joined: the placements of the other
// one cannot be served from it, and replacing them would not end.
func TestOldDataServesNoLaterEpoch(t *testing.T) {
	n := &Node{state: state{NodeID: 1, Epoch: 2}, config: Config{Directory: t.TempDir(),
		Logger: slog.New(slog.DiscardHandler)}}
	for epoch, want := range map[uint64]struct{ lost, starts bool }{
		1: {lost: true}, 2: {starts: true}, 3: {}} {
		p := Placement{ReplicaID: 7, NodeID: 1, Epoch: epoch}
		if n.isLost(firstDataShard, p, nil) != want.lost ||
			n.mayStart(firstDataShard, p, nil) != want.starts {
			t.Errorf("epoch %d", epoch)
		}
	}
}
