package node

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// Nodes of a rolling upgrade know different versions of commands.
func TestTheVersionOfCommandsRisesWhenAllNodesKnowIt(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3}, 3)
	c.nodes[3].config.Commands = 1
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	n := c.nodes[1]
	version, err := n.commonVersion(soon(t))
	if err != nil || version != 1 || n.commands() != 1 {
		t.Fatalf("%d of all nodes, %d in use, %v", version, n.commands(), err)
	}
	c.stop(3)
	if _, err := n.commonVersion(soon(t)); err == nil {
		t.Fatal("a node that does not answer knows the version")
	}
	c.nodes[3].config.Commands = replica.Version
	c.start(3)
	for _, n := range c.nodes {
		testkit.Succeeds(t, "the version rises", func() error {
			if n.commands() != replica.Version {
				return errors.New("not yet")
			}
			return nil
		})
	}
	put(t, c.nodes[1], 1, 2)
	for _, n := range c.nodes {
		expect(t, n, 1, 2, service.Linearizable)
	}
	// An older program would not know the commands of the log.
	testkit.Succeeds(t, "the directory is saved", func() error {
		d := &Directory{}
		err := readJSON(filepath.Join(c.nodes[3].config.Directory, directoryName), d)
		if err == nil && d.Commands != replica.Version {
			err = fmt.Errorf("version %d", d.Commands)
		}
		return err
	})
	c.stop(3)
	c.nodes[3].config.Commands = 1
	if _, err := Open(c.nodes[3].config); err == nil || !strings.Contains(err.Error(), "newer one") {
		t.Fatal(err)
	}
	c.add(4)
	c.nodes[4].config.Commands = 1
	c.expectRefused(4, c.join(4, 1, false), service.ErrConflict, "install a newer one")
}

func TestAChangeOfANewerProgramEndsTheProcess(t *testing.T) {
	m := newDirectoryMachine(&Genesis{Nodes: make([]service.NodeInfo, 1)})
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "install a newer one") {
			t.Errorf("%q", text)
		}
	}()
	_, _ = m.Update(statemachine.Entry{Index: 1, Cmd: []byte(`{"op": "merge"}`)})
	t.Error("the directory goes on")
}

// A write that links have held back finds that its sender has given up.
func TestALateWriteOfAnotherNodeIsRefused(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	leader := c.nodes[c.leaderOf(firstDataShard)]
	command := replica.AppendOp(replica.NewCommand(nil, sentHeader(false, false)),
		service.Op{Key: 1, Value: valueOf(1, 1)})
	write := func(leader *testNode, until string) error {
		_, err := leader.serveWrite(call{ctx: soon(t), shard: leader.shard(firstDataShard),
			body: command, account: leader.Node.config.Budget.Open(),
			query: func(name string) string {
				return map[string]string{"leader": "1", untilQuery: until}[name]
			}})
		return err
	}
	now := time.Since(leader.clock.start).Milliseconds()
	other := newClock()
	for _, until := range []string{leader.clock.at(now - 1), leader.clock.at(0),
		other.at(now + 60_000), "nonsense"} {
		if err := write(leader, until); !errors.Is(err, errNotHere) {
			t.Errorf("until %q: %v", until, err)
		}
	}
	expect(t, leader, 1, 0, service.Linearizable)
	testkit.Succeeds(t, "a write in time", func() error {
		leader := c.nodes[c.leaderOf(firstDataShard)]
		now := time.Since(leader.clock.start).Milliseconds()
		return write(leader, leader.clock.at(now+60_000))
	})
	expect(t, leader, 1, 1, service.Linearizable)
}

// Answers may be slow, so estimates of another clock are never ahead of it.
func TestTheEstimateOfAClockIsNotAheadOfIt(t *testing.T) {
	n := &Node{}
	n.noteClock("a", "x.1000")
	first, _ := n.clocks.Load("a")
	when := first.(heard).when
	for after, want := range map[time.Duration]int64{0: 1000, time.Second: 1999,
		-time.Second: -1, 10 * time.Second: 10_990} {
		if got := first.(heard).at(when.Add(after)); got != want {
			t.Errorf("%v later the clock shows %d, not %d", after, got, want)
		}
	}
	n.noteClock("a", "x.10")
	if kept, _ := n.clocks.Load("a"); kept != first {
		t.Error("a slow answer makes the estimate early")
	}
	n.noteClock("a", "y.10")
	if kept, _ := n.clocks.Load("a"); kept.(heard).name != "y" {
		t.Error("another start of the node is not noticed")
	}
}

// A node may still hold a write when another one leads.
func TestACommandOfAnEarlierTermIsProposedAgain(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3,
		Commands: replica.Version}, 3)
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	leader := c.nodes[c.leaderOf(firstDataShard)]
	s := leader.shard(firstDataShard)
	late := replica.AppendOp(replica.NewCommand(nil, replica.Header{Version: replica.Version,
		Token: s.ledTerm() - 1}), service.Op{Key: 1, Value: valueOf(1, 9)})
	result, err := leader.host.SyncPropose(soon(t), s.proposer.session, late)
	if err != nil || result.Value != replica.ResultLate {
		t.Fatalf("%v, %v", result, err)
	}
	expect(t, leader, 1, 1, service.Linearizable)
	// Here the write waits still, and is proposed with the present term.
	s.leaderMu.Lock()
	s.term, s.led = s.term-1, s.led-1
	s.leaderMu.Unlock()
	done := make(chan error, 1)
	go func() {
		_, err := leader.Write(soon(t), []service.Op{{Key: 1, Value: valueOf(1, 2)}}, false)
		done <- err
	}()
	testkit.Succeeds(t, "the term is known again", func() error {
		s.checkLeader()
		return nil
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	expect(t, leader, 1, 2, service.Linearizable)
}

// Raft sends a command on that comes to a former leader. It must not look like one of the leader,
// which may have written meanwhile. The token of a replica that has ended must not be above all.
func TestATokenIsATermOfTheProposingNode(t *testing.T) {
	s := &shard{replicaID: 1, proposer: &proposer{}}
	for i, step := range []struct {
		note               func(leader, term uint64)
		leader, term, want uint64
	}{
		{s.noteLeader, 1, 4, 4}, {s.noteLeader, 0, 5, 4}, {s.noteLeader, 2, 5, 4},
		{s.noteAnswer, 1, 7, 7}, {s.noteLeader, 1, 8, 8}, {s.noteAnswer, 0, math.MaxUint64, 8},
	} {
		if step.note(step.leader, step.term); s.ledTerm() != step.want {
			t.Errorf("step %d: the token is %d, not %d", i, s.ledTerm(), step.want)
		}
	}
}
