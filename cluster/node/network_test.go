package node

import (
	"net"
	"testing"

	"engine_race/cluster/config"
	"engine_race/cluster/config/testtls"
	"engine_race/cluster/service"
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
