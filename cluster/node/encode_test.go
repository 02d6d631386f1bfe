package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

func waitingWrite(key uint64, sentOn bool) *write {
	w := newWrite([]service.Op{{Key: key, Value: valueOf(key, 1)}}, false)
	w.sentOn, w.deadline, w.done = sentOn, time.Now().Add(time.Hour), make(chan outcome, 1)
	return w
}

func TestOwnAndForwardedWritesShareAProposal(t *testing.T) {
	p := stuckProposer()
	for key := range uint64(8) {
		p.enqueue([]*write{waitingWrite(key, key%2 == 1)}, false)
	}
	if count := len(p.take()); count != 8 {
		t.Errorf("a proposal has %d of 8 writes", count)
	}
}

func TestATransactionThatReadsHasItsOwnProposal(t *testing.T) {
	p := stuckProposer()
	for _, reads := range []bool{false, true, true, false} {
		w := newWrite([]service.Op{{Key: 1, Read: reads}}, true)
		w.deadline = time.Now().Add(time.Hour)
		p.enqueue([]*write{w}, false)
	}
	for i := range 4 {
		if count := len(p.take()); count != 1 {
			t.Errorf("proposal %d has %d writes", i, count)
		}
	}
}

// TestForwardedWritesAreNotSentOn has another node lead by the time that a proposal is made. The
// writes of this node go there, and those of others go back to their nodes.
func TestForwardedWritesAreNotSentOn(t *testing.T) {
	bodies := make(chan []byte, 1)
	n := &Node{config: Config{Scheme: "http", Client: &http.Client{Transport: answers(
		func(request *http.Request) (*http.Response, error) {
			if request.URL.Path == pathWrite {
				body, _ := io.ReadAll(request.Body)
				bodies <- body
			}
			return httptest.NewRecorder().Result(), nil
		})}}}
	n.directory.Store(&Directory{
		Nodes: map[uint64]NodeEntry{2: {NodeInfo: service.NodeInfo{AdminAddress: "two"}}},
		Shards: map[uint64]ShardEntry{firstDataShard: {
			Replicas: []Placement{{NodeID: 2, ReplicaID: 2}}}}})
	s := &shard{node: n, shardID: firstDataShard, replicaID: 1, replica: anyReplica()}
	s.leader.Store(2)
	p := &proposer{shard: s, slots: make(chan struct{}, maxProposals), stopped: make(chan struct{}),
		wakeup: make(chan struct{}, 1)}
	own, forwarded := waitingWrite(1, false), waitingWrite(2, true)
	p.slots <- struct{}{}
	p.propose([]*write{forwarded, own})
	if o := <-forwarded.done; !errors.Is(o.err, errNotHere) {
		t.Errorf("the forwarded write: %v", o.err)
	}
	if o := <-own.done; o.err != nil {
		t.Errorf("the node's own write: %v", o.err)
	}
	want := replica.AppendOp(replica.NewCommand(nil, sentHeader(false, false)), own.ops[0])
	if body := <-bodies; !bytes.Equal(body, want) {
		t.Errorf("%d bytes were sent, not the %d of the own write", len(body), len(want))
	}
	p.slots <- struct{}{}
	p.propose([]*write{waitingWrite(3, true)})
	p.slots <- struct{}{} // The slot was given back.
}

// TestACallDoesNotEndWhileItsWriteIsEncoded lets calls end in the midst of that, and their memory
// change after it.
func TestACallDoesNotEndWhileItsWriteIsEncoded(t *testing.T) {
	n := &Node{}
	n.directory.Store(&Directory{})
	p := &proposer{shard: &shard{node: n, replica: anyReplica()}, wakeup: make(chan struct{}, 1)}
	const count = 256
	ops := make([]service.Op, count)
	for i := range ops {
		ops[i] = service.Op{Key: uint64(i), Value: make([]byte, service.DefaultValueBytes)}
	}
	for round := range 100 {
		for i := range ops {
			ops[i].Value[0], ops[i].Value[service.DefaultValueBytes-1] = 1, 1
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		var ended sync.WaitGroup
		ended.Go(func() {
			_, _ = p.do(ctx, newWrite(ops, false))
			for i := range ops {
				ops[i].Value[0], ops[i].Value[service.DefaultValueBytes-1] = 2, 2
			}
		})
		<-p.wakeup
		writes := p.take()
		ended.Go(cancel)
		command, _, writes := p.prepare(writes, true)
		if len(writes) > 0 {
			opBytes := replica.OpsBytes(ops[:1])
			for rest := command[len(command)-count*opBytes:]; len(rest) > 0; rest = rest[opBytes:] {
				if value := rest[opBytes-service.DefaultValueBytes : opBytes]; value[0] != 1 ||
					value[service.DefaultValueBytes-1] != 1 {
					t.Fatalf("round %d: the command has what came after the call", round)
				}
			}
		}
		ended.Wait()
		cancel()
	}
}
