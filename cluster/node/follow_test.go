package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

const half = uint64(1) << 63

// splitAt splits the only shard of records and gives the new one.
func (c *testCluster) splitAt(via, key uint64) uint64 {
	c.t.Helper()
	created := uint64(0)
	testkit.Succeeds(c.t, "a split", func() (err error) {
		created, err = c.nodes[via].SplitShard(soon(c.t), firstDataShard, key)
		return err
	})
	return created
}

func TestASplitShardKeepsItsRecords(t *testing.T) {
	c := readyCluster(t, 4, 1, 3)
	const keys = 300
	for i := range keys {
		put(t, c.nodes[uint64(i%4)+1], keyAt(i), 1)
	}
	created := c.splitAt(4, half)
	if again := c.splitAt(1, half); again != created || created != 3 {
		t.Errorf("shards %d and %d", created, again)
	}
	for i := range keys {
		expect(t, c.nodes[uint64(i%4)+1], keyAt(i), 1, service.Linearizable)
	}
	for id := range c.nodes {
		for _, withValues := range []bool{false, true} {
			if got := scanAll(t, c.nodes[id], 7, withValues); len(got) != keys {
				t.Errorf("node %d finds %d of %d keys", id, len(got), keys)
			}
		}
		if count, err := c.nodes[id].Count(soon(t)); err != nil || count != keys {
			t.Errorf("node %d counts %d keys, %v", id, count, err)
		}
	}
	status, err := c.nodes[1].Status(soon(t))
	if err != nil || len(status.Shards) != 3 || status.Shards[1].Upper != half-1 ||
		status.Shards[1].RangeVersion != 2 || status.Shards[2].Lower != half ||
		status.Shards[2].RangeVersion != 1 {
		t.Errorf("%+v, %v", status.Shards, err)
	}
	// The former shard deletes what it does not have any more.
	testkit.Succeeds(t, "the records are deleted", func() error {
		for id := uint64(1); id <= 3; id++ {
			q := &replica.ScanQuery{Lower: half, Last: ^uint64(0), Limit: 1, Outside: true}
			if _, err := c.nodes[id].shard(firstDataShard).replica.Lookup(q); err != nil {
				return err
			}
			if len(q.Keys) > 0 {
				return fmt.Errorf("node %d still has key %x", id, q.Keys[0])
			}
		}
		return nil
	})
	for id := range c.nodes {
		c.stop(id)
	}
	for id := range c.nodes {
		c.start(id)
	}
	c.awaitReady()
	for i := range keys {
		expect(t, c.nodes[uint64(i%4)+1], keyAt(i), 1, service.Linearizable)
	}
	// Both parts may be split again, and replicas of them moved.
	if err := c.nodes[1].MoveReplica(soon(t), created, 1, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := c.nodes[2].SplitShard(soon(t), created, half+half/2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.nodes[2].SplitShard(soon(t), firstDataShard, half/2); err != nil {
		t.Fatal(err)
	}
	if got := scanAll(t, c.nodes[3], 50, true); len(got) != keys {
		t.Errorf("%d of %d keys after further splits", len(got), keys)
	}
	for _, wrong := range []uint64{0, half + 1} {
		if _, err := c.nodes[1].SplitShard(soon(t), firstDataShard, wrong); !errors.Is(err,
			service.ErrInvalid) {
			t.Errorf("a split at %x: %v", wrong, err)
		}
	}
}

// A change of the bounds may come before a write in the log that is not applied yet. The write is
// acknowledged at its commit only if no such change can be there.
func TestAWriteIsNotAcknowledgedWhileTheBoundsMayChange(t *testing.T) {
	c := readyCluster(t, 1, 1, 1)
	n := c.nodes[1]
	put(t, n, 1, 1)
	s := n.shard(firstDataShard)
	term, bounds := s.ledTerm(), s.replica.Bounds()
	if !s.acknowledgesAtCommit(term, bounds) {
		t.Error("a leader with its own bounds does not acknowledge")
	}
	older := bounds
	older.Version--
	if s.acknowledgesAtCommit(term, older) {
		t.Error("it acknowledges a write that was checked by other bounds")
	}
	s.changing.Store(term)
	if s.acknowledgesAtCommit(term, bounds) {
		t.Error("it acknowledges while a change of the bounds is under way")
	}
	// One of an earlier term is behind the first command of this term, or is refused as late.
	s.changing.Store(term - 1)
	if !s.acknowledgesAtCommit(term, bounds) {
		t.Error("a change of an earlier term counts")
	}
	if s.keeps(term+1, bounds) {
		t.Error("it has applied nothing of the later term")
	}
}

// Writers and readers go on while the range is split, and the leaders of both shards change. No
// acknowledged write is lost, and none is read as older than it is.
func TestNothingIsLostWhileARangeIsSplit(t *testing.T) {
	c := readyCluster(t, 3, 1, 3)
	const writers, keys = 4, 64
	for i := range keys {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	var acknowledged [keys]atomic.Uint64
	for i := range acknowledged {
		acknowledged[i].Store(1)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	failures := make(chan string, writers)
	fail := func(format string, arguments ...any) {
		select {
		case failures <- fmt.Sprintf(format, arguments...):
		default:
		}
	}
	written := atomic.Int64{}
	for w := range writers {
		group.Go(func() {
			n := c.nodes[uint64(w%3)+1]
			version := uint64(1)
			for ctx.Err() == nil {
				version++
				for i := w; i < keys && ctx.Err() == nil; i += writers { // Each key has one writer.
					key := keyAt(i)
					attempt, cancel := context.WithTimeout(t.Context(), patience)
					least := acknowledged[i].Load()
					op := service.Op{Key: key, Value: valueOf(key, version)}
					_, err := n.Write(attempt, []service.Op{op}, i%2 == 0)
					if err == nil {
						acknowledged[i].Store(version)
						least = version
						written.Add(1)
					} else if !errors.Is(err, service.ErrUnknown) {
						fail("key %x: %v", key, err)
					}
					values, release, err := n.Read(attempt, []uint64{key}, service.Linearizable)
					if err != nil || values[0] == nil || versionIn(values[0]) < least {
						fail("key %x of version %d: %v, %v", key, least, values, err)
					} else {
						release()
					}
					cancel()
				}
			}
		})
	}
	goOn := func() {
		testkit.Eventually(t, "writers go on", func() func() bool {
			before := written.Load()
			return func() bool { return written.Load() > before+keys }
		}())
	}
	goOn()
	lowest := uint64(firstDataShard)
	for _, key := range []uint64{half, half / 2, half / 4} {
		testkit.Succeeds(t, "a split", func() error {
			_, err := c.nodes[2].SplitShard(soon(t), lowest, key)
			return err
		})
		leader := c.leaderOf(lowest)
		if err := c.nodes[1].MoveLeader(soon(t), lowest, leader%3+1); err != nil {
			t.Fatal(err)
		}
		goOn()
	}
	stop()
	group.Wait()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
	for i := range keys {
		values, release, err := c.nodes[3].Read(soon(t), []uint64{keyAt(i)}, service.Linearizable)
		if err != nil || values[0] == nil || versionIn(values[0]) < acknowledged[i].Load() {
			t.Fatalf("key %x: %v", keyAt(i), err)
		}
		release()
	}
	if got := scanAll(t, c.nodes[1], 10, false); len(got) != keys {
		t.Errorf("%d of %d keys", len(got), keys)
	}
}

// The leader of the new shard ends while it copies. The next one begins anew, and a copy of the
// former one that comes late changes nothing.
func TestACopyGoesOnUnderAnotherLeader(t *testing.T) {
	c := readyCluster(t, 3, 1, 3)
	const keys = 3 * copiedRecords
	c.fill(1, keys)
	n := c.nodes[1]
	_, err := n.ask(soon(t), directoryShard, controlRequest{Op: controlSplit,
		ShardID: firstDataShard, Key: 1, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	const created = 3
	leader := c.leaderOf(created)
	c.stop(leader)
	c.start(leader)
	via := c.nodes[leader%3+1]
	if again := c.splitAt(leader%3+1, 1); again != created {
		t.Fatalf("shard %d", again)
	}
	for key := range uint64(keys) {
		expect(t, via, key, 1, service.Linearizable)
	}
	put(t, via, 7, 2)
	s := c.nodes[c.leaderOf(created)].shard(created)
	late := &copier{node: s.node, to: s, term: s.ledTerm()}
	command := replica.AppendOp(late.command(), service.Op{Key: 7, Value: valueOf(7, 1)})
	testkit.Succeeds(t, "a late copy is refused", func() error {
		if err := s.node.proposeHere(soon(t), s, command); !errors.Is(err, errMoved) {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
	expect(t, via, 7, 2, service.Linearizable)
}

// A backup by a map that has both shards restores each record once.
func TestABackupOfASplitShard(t *testing.T) {
	c := readyCluster(t, 4, 1, 3)
	const keys = 100
	for i := range keys {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	c.splitAt(1, half)
	for i := range keys {
		if i%3 == 0 {
			put(t, c.nodes[2], keyAt(i), 2)
		}
	}
	directory := filepath.Join(t.TempDir(), "backup")
	for _, via := range []uint64{1, 4} { // Node 4 has no replica: it copies streams.
		path := fmt.Sprint(directory, via)
		if report, err := c.nodes[via].Backup(soon(t), path, ""); err != nil || report.Records < keys {
			t.Fatal(report, err)
		}
		other := readyCluster(t, 1, 2, 1)
		report, err := other.nodes[1].Restore(soon(t), path)
		if err != nil || report.Records != keys {
			t.Errorf("%+v, %v", report, err)
		}
		for i := range keys {
			version := uint64(1)
			if i%3 == 0 {
				version = 2
			}
			expect(t, other.nodes[1], keyAt(i), version, service.Linearizable)
		}
	}
}
