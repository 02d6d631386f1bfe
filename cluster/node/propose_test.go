package node

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// anyReplica is a replica that has all keys, and no store.
func anyReplica() *replica.Replica {
	return replica.New(replica.Config{Upper: ^uint64(0), ValueBytes: service.DefaultValueBytes})
}

// stuckProposer proposes nothing: what is given to it stays in its queue.
func stuckProposer() *proposer {
	return &proposer{shard: &shard{replica: anyReplica()}, wakeup: make(chan struct{}, 1)}
}

// TestWritesThatGaveUpTakeNoMemory has calls that end while nothing is proposed. The calls hold
// bytes in flight for their writes no longer then.
func TestWritesThatGaveUpTakeNoMemory(t *testing.T) {
	p := stuckProposer()
	stays := newWrite([]service.Op{{Key: 1}}, true)
	stays.deadline = time.Now().Add(time.Hour)
	p.enqueue([]*write{stays}, false)
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := newWrite([]service.Op{{Key: 2, Value: valueOf(2, 1)}}, false)
		if _, err := p.do(ctx, w); !errors.Is(err, service.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if w.ops != nil || w.encoded != nil {
			t.Error("the ops are kept")
		}
	}
	if len(p.queue) != 1 || p.queue[0] != stays {
		t.Errorf("%d writes are queued", len(p.queue))
	}
}

// TestALateWriteIsNotProposed stops a proposer between its term and the claim until the write's
// time is over. The replica may have been elected again meanwhile, and others may have written.
func TestALateWriteIsNotProposed(t *testing.T) {
	n := &Node{}
	n.directory.Store(&Directory{})
	p := &proposer{shard: &shard{node: n, replica: anyReplica()}}
	w := newWrite([]service.Op{{Key: 1}}, false)
	w.deadline, w.done = time.Now().Add(50*time.Millisecond), make(chan outcome, 1)
	p.shard.leaderMu.Lock()
	claimed := make(chan []*write)
	go func() {
		_, _, writes := p.prepare([]*write{w}, true)
		claimed <- writes
	}()
	time.Sleep(time.Until(w.deadline))
	p.shard.leaderMu.Unlock()
	if writes := <-claimed; len(writes) != 0 {
		t.Fatal("the write is claimed")
	}
	if o := <-w.done; !errors.Is(o.err, service.ErrUnavailable) {
		t.Errorf("the write ends with %v", o.err)
	}
}

// TestProposalsOfDeletesAreBounded: a deletion has few bytes, but each replica looks it up.
func TestProposalsOfDeletesAreBounded(t *testing.T) {
	p := stuckProposer()
	const opsOfEach = 1000
	ops := make([]service.Op, opsOfEach)
	for range 100 {
		w := newWrite(ops, true)
		w.deadline = time.Now().Add(time.Hour)
		p.enqueue([]*write{w}, false)
	}
	if count := opsOfEach * len(p.take()); count == 0 || count > maxProposalBytes/leastOpBytes {
		t.Errorf("a proposal has %d deletes", count)
	}
}

// TestCallsOfNodesHaveABudget has no room for the calls of another node.
func TestCallsOfNodesHaveABudget(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	n := c.nodes[1]
	clients := n.Node.config.Budget.Open()
	call := func(path string, body []byte) error {
		_, err := n.post(soon(t), n.config.Info.AdminAddress, path, "shard=2", body)
		return err
	}
	command := replica.NewCommand(nil, sentHeader(false, false))
	for i := range 100 {
		command = replica.AppendOp(command, service.Op{Key: keyAt(i), Value: valueOf(keyAt(i), 1)})
	}
	keys, small := make([]byte, 8*1000), make([]byte, 8)
	scan := []byte(`{"Limit":1000,"WithValues":true}`)
	for path, body := range map[string][]byte{pathWrite: command, pathRead: keys, pathScan: scan} {
		if err := call(path, body); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		clients.Force(maxBodyBytes - 100<<10)
		if err := call(path, body); !errors.Is(err, service.ErrBusy) {
			t.Errorf("%s without room: %v", path, err)
		}
		if err := call(pathRead, small); err != nil {
			t.Errorf("a small read beside %s: %v", path, err)
		}
		clients.Close()
		if held := n.Node.config.Budget.InUse(); held != 0 {
			t.Errorf("%s: %d bytes are held at the end", path, held)
		}
	}
}

// answers is what a node's calls to others get.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) { return a(request) }

// TestHungCallsFreeTheirSlotsWhenTheLeaderChanges lets as many writes hang at a leader as may be
// under way. A further write must get through as soon as another node leads.
func TestHungCallsFreeTheirSlotsWhenTheLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := 0
		n := &Node{config: Config{Scheme: "http", Client: &http.Client{Transport: answers(
			func(request *http.Request) (*http.Response, error) {
				if request.URL.Host == "two" && strings.HasSuffix(request.URL.Path, pathWrite) {
					hung++
					_, _ = io.Copy(io.Discard, request.Body)
					<-request.Context().Done()
					return nil, request.Context().Err()
				}
				return httptest.NewRecorder().Result(), nil
			})}}}
		n.directory.Store(&Directory{
			Nodes: map[uint64]NodeEntry{2: {NodeInfo: service.NodeInfo{AdminAddress: "two"}},
				3: {NodeInfo: service.NodeInfo{AdminAddress: "three"}}},
			Shards: map[uint64]ShardEntry{firstDataShard: {Replicas: []Placement{
				{NodeID: 2, ReplicaID: 2}, {NodeID: 3, ReplicaID: 3}}}}})
		s := &shard{node: n, shardID: firstDataShard, replicaID: 1, replica: anyReplica()}
		s.proposer = &proposer{shard: s, slots: make(chan struct{}, maxProposals),
			stopped: make(chan struct{}), wakeup: make(chan struct{}, 1)}
		go s.proposer.run()
		defer s.proposer.stop()
		write := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := s.proposer.do(ctx, newWrite([]service.Op{{Key: 1}}, false))
			return err
		}
		s.noteLeader(2, 5)
		results := make(chan error, maxProposals)
		for range maxProposals {
			go func() { results <- write(time.Hour) }()
			synctest.Wait()
		}
		if hung != maxProposals {
			t.Errorf("%d calls hang", hung)
		}
		s.noteLeader(3, 6)
		if err := write(time.Minute); err != nil {
			t.Errorf("a write after the change of leaders: %v", err)
		}
		if len(results) != 0 {
			t.Errorf("%d hung calls ended", len(results))
		}
		for range maxProposals {
			if err := <-results; !errors.Is(err, service.ErrUnknown) {
				t.Errorf("a hung call: %v", err)
			}
		}
	})
}
