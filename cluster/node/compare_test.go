package node

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"engine_race/cluster/engine"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// damage changes a record of one node behind raft's back, while the node is down.
func (c *testCluster) damage(id, key uint64) {
	c.t.Helper()
	s := c.nodes[id].shard(firstDataShard)
	directory := c.nodes[id].replicaDirectory(firstDataShard, s.replicaID) + "/store"
	options := maps.Clone(c.nodes[id].config.Engine)
	c.stop(id)
	store, err := engine.Open(directory, options)
	if err != nil {
		c.t.Fatal(err)
	}
	batch, err := engine.NewBatch(service.DefaultValueBytes)
	if err != nil {
		c.t.Fatal(err)
	}
	defer batch.Destroy()
	if err := errors.Join(batch.Put(key, valueOf(key, 99)), store.Write(batch),
		store.Close()); err != nil {
		c.t.Fatal(err)
	}
	c.start(id)
	c.awaitReady()
}

func TestAComparisonFindsTheReplicaThatDiffers(t *testing.T) {
	c := newest(t, 3, 1, 3)
	for i := range 20 {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	compare := func() service.Comparison {
		t.Helper()
		result, err := c.nodes[2].Compare(soon(t), firstDataShard)
		if err != nil || !slices.Equal(result.Nodes, []uint64{1, 2, 3}) || len(result.Missing) > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		return result
	}
	if result := compare(); len(result.Differences) > 0 {
		t.Fatalf("%+v", result)
	}
	// It is synced, so the entry is not applied again.
	testkit.Succeeds(t, "node 3 is synced", func() error {
		s := c.nodes[3].shard(firstDataShard)
		if s.replica.Synced() != s.replica.Applied() {
			return errors.New("not yet")
		}
		return nil
	})
	c.damage(3, keyAt(7))
	result := compare()
	if len(result.Differences) != 1 || !slices.Equal(result.Differences[0].Nodes, []uint64{3}) ||
		keyAt(7) < result.Differences[0].Lower || keyAt(7) > result.Differences[0].Upper {
		t.Fatalf("%+v", result)
	}
	marked := func() error {
		status, err := c.nodes[1].Status(soon(t))
		if err != nil {
			return err
		}
		for _, member := range status.Shards[1].Members {
			if member.Differs != (member.NodeID == 3) {
				return fmt.Errorf("%+v", member)
			}
		}
		return nil
	}
	testkit.Succeeds(t, "node 3 is marked", marked)
	// A new write heals the record by chance, and the mark goes.
	put(t, c.nodes[1], keyAt(7), 2)
	if result := compare(); len(result.Differences) > 0 || marked() == nil {
		t.Fatalf("%+v", result)
	}
	if _, err := c.nodes[1].Compare(soon(t), directoryShard); !errors.Is(err, service.ErrInvalid) {
		t.Error(err)
	}
}

// The hashes of many records take longer than calls that name no time.
func TestLeadersCompareInTheBackground(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3,
		Commands: replica.Version}, 3)
	for id := uint64(1); id <= 3; id++ {
		c.nodes[id].config.CompareInterval = time.Millisecond
		next := &http.Transport{}
		look := func(request *http.Request) (*http.Response, error) {
			ms, _ := strconv.ParseInt(request.URL.Query().Get("timeout_ms"), 10, 64)
			if request.URL.Path == pathHash && time.Duration(ms)*time.Millisecond < compareTimeout/2 {
				t.Errorf("a hash may take %d ms", ms)
			}
			return next.RoundTrip(request)
		}
		c.nodes[id].config.Client = &http.Client{Transport: answers(look)}
		c.start(id)
	}
	c.awaitReady()
	testkit.Succeeds(t, "replicas are compared", func() error {
		for _, n := range c.nodes {
			if done, last := n.Comparisons(); done > 0 && len(last[0].Nodes) == 3 {
				return nil
			}
		}
		return errors.New("not yet")
	})
}

func TestTheMinorityDiffers(t *testing.T) {
	chunk := func(last uint64, hash string) replica.Chunk {
		return replica.Chunk{Last: last, Records: 1, Hash: hash}
	}
	same := []replica.Chunk{chunk(10, "a"), chunk(20, "b"), chunk(30, "c")}
	for name, test := range map[string]struct {
		hashes map[uint64][]replica.Chunk
		want   []service.Difference
	}{
		"equal": {map[uint64][]replica.Chunk{1: same, 2: same, 3: same}, nil},
		"neighbours are one range": {map[uint64][]replica.Chunk{1: same, 2: same,
			3: {chunk(10, "x"), chunk(20, "y"), chunk(30, "c")}},
			[]service.Difference{{Lower: 5, Upper: 20, Nodes: []uint64{3}}}},
		"a chunk is missing": {map[uint64][]replica.Chunk{1: same, 2: same[:2], 3: same},
			[]service.Difference{{Lower: 21, Upper: 30, Nodes: []uint64{2}}}},
		"two of two": {map[uint64][]replica.Chunk{1: same, 2: nil},
			[]service.Difference{{Lower: 5, Upper: 30, Nodes: []uint64{1, 2}}}},
		"nobody is right": {map[uint64][]replica.Chunk{1: {chunk(30, "a")}, 2: {chunk(30, "b")},
			3: {chunk(30, "c")}},
			[]service.Difference{{Lower: 5, Upper: 30, Nodes: []uint64{1, 2, 3}}}},
	} {
		if got := differences(test.hashes, 5); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
