package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"engine_race/cluster/config"
	"engine_race/cluster/config/testtls"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// secure gives a node a certificate of the authority.
func (n *testNode) secure(t *testing.T, authority *testtls.Authority, name string) {
	t.Helper()
	pair, err := authority.Issue(name, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config{TLS: config.TLS{PeerCA: authority.CAPath, PeerCert: pair.CertPath,
		PeerKey: pair.KeyPath}}
	if n.config.PeerServer, n.config.PeerClient, err = c.PeerTLS(); err != nil {
		t.Fatal(err)
	}
}

// TestSilentConnectionsKeepNoNodeOut restarts a node of a cluster with TLS while a hundred
// connections to each raft address say nothing.
func TestSilentConnectionsKeepNoNodeOut(t *testing.T) {
	authority, err := testtls.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, 3, 1, 3)
	for id, name := range map[uint64]string{1: "one", 2: "two", 3: "three"} {
		c.stop(id)
		c.nodes[id].secure(t, authority, name)
	}
	for id := range c.nodes {
		c.start(id)
	}
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	c.stop(3)
	attack := func(id uint64) {
		for range 100 {
			conn, err := net.Dial("tcp", c.nodes[id].config.Info.RaftAddress)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
	attack(1)
	attack(2)
	c.start(3)
	attack(3)
	c.awaitReady()
	expect(t, c.nodes[3], 1, 1, service.Linearizable)
	// Leaders go to the restarted node, so that it has to be reached too.
	if err := c.nodes[1].MoveLeader(soon(t), firstDataShard, 3); err != nil {
		t.Fatal(err)
	}
	put(t, c.nodes[1], 1, 2)
}

// TestNodesAreReachedByIPv6 has a cluster on ::1.
func TestNodesAreReachedByIPv6(t *testing.T) {
	c := newClusterAt(t, "::1", 3, 1, 3)
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	expect(t, c.nodes[2], 1, 1, service.Linearizable)
}

// hangingCalls lets writes that are sent on to one node hang, like a node that has vanished.
type hangingCalls struct {
	next http.RoundTripper
	to   string // an admin address
	hung chan struct{}
}

func (h *hangingCalls) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != h.to || !strings.HasSuffix(request.URL.Path, pathWrite) {
		return h.next.RoundTrip(request)
	}
	h.hung <- struct{}{}
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// TestHungCallsFreeTheirSlotsWhenTheLeaderChanges lets as many writes hang at a leader as may be
// under way. A further write must get through as soon as another node leads.
func TestHungCallsFreeTheirSlotsWhenTheLeaderChanges(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	leader := c.leaderOf(firstDataShard)
	other, n := leader%3+1, c.nodes[(leader+1)%3+1]
	testkit.Succeeds(t, "the node knows the leader", func() error {
		if n.shard(firstDataShard).leader.Load() != leader {
			return errors.New("it knows another one")
		}
		return nil
	})
	calls := &hangingCalls{next: http.DefaultTransport, to: c.nodes[leader].config.Info.AdminAddress,
		hung: make(chan struct{}, maxProposals)}
	n.Node.config.Client = &http.Client{Transport: calls}
	write := func(ctx context.Context, key uint64) error {
		_, err := n.Write(ctx, []service.Op{{Key: key, Value: valueOf(key, 1)}}, false)
		return err
	}
	hanging, release := context.WithTimeout(context.Background(), 2*patience)
	defer release()
	results := make(chan error, maxProposals)
	for key := range uint64(maxProposals) {
		go func() { results <- write(hanging, key) }()
		<-calls.hung
	}
	if err := c.nodes[other].MoveLeader(soon(t), firstDataShard, other); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := write(limited, 100); err != nil {
		t.Fatalf("a write after the change of leaders: %v", err)
	}
	if len(results) != 0 {
		t.Fatalf("a hung call ended: %v", <-results)
	}
	release()
	for range maxProposals {
		select {
		case err := <-results:
			if !errors.Is(err, service.ErrUnknown) {
				t.Errorf("a hung call: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a hung call does not end")
		}
	}
}
