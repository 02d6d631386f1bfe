package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

func TestAnyNodeAnswersForAnyKey(t *testing.T) {
	// With three replicas on five nodes, each node lacks some shards.
	c := newCluster(t, 5, 4, 3)
	c.awaitReady()
	for i := range 40 {
		put(t, c.nodes[uint64(i%5)+1], keyAt(i), uint64(i+1))
	}
	for i := range 40 {
		expect(t, c.nodes[uint64((i+2)%5)+1], keyAt(i), uint64(i+1), service.Linearizable)
	}
	keys := []uint64{keyAt(3), 12345, keyAt(7)}
	values, _, err := c.nodes[1].Read(soon(t), keys, service.Linearizable)
	if err != nil || values[0] == nil || values[1] != nil || values[2] == nil {
		t.Fatalf("%d values, %v", len(values), err)
	}
	for id := range c.nodes {
		count, err := c.nodes[id].Count(soon(t))
		if err != nil || count != 40 {
			t.Fatalf("node %d counts %d keys, %v", id, count, err)
		}
		records, more, err := c.nodes[id].Scan(soon(t), 0, nil, 100, true, service.Linearizable)
		if err != nil || more || len(records) != 40 {
			t.Fatalf("node %d scans %d records, more %v, %v", id, len(records), more, err)
		}
		for i, r := range records {
			if i > 0 && records[i-1].Key >= r.Key || binary.BigEndian.Uint64(r.Value) != r.Key {
				t.Fatalf("node %d: record %d is wrong", id, i)
			}
		}
	}
	var existed []bool
	testkit.Succeeds(t, "a counted write", func() (err error) {
		put(t, c.nodes[4], keyAt(0), 1)
		put(t, c.nodes[4], keyAt(1), 1)
		existed, err = c.nodes[4].Write(soon(t), []service.Op{{Key: keyAt(0)}, {Key: 9},
			{Key: keyAt(1)}}, true)
		return err
	})
	if !existed[0] || existed[1] || !existed[2] {
		t.Fatalf("%v", existed)
	}
}

func TestWritesOutliveAllNodes(t *testing.T) {
	c := newCluster(t, 3, 2, 3)
	c.awaitReady()
	for i := range 50 {
		put(t, c.nodes[uint64(i%3)+1], keyAt(i), 1)
	}
	for id := range c.nodes {
		c.stop(id)
	}
	for id := range c.nodes {
		c.start(id)
	}
	c.awaitReady()
	for i := range 50 {
		expect(t, c.nodes[uint64((i+1)%3)+1], keyAt(i), 1, service.Linearizable)
		expect(t, c.nodes[uint64((i+1)%3)+1], keyAt(i), 1, service.Local)
	}
}

func TestOthersTakeOverFromALostNode(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	put(t, c.nodes[1], 5, 1)
	leader := uint64(0)
	testkit.Succeeds(t, "a leader is known", func() error {
		status, err := c.nodes[1].Status(soon(t))
		if err == nil && status.Shards[1].LeaderID == 0 {
			err = errors.New("none")
		}
		leader = status.Shards[1].LeaderID
		return err
	})
	c.stop(leader)
	survivor := c.nodes[leader%3+1]
	put(t, survivor, 5, 2)
	expect(t, survivor, 5, 2, service.Linearizable)
	c.start(leader)
	c.awaitReady()
	expect(t, c.nodes[leader], 5, 2, service.Linearizable)
}

