package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// newest begins a cluster with the newest version of commands.
func newest(t *testing.T, nodes, shards, replicas uint64) *testCluster {
	t.Helper()
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: shards, Replicas: replicas,
		Commands: replica.Version, TickMs: 10}, nodes)
	for id := uint64(1); id <= nodes; id++ {
		c.start(id)
	}
	c.awaitReady()
	return c
}

// A setting that is ignored misleads its operator.
func TestAChangedSettingOfTheClusterIsRefused(t *testing.T) {
	c := newest(t, 1, 2, 1)
	right := c.nodes[1].config
	c.stop(1)
	for name, change := range map[string]func(*Config){
		"cluster.name":     func(c *Config) { c.Expected.Cluster = "other" },
		"cluster.shards":   func(c *Config) { c.Expected.Shards = 3 },
		"cluster.replicas": func(c *Config) { c.Expected.Replicas = 3 },
		"cluster.value_bytes is 512, but this cluster was made with 4096": func(c *Config) {
			c.Expected.ValueBytes = 512
		},
		"raft.rtt_ms":  func(c *Config) { c.TickMs = 20 },
		"raft_address": func(c *Config) { c.Info.RaftAddress = "127.0.0.1:1" },
	} {
		wrong := right
		change(&wrong)
		n, err := prepareNode(wrong)
		if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, n != nil, err)
		}
	}
	c.nodes[1].config.Expected = Expected{Cluster: "test", Shards: 2, Replicas: 1,
		ValueBytes: 4096}
	c.start(1)
	c.awaitReady()
}

// A replica that runs may vote, and a directory that no start accepts is in the operator's way.
func TestASizeWithoutRoomIsRefusedBeforeAnythingIsMade(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 1,
		Commands: replica.Version, ValueBytes: 512}, 1)
	errNarrow := errors.New("too narrow")
	narrow := c.nodes[1].config
	narrow.CheckSize = func(valueBytes int) error {
		return fmt.Errorf("%w: %d", errNarrow, valueBytes)
	}
	made := func() int {
		entries, err := os.ReadDir(filepath.Join(narrow.Directory, raftName))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := made()
	if _, err := Open(narrow); !errors.Is(err, errNarrow) || !strings.HasSuffix(err.Error(), "512") {
		t.Errorf("a start: %v", err)
	}
	if _, err := UnsafeRecover(soon(t), narrow, []uint64{firstDataShard}); !errors.Is(err, errNarrow) {
		t.Errorf("a recovery: %v", err)
	}
	if after := made(); after != before {
		t.Errorf("raft has %d files, and had %d", after, before)
	}
	c.add(2)
	c.nodes[2].config.CheckSize = narrow.CheckSize
	c.expectRefused(2, c.joinAnswered(2), errNarrow, "512")
}

// A leader with an earlier program does not know the size that the joining node names.
func TestAJoiningNodeComparesTheSizeItself(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 1,
		Commands: replica.Version, ValueBytes: 512}, 1)
	c.add(2)
	c.nodes[2].config.Expected.ValueBytes = 4096
	c.expectRefused(2, c.joinAnswered(2), ErrSettings,
		"cluster.value_bytes is 4096, but this cluster was made with 512")
	c.nodes[2].config.Expected.ValueBytes = 512
	if err := c.joinAnswered(2); err != nil {
		t.Error(err)
	}
}

// joinAnswered lets a node join through a server that accepts all nodes.
func (c *testCluster) joinAnswered(id uint64) error {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(joined{1, c.genesis, c.genesis.Directory()})
	}))
	defer answers.Close()
	return Join(soon(c.t), c.nodes[id].config, nil, answers.Listener.Addr().String(), false)
}

