package node

import (
	"testing"

	"engine_race/cluster/service"
)

func TestALostReplicaIsReplacedInOneChange(t *testing.T) {
	g := Genesis{Cluster: "test", Shards: 1, Replicas: 3, Nodes: []service.NodeInfo{
		{ID: 1, RaftAddress: "a:1"}, {ID: 2, RaftAddress: "b:1"}, {ID: 3, RaftAddress: "c:1"}}}
	d := g.Directory()
	if epoch, refusal := d.apply(change{Op: opJoin, Node: g.Nodes[2]}); epoch != 2 {
		t.Fatal(epoch, refusal)
	}
	lost, _ := d.On(firstDataShard, 3)
	replace := change{Op: opReplace, ShardID: firstDataShard, NodeID: 3, ReplicaID: lost.ReplicaID}
	// A call that is repeated gives the same replica.
	for range 2 {
		if id, refusal := d.apply(replace); id != 4 {
			t.Fatal(id, refusal)
		}
		want := Placement{ReplicaID: 4, NodeID: 3, Epoch: 2}
		if p, _ := d.On(firstDataShard, 3); p != want || len(d.Shards[firstDataShard].Replicas) != 3 {
			t.Fatalf("%+v", d.Shards[firstDataShard])
		}
	}
	// One that comes late does not bring back what was removed.
	if _, refusal := d.apply(change{Op: opRemove, ShardID: firstDataShard, ReplicaID: 4}); refusal !=
		"" {
		t.Fatal(refusal)
	}
	if _, refusal := d.apply(replace); refusal == "" {
		t.Fatalf("%+v", d.Shards[firstDataShard])
	}
}
