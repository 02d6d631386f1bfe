package node

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// forgetLeaders makes a shard leaderless, as far as these nodes know.
func (c *testCluster) forgetLeaders(shardID uint64, nodes ...uint64) {
	for _, id := range nodes {
		c.nodes[id].shard(shardID).noteLeader(0, math.MaxUint64)
	}
}

func (c *testCluster) recallLeaders(shardID uint64, nodes ...uint64) {
	c.t.Helper()
	for _, id := range nodes {
		leader, term, _, err := c.nodes[id].host.GetLeaderID(shardID)
		if err != nil {
			c.t.Fatal(err)
		}
		c.nodes[id].shard(shardID).noteLeader(leader, term)
	}
}

// TestAShardThatNobodyServesTakesNoNodeOut has a shard without a leader on all nodes, and then on
// one of them.
func TestAShardThatNobodyServesTakesNoNodeOut(t *testing.T) {
	c := newCluster(t, 3, 2, 3)
	c.awaitReady()
	const sick = firstDataShard
	c.forgetLeaders(sick, 1, 2, 3)
	for id, n := range c.nodes {
		testkit.Succeeds(t, fmt.Sprintf("node %d has asked the others", id), func() error {
			if w := n.witness.Load(); w == nil || !w.answered || w.ready[sick] {
				return errors.New("it has not")
			}
			return nil
		})
		if err := n.Ready(); err != nil {
			t.Errorf("node %d is not ready: %v", id, err)
		}
	}
	c.recallLeaders(sick, 2, 3)
	notReady := func(why string) {
		t.Helper()
		testkit.Succeeds(t, why, func() error {
			err := c.nodes[1].Ready()
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("shard ", sick)) {
				return fmt.Errorf("Ready gives %v", err)
			}
			return nil
		})
	}
	notReady("a node that alone has no leader is not ready")
	c.recallLeaders(sick, 1)
	testkit.Succeeds(t, "the node is ready again", c.nodes[1].Ready)
	c.forgetLeaders(sick, 1)
	c.stop(2)
	c.stop(3)
	testkit.Succeeds(t, "a node that is cut off is not ready", func() error {
		if c.nodes[1].Ready() == nil {
			return errors.New("it is")
		}
		return nil
	})
}

// TestWhoIsExcused has all that a node can know of a shard that it cannot serve.
func TestWhoIsExcused(t *testing.T) {
	alone, ready := &witness{}, &witness{answered: true, ready: map[uint64]bool{7: true}}
	sick := &witness{answered: true, ready: map[uint64]bool{}}
	for i, test := range []struct {
		w             *witness
		settled, want bool
	}{
		{nil, true, true}, {nil, false, false}, {alone, true, false}, {ready, true, false},
		{sick, true, true}, {sick, false, false},
	} {
		if got := test.w.excuses(7, test.settled); got != test.want {
			t.Errorf("case %d: %t", i, got)
		}
	}
}

func TestLiveFailsWithoutPulses(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	n := c.nodes[1]
	var without pulse
	without.missed.Store(maxMissedPulses)
	if err := without.live(); !errors.Is(err, service.ErrUnavailable) {
		t.Errorf("without pulses: %v", err)
	}
	for turn := range 3 { // each shard, the directory too
		n.pulse.missed.Store(math.MaxInt32)
		n.beat(turn)
		if err := n.Live(); err != nil {
			t.Errorf("after a pulse: %v", err)
		}
	}
	// A lock that hangs: the pulse waits for it.
	proposer := n.shard(firstDataShard).proposer
	proposer.mu.Lock()
	n.pulse.missed.Store(maxMissedPulses)
	beaten := make(chan struct{})
	go func() {
		n.beat(0)
		close(beaten)
	}()
	err := n.Live()
	proposer.mu.Unlock()
	if err == nil {
		t.Error("with a lock that is held: alive")
	}
	<-beaten
	if err := n.Live(); err != nil {
		t.Errorf("after the lock: %v", err)
	}
}

func TestStatusNamesWhoIsSilentAndWhatIsDone(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	for key := range uint64(5) {
		put(t, c.nodes[1], key, 1)
	}
	expect(t, c.nodes[1], 3, 1, service.Linearizable)
	// A node that is slow to answer counts as silent.
	shows := func(silent ...uint64) {
		t.Helper()
		testkit.Succeeds(t, "the status", func() error {
			status, err := c.nodes[1].Status(soon(t))
			written, read, elections := uint64(0), uint64(0), uint64(0)
			for _, shard := range status.Shards {
				for _, r := range shard.Members {
					written += r.WrittenOps
					read += r.ReadKeys
					elections += r.Elections
				}
			}
			if err != nil || len(silent) == 0 && (written < 5 || read < 1 || elections < 2) ||
				!slices.Equal(status.Silent, silent) {
				return fmt.Errorf("%d ops written, %d keys read, %d elections; silent nodes: %v; %v",
					written, read, elections, status.Silent, err)
			}
			return nil
		})
	}
	shows()
	c.stop(3)
	shows(3)
}

func TestRates(t *testing.T) {
	var r rate
	for second := range uint64(60) {
		r.note(500 * (second + 1))
	}
	if got := r.perSecond(); got < 495 || got > 500 {
		t.Errorf("500 a second become %v", got)
	}
	for range 60 {
		r.note(500 * 60)
	}
	if got := r.perSecond(); got > 1 {
		t.Errorf("nothing a second becomes %v", got)
	}
}
