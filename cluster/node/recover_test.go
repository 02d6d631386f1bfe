package node

import (
	"errors"
	"testing"

	"engine_race/cluster/service"
)

// Two of three nodes are lost for ever.
func TestAShardIsRecoveredFromOneReplica(t *testing.T) {
	c := newest(t, 3, 2, 3)
	for i := range 40 {
		put(t, c.nodes[1], keyAt(i), 1)
	}
	// Node 1 has applied all of them: so none is lost with the others.
	for i := range 40 {
		expect(t, c.nodes[1], keyAt(i), 1, service.Linearizable)
	}
	for id := range c.nodes {
		c.stop(id)
	}
	c.wipe(2)
	c.wipe(3)
	survivor := c.nodes[1].config
	if _, err := UnsafeRecover(soon(t), survivor, []uint64{9}); !errors.Is(err, service.ErrInvalid) {
		t.Fatal(err)
	}
	all := []uint64{directoryShard, firstDataShard, firstDataShard + 1}
	indexes, err := UnsafeRecover(soon(t), survivor, all)
	if err != nil || len(indexes) != len(all) || indexes[firstDataShard] == 0 {
		t.Fatalf("%v, %v", indexes, err)
	}
	c.start(1)
	c.awaitReady()
	for i := range 40 {
		expect(t, c.nodes[1], keyAt(i), 1, service.Linearizable)
	}
	put(t, c.nodes[1], keyAt(0), 2)
	// The lost replicas are taken out, and other nodes get replicas.
	for _, shardID := range all {
		for id := uint64(2); id <= 3; id++ {
			if err := c.nodes[1].RemoveReplica(soon(t), shardID, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.join(2, 1, true); err != nil {
		t.Fatal(err)
	}
	c.start(2)
	for _, shardID := range all {
		if err := c.nodes[1].AddReplica(soon(t), shardID, 2); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitReady()
	for i := 1; i < 40; i++ {
		expect(t, c.nodes[2], keyAt(i), 1, service.Local)
	}
}
