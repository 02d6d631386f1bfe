package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// readHere reads keys of a node's own replica as it is now.
func readHere(t *testing.T, n *testNode, keys []uint64) (present map[uint64]bool) {
	t.Helper()
	values, release, err := readKeys(n.shard(firstDataShard).replica, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	present = map[uint64]bool{}
	for i, value := range values {
		present[keys[i]] = value != nil
	}
	return present
}

// TestALateCommandIsNotAcknowledgedAtItsCommit has a command of an earlier term, which is committed
// and changes nothing. Its write is proposed again, and is acknowledged then.
func TestALateCommandIsNotAcknowledgedAtItsCommit(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 1,
		Commands: replica.Version}, 1)
	c.start(1)
	c.awaitReady()
	n := c.nodes[1]
	put(t, n, 1, 1)
	s := n.shard(firstDataShard)
	p := s.proposer
	writes := claim([]*write{waitingWrite(2, false)})
	header := p.header(false, false)
	header.Token--
	p.slots <- struct{}{}
	p.proposed.Add(1)
	request, err := p.host.Propose(p.session, commandOf(nil, writes, header), timeLeft(writes))
	if err != nil {
		t.Fatal(err)
	}
	done := writes[0].done
	b := basis{header.Token, s.replica.Bounds()}
	p.finishProposal(request, writes, b, make(chan struct{}))
	if o := <-done; o.err != nil {
		t.Fatal(o.err)
	}
	expect(t, n, 2, 1, service.Linearizable)
}

// TestAnAcknowledgedWriteOutlivesAFullLeader has a leader whose store becomes full. It acknowledges
// writes that it cannot apply. The other replicas apply them, and reads never miss them. Package
// replica tests that a replica which fails to apply an entry begins with it after a restart.
func TestAnAcknowledgedWriteOutlivesAFullLeader(t *testing.T) {
	c := smallStores(t)
	if err := c.nodes[1].MoveLeader(soon(t), firstDataShard, 3); err != nil {
		t.Fatal(err)
	}
	n := c.nodes[3]
	var acknowledged []uint64
	key := uint64(0)
	for !n.shard(firstDataShard).replica.Full() {
		var ops []service.Op
		for range 64 {
			key++
			ops = append(ops, service.Op{Key: key, Value: valueOf(key, 1)})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := n.Write(ctx, ops, false); err == nil {
			for _, op := range ops {
				acknowledged = append(acknowledged, op.Key)
			}
		}
		cancel()
	}
	waiting := uint64(0)
	for key, present := range readHere(t, n, acknowledged) {
		if !present {
			waiting = key
		}
	}
	if waiting == 0 {
		t.Error("no write is acknowledged before it is applied")
	}
	// A linearizable read waits for the entry here, or another node answers it.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	values, release, err := n.Read(ctx, []uint64{waiting}, service.Linearizable)
	switch {
	case err == nil && values[0] == nil:
		t.Error("a read misses an acknowledged write")
	case err == nil:
		release()
	case !errors.Is(err, service.ErrUnavailable):
		t.Errorf("a read: %v", err)
	}
	testkit.Succeeds(t, "another node leads", func() error {
		if leader := c.nodes[1].shard(firstDataShard).leader.Load(); leader == 0 || leader == 3 {
			return fmt.Errorf("replica %d leads", leader)
		}
		return nil
	})
	for _, key := range acknowledged {
		expect(t, c.nodes[1], key, 1, service.Linearizable)
		expect(t, c.nodes[2], key, 1, service.Linearizable)
	}
}
