package node

import (
	"errors"
	"strings"
	"testing"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// A wiped node that begins again under its old replica numbers has forgotten its votes.
func TestAWipedNodeCannotBeInitialisedAgain(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	c.wipe(3)
	config := c.nodes[3].config
	c.expectRefused(3, Init(soon(t), config, c.genesis), service.ErrConflict, "join --replace")
	// Nobody can be asked.
	c.stop(1)
	c.stop(2)
	if err := Init(soon(t), config, c.genesis); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	testkit.Succeeds(t, "the node has asked", func() error {
		if len(c.nodes[3].awaited()) != 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if c.nodes[3].Ready() == nil || len(c.nodes[3].localShards()) > 0 {
		t.Fatal("a wiped node has begun alone")
	}
	// With one peer it would have a majority, and could vote again.
	c.start(2)
	testkit.Succeeds(t, "node 2 refuses", func() error {
		if reason := c.nodes[3].awaited()[2]; !errors.Is(c.nodes[3].Ready(), service.ErrLoading) ||
			!strings.Contains(reason, "join --replace") {
			return errors.New(reason)
		}
		return nil
	})
	c.start(1)
	put(t, c.nodes[1], 1, 2)
	if len(c.nodes[3].localShards()) > 0 {
		t.Fatal("a wiped node takes part")
	}
	c.wipe(3)
	if err := c.join(3, 1, true); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	c.awaitReady()
	expect(t, c.nodes[3], 1, 2, service.Linearizable)
}

// A cluster begins when its last initial node has come, and a start that was interrupted goes on.
func TestTheFirstStartWaitsForAllInitialNodes(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3}, 3)
	c.start(1)
	c.start(2)
	// They have greeted each other, and wait for the third one.
	for id := uint64(1); id <= 2; id++ {
		n := c.nodes[id]
		testkit.Succeeds(t, "the other one agrees", func() error {
			waiting := n.awaited()
			if _, waits := waiting[3]; !waits || len(waiting) != 1 {
				return errors.New("not yet")
			}
			return nil
		})
		if len(n.localShards()) > 0 {
			t.Fatal("replicas run before all nodes agree")
		}
	}
	// A disk that is lost before the cluster has begun is replaced by another init.
	c.wipe(2)
	if err := Init(soon(t), c.nodes[2].config, c.genesis); err != nil {
		t.Fatal(err)
	}
	c.start(2)
	c.stop(1)
	c.start(1)
	c.start(3)
	c.awaitReady()
	for id := range c.nodes {
		c.stop(id)
	}
	// Later starts need a majority alone.
	c.start(1)
	c.start(2)
	put(t, c.nodes[1], 1, 1)
}

// Nodes whose settings of the cluster differ would never find each other.
func TestNodesOfOtherSettingsAreRefusedAtTheStart(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3}, 3)
	c.start(1)
	c.wipe(2)
	other := c.genesis
	other.Shards = 2
	c.expectRefused(2, Init(soon(t), c.nodes[2].config, other), service.ErrConflict,
		"another [cluster]")
}
