package node

import (
	"errors"
	"testing"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/service"
)

// Keys of digits all lie in one of four shards of equal width.
func TestShardsSplitAsInitWasTold(t *testing.T) {
	lowers, err := keyspace.Like("digits", 4)
	if err != nil {
		t.Fatal(err)
	}
	genesis := Genesis{Cluster: "test", Shards: 4, Replicas: 3, Lowers: lowers}
	c := newClusterOf(t, "127.0.0.1", genesis, 4)
	for id := uint64(1); id <= 4; id++ {
		c.start(id)
	}
	c.awaitReady()
	keys := []uint64{0, lowers[0] - 1, lowers[0], lowers[1], lowers[2] - 1, lowers[2],
		^uint64(0)}
	shards := []uint64{2, 2, 3, 4, 4, 5, 5}
	for i, key := range keys {
		if got := c.nodes[1].ShardOf(key); got != shards[i] {
			t.Errorf("key %x lies in shard %d, not %d", key, got, shards[i])
		}
		put(t, c.nodes[uint64(i%4)+1], key, uint64(i+1))
	}
	for i, key := range keys {
		expect(t, c.nodes[uint64((i+1)%4)+1], key, uint64(i+1), service.Linearizable)
	}
	for _, limit := range []int{1, 3, 100} {
		if got := scanAll(t, c.nodes[2], limit, false); len(got) != len(keys) {
			t.Errorf("scans of %d find %d keys", limit, len(got))
		}
	}
	status, err := c.nodes[3].Status(soon(t))
	if err != nil || status.Shards[1].Lower != 0 || status.Shards[1].Upper != lowers[0]-1 ||
		status.Shards[4].Lower != lowers[2] || status.Shards[4].Upper != ^uint64(0) {
		t.Errorf("%+v, %v", status.Shards, err)
	}
	c.stop(1)
	c.start(1)
	c.awaitReady()
	expect(t, c.nodes[1], keys[5], 6, service.Linearizable)
	// Another split is another cluster.
	c.add(5)
	genesis.Nodes = c.nodes[1].state.Genesis.Nodes
	genesis.Lowers = []uint64{1, 2, 3}
	config := c.nodes[5].config
	config.Info = genesis.Nodes[0]
	if err := Init(soon(t), config, genesis); !errors.Is(err, service.ErrConflict) {
		t.Error(err)
	}
}