func TestWithoutAQuorumNothingIsDone(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	put(t, c.nodes[1], 5, 1)
	testkit.Succeeds(t, "the write reaches node 1", func() error {
		values, _, err := c.nodes[1].Read(soon(t), []uint64{5}, service.Local)
		if err == nil && values[0] == nil {
			err = errors.New("it is not there")
		}
		return err
	})
	c.stop(2)
	c.stop(3)
	testkit.Succeeds(t, "the leader steps down", func() error {
		if c.nodes[1].shard(firstDataShard).leader.Load() != 0 {
			return errors.New("there is a leader")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, err := c.nodes[1].Write(ctx, []service.Op{{Key: 5, Value: valueOf(5, 2)}}, false)
	if !errors.Is(err, service.ErrUnavailable) {
		t.Fatalf("a write: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, _, err = c.nodes[1].Read(ctx, []uint64{5}, service.Linearizable)
	if !errors.Is(err, service.ErrUnavailable) {
		t.Fatalf("a read: %v", err)
	}
	expect(t, c.nodes[1], 5, 1, service.Local)
	c.start(2)
	c.start(3)
	c.awaitReady()
	expect(t, c.nodes[2], 5, 1, service.Linearizable)
}

func TestReplicasMoveUnderLoad(t *testing.T) {
	c := newCluster(t, 4, 1, 3)
	c.awaitReady()
	var stop atomic.Bool
	written := make(chan uint64)
	go func() {
		version := uint64(0)
		defer func() { written <- version }()
		for !stop.Load() && !t.Failed() {
			op := service.Op{Key: keyAt(int(version + 1)), Value: valueOf(0, version+1)}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err := c.nodes[2].Write(ctx, []service.Op{op}, false)
			cancel()
			// An election loses proposals, and a shard without a leader takes none. Nobody else writes
			// these keys.
			if errors.Is(err, service.ErrUnknown) || errors.Is(err, service.ErrUnavailable) {
				continue
			}
			if err != nil {
				t.Errorf("write %d: %v", version+1, err)
				return
			}
			version++
		}
	}()
	if err := c.nodes[1].AddReplica(soon(t), firstDataShard, 4); err != nil {
		t.Error(err)
	}
	if err := c.nodes[1].RemoveReplica(soon(t), firstDataShard, 3); err != nil {
		t.Error(err)
	}
	if err := c.nodes[1].MoveLeader(soon(t), firstDataShard, 4); err != nil {
		t.Error(err)
	}
	stop.Store(true)
	count := <-written
	if count == 0 {
		t.Fatal("nothing was written")
	}
	for version := uint64(1); version <= count; version++ {
		for _, id := range []uint64{3, 4} {
			expect(t, c.nodes[id], keyAt(int(version)), version, service.Linearizable)
		}
	}
	testkit.Succeeds(t, "node 3 removes its replica", func() error {
		if c.nodes[3].shard(firstDataShard) != nil {
			return errors.New("it runs")
		}
		return nil
	})
	if c.nodes[4].shard(firstDataShard) == nil {
		t.Fatal("node 4 has no replica")
	}
}

func TestABackupIsRestoredIntoAnotherCluster(t *testing.T) {
	// Node 1 lacks some shards: their streams come from others.
	from := newCluster(t, 3, 4, 1)
	from.awaitReady()
	for i := range 60 {
		put(t, from.nodes[1], keyAt(i), 1)
	}
	full, next := filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "next")
	report, err := from.nodes[1].Backup(soon(t), full, "")
	if err != nil || report.Records != 60 {
		t.Fatalf("%+v, %v", report, err)
	}
	put(t, from.nodes[1], keyAt(7), 2)
	if _, err := from.nodes[1].Write(soon(t), []service.Op{{Key: keyAt(8)}}, false); err != nil {
		t.Fatal(err)
	}
	if report, err = from.nodes[1].Backup(soon(t), next, full); err != nil || report.Records != 59 {
		t.Fatalf("%+v, %v", report, err)
	}
	if _, err := from.nodes[1].Backup(soon(t), next, full); err == nil {
		t.Fatal("a backup is overwritten")
	}
	to := newCluster(t, 1, 3, 1)
	to.awaitReady()
	to.nodes[1].restoring.Lock()
	if _, err = to.nodes[1].Restore(soon(t), next); !errors.Is(err, service.ErrConflict) {
		t.Fatalf("a restore beside another one: %v", err)
	}
	to.nodes[1].restoring.Unlock()
	if report, err = to.nodes[1].Restore(soon(t), next); err != nil || report.Records != 59 {
		t.Fatalf("%+v, %v", report, err)
	}
	for i := range 60 {
		version := uint64(1)
		switch i {
		case 7:
			version = 2
		case 8:
			version = 0
		}
		expect(t, to.nodes[1], keyAt(i), version, service.Linearizable)
	}
	if _, err := to.nodes[1].Restore(soon(t), next); err == nil {
		t.Fatal("a restore into a cluster with records")
	}
}

func TestALostNodeIsReplaced(t *testing.T) {
	c := newCluster(t, 3, 2, 3)
	c.awaitReady()
	for i := range 50 {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	c.stop(3)
	lost := c.nodes[3].config.Directory
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(c.nodes[3].config); err == nil {
		t.Fatal("a node starts without its files")
	}
	if err := c.join(3, 1, true); err != nil {
		t.Fatal(err)
	}
	// Without a majority of the others nobody can add replicas.
	c.stop(2)
	c.start(3)
	if c.nodes[3].Ready() == nil {
		t.Error("the node is ready without its replicas")
	}
	c.start(2)
	testkit.Succeeds(t, "node 3 has replicas again", func() error {
		for _, shardID := range []uint64{directoryShard, firstDataShard, firstDataShard + 1} {
			if s := c.nodes[3].shard(shardID); s == nil || s.ready() != nil {
				return fmt.Errorf("shard %d is not there", shardID)
			}
		}
		return nil
	})
	for i := range 50 {
		expect(t, c.nodes[3], keyAt(i), 1, service.Local)
	}
	// The others are no longer needed both.
	c.stop(1)
	put(t, c.nodes[3], keyAt(1), 2)
	expect(t, c.nodes[2], keyAt(1), 2, service.Linearizable)
}

// The log is shortened at once, so a replica that comes later gets a snapshot.
func TestAReplicaComesFromASnapshot(t *testing.T) {
	c := newCluster(t, 4, 1, 3)
	c.awaitReady()
	for i := range 1500 {
		put(t, c.nodes[1], keyAt(i%200), uint64(i+1))
	}
	for id := uint64(1); id <= 3; id++ {
		s := c.nodes[id].shard(firstDataShard)
		testkit.Succeeds(t, "a snapshot", func() error {
			_, err := c.nodes[id].snapshotHere(soon(t), s)
			if s.replica.Synced() > 1400 {
				return nil
			}
			return err
		})
	}
	if err := c.nodes[1].AddReplica(soon(t), firstDataShard, 4); err != nil {
		t.Fatal(err)
	}
	for i := 1300; i < 1500; i++ {
		testkit.Succeeds(t, "a local read", func() error {
			_, _, err := c.nodes[4].Read(soon(t), []uint64{keyAt(i % 200)}, service.Local)
			return err
		})
		expect(t, c.nodes[4], keyAt(i%200), uint64(i+1), service.Local)
	}
}

func TestALostStoreIsReplaced(t *testing.T) {
	c := newCluster(t, 3, 2, 3)
	c.awaitReady()
	for i := range 30 {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	n := c.nodes[3]
	s := n.shard(firstDataShard)
	testkit.Succeeds(t, "an index is stored", func() error {
		if s.replica.Synced() == 0 {
			return errors.New("none")
		}
		return nil
	})
	store := n.replicaDirectory(firstDataShard, s.replicaID)
	c.stop(3)
	if err := os.RemoveAll(filepath.Join(store, "store")); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	c.awaitOther(3, s.replicaID)
	for i := range 30 {
		testkit.Succeeds(t, "a local read", func() error {
			values, _, err := n.Read(soon(t), []uint64{keyAt(i)}, service.Local)
			if err == nil && values[0] == nil {
				err = errors.New("absent")
			}
			return err
		})
	}
	testkit.Succeeds(t, "the files of the old replica are gone", func() error {
		if _, err := os.Stat(store); err == nil {
			return errors.New("they are there")
		}
		return nil
	})
}