// Others would call a node at its former address for ever.
func TestAChangedAdminAddressReachesTheOthers(t *testing.T) {
	c := newest(t, 3, 1, 3)
	c.stop(3)
	former := c.nodes[3].config.Info.AdminAddress
	c.nodes[3].config.Info.AdminAddress = testkit.FreeAddresses(t, "127.0.0.1", 1)[0]
	c.start(3)
	testkit.Succeeds(t, "node 1 knows the address", func() error {
		entry := c.nodes[1].directory.Load().Nodes[3]
		if entry.AdminAddress != c.nodes[3].config.Info.AdminAddress || entry.Epoch != 1 {
			return fmt.Errorf("it is %s still, or was %s", entry.AdminAddress, former)
		}
		return nil
	})
}

// The shard would have two voters, one of which is away.
func TestARemovalLeavesAMajorityThatAnswers(t *testing.T) {
	c := newest(t, 3, 1, 3)
	c.stop(3)
	err := c.nodes[1].RemoveReplica(soon(t), firstDataShard, 2)
	if !errors.Is(err, service.ErrConflict) || !strings.Contains(err.Error(), "1 of 2 voters") {
		t.Fatal(err)
	}
	put(t, c.nodes[1], 1, 1)
	// The one that is away may go.
	if err := c.nodes[1].RemoveReplica(soon(t), firstDataShard, 3); err != nil {
		t.Fatal(err)
	}
	put(t, c.nodes[2], 1, 2)
}

// A voter that is behind can stop its shard.
func TestAReplicaVotesWhenItHasCaughtUp(t *testing.T) {
	c := newest(t, 4, 1, 3)
	put(t, c.nodes[1], 1, 1)
	request := controlRequest{Op: controlPlace, ShardID: firstDataShard, NodeID: 4}
	place := func(op string) error {
		request.Op = op
		shard := uint64(firstDataShard)
		if op == controlPlace {
			shard = directoryShard
		}
		value, err := c.nodes[1].ask(soon(t), shard, request)
		if op == controlPlace {
			request.ReplicaID = value
		}
		return err
	}
	request.Address = c.nodes[4].config.Info.RaftAddress
	for _, op := range []string{controlPlace, controlLearn} {
		testkit.Succeeds(t, op, func() error { return place(op) })
	}
	members := func() (voters, learners int) {
		m, err := c.nodes[1].host.SyncGetShardMembership(soon(t), firstDataShard)
		if err != nil {
			t.Fatal(err)
		}
		return len(m.Nodes), len(m.NonVotings)
	}
	if voters, learners := members(); voters != 3 || learners != 1 {
		t.Fatalf("%d voters, %d learners", voters, learners)
	}
	testkit.Succeeds(t, "it learns", func() error {
		s := c.nodes[4].shard(firstDataShard)
		if s == nil || !s.caughtUp.Load() || !c.nodes[4].isLearner(firstDataShard) ||
			s.ready() == nil {
			return errors.New("not yet")
		}
		return nil
	})
	// An interrupted call is given again, also after a restart.
	c.stop(4)
	c.start(4)
	if err := c.nodes[2].AddReplica(soon(t), firstDataShard, 4); err != nil {
		t.Fatal(err)
	}
	if voters, learners := members(); voters != 4 || learners != 0 {
		t.Fatalf("%d voters, %d learners", voters, learners)
	}
	// It keeps its vote: node 4 is needed for a majority, with its log and without it.
	for range 2 {
		c.stop(4)
		c.start(4)
		c.awaitReady()
		s := c.nodes[4].shard(firstDataShard)
		testkit.Succeeds(t, "a snapshot", func() error {
			put(t, c.nodes[1], 2, 1)
			_, err := c.nodes[4].snapshotHere(soon(t), s)
			return err
		})
	}
	c.stop(3)
	put(t, c.nodes[1], 1, 2)
	if err := c.nodes[1].MoveLeader(soon(t), firstDataShard, 4); err != nil {
		t.Fatal(err)
	}
	expect(t, c.nodes[4], 1, 2, service.Linearizable)
}
