package node

import (
	"slices"
	"strings"
	"testing"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/replica"
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

func smallGenesis(shards uint64) Genesis {
	return Genesis{Cluster: "test", Shards: shards, Replicas: 2, Commands: replica.Version,
		Nodes: []service.NodeInfo{{ID: 1, RaftAddress: "a:1"}, {ID: 2, RaftAddress: "b:1"},
			{ID: 3, RaftAddress: "c:1"}}}
}

// expectChange applies a change. It wants a result, or a part of the reason of a refusal.
func expectChange(t *testing.T, d *Directory, c change, result uint64, refusal string) {
	t.Helper()
	got, why := d.apply(c)
	if got != result || (why == "") != (refusal == "") || !strings.Contains(why, refusal) {
		t.Errorf("%+v: %d, %q; want %d, %q", c, got, why, result, refusal)
	}
}

func TestASplitComparesTheVersionOfItsRange(t *testing.T) {
	g := smallGenesis(2)
	d := g.Directory()
	const half, quarter = 1 << 63, 1 << 62
	before := d.clone()
	split := change{Op: opSplit, ShardID: 2, Key: quarter, Version: 1}
	expectChange(t, d, split, 4, "")
	if !slices.Equal(d.Ranges, before.Ranges) {
		t.Errorf("the map changes before the records are copied: %+v", d.Ranges)
	}
	for range 2 { // A call that is repeated changes nothing more.
		expectChange(t, d, change{Op: opCut, ShardID: 4}, 1, "")
	}
	expectChange(t, d, change{Op: opFilled, ShardID: 4}, 1, "")
	// A call that has seen the map before is refused.
	expectChange(t, d, change{Op: opSplit, ShardID: 2, Key: quarter / 2, Version: 1}, 0,
		"has version 2, not 1")
	expectChange(t, d, change{Op: opSplit, ShardID: 2, Key: quarter, Version: 2}, 0, "does not split")
	expectChange(t, d, change{Op: opSplit, ShardID: 1, Key: 5, Version: 1}, 0, "has no keys")
	expectChange(t, d, change{Op: opSplit, ShardID: 9, Key: 5, Version: 1}, 0, "no shard 9")
	want := keyspace.Map{{Shard: 2, Last: quarter - 1, Version: 2},
		{Shard: 4, First: quarter, Last: half - 1, Version: 1},
		{Shard: 3, First: half, Last: ^uint64(0), Version: 1}}
	if !slices.Equal(d.Ranges, want) {
		t.Errorf("%+v", d.Ranges)
	}
	if len(before.Ranges) != 2 {
		t.Errorf("the directory before is changed: %+v", before.Ranges)
	}
	entry := d.Shards[4]
	if len(entry.Replicas) != 2 || entry.Replicas[0].NodeID != d.Shards[2].Replicas[0].NodeID ||
		d.foundersWith(4, entry.Replicas[0])[1] != "a:1" || !entry.Closed {
		t.Errorf("%+v", entry)
	}
}

func TestARangeIsSplitOnceAtATime(t *testing.T) {
	g := smallGenesis(1)
	d := g.Directory()
	expectChange(t, d, change{Op: opSplit, ShardID: 2, Key: 100, Version: 1}, 3, "")
	expectChange(t, d, change{Op: opSplit, ShardID: 2, Key: 50, Version: 2}, 0, "still copies")
	expectChange(t, d, change{Op: opSplit, ShardID: 3, Key: 200, Version: 1}, 0, "still copies")
	// The copy reads the replica of its node.
	for _, shardID := range []uint64{2, 3} {
		expectChange(t, d, change{Op: opMove, ShardID: shardID, NodeID: 1, To: 3}, 0, "being split")
	}
	expectChange(t, d, change{Op: opCut, ShardID: 3}, 1, "")
	expectChange(t, d, change{Op: opFilled, ShardID: 3}, 1, "")
	expectChange(t, d, change{Op: opSplit, ShardID: 3, Key: 200, Version: 1}, 4, "")
	d.Commands = replica.BoundsVersion - 1
	expectChange(t, d, change{Op: opSplit, ShardID: 2, Key: 50, Version: 2}, 0, "earlier version")
	d.Commands = replica.BoundsVersion
	expectChange(t, d, change{Op: opMove, ShardID: 2, NodeID: 1, To: 3}, 3, "")
	expectChange(t, d, change{Op: opSplit, ShardID: 2, Key: 50, Version: 2}, 0, "being moved")
	// A replica whose node has lost its disk could not begin with the others.
	expectChange(t, d, change{Op: opRemove, ShardID: 2, ReplicaID: 1}, 1, "")
	expectChange(t, d, change{Op: opJoin, Node: g.Nodes[1]}, 2, "")
	expectChange(t, d, change{Op: opSplit, ShardID: 2, Key: 50, Version: 2}, 0, "is lost")
}

func TestAMoveIsNotedUntilItsEnd(t *testing.T) {
	g := smallGenesis(1)
	d := g.Directory()
	// It would only take the other replica away.
	expectChange(t, d, change{Op: opMove, ShardID: 2, NodeID: 1, To: 2}, 0, "already")
	move := change{Op: opMove, ShardID: 2, NodeID: 1, To: 3}
	for range 2 {
		expectChange(t, d, move, 3, "")
	}
	if got := d.Shards[2].Move; got != (Move{From: 1, To: 3}) {
		t.Fatalf("%+v", got)
	}
	expectChange(t, d, change{Op: opMove, ShardID: 2, NodeID: 2, To: 3}, 0,
		"from node 1 to node 3")
	expectChange(t, d, change{Op: opMove, ShardID: 2, NodeID: 4, To: 3}, 0, "no replica")
	// The node of the new replica has lost it: the move goes on with another one.
	expectChange(t, d, change{Op: opReplace, ShardID: 2, NodeID: 3, ReplicaID: 3}, 4, "")
	if got := d.Shards[2].Move; got != (Move{From: 1, To: 4}) {
		t.Fatalf("%+v", got)
	}
	expectChange(t, d, change{Op: opRemove, ShardID: 2, ReplicaID: 1}, 1, "")
	if got := d.Shards[2]; got.Move != (Move{}) || len(got.Replicas) != 2 {
		t.Fatalf("%+v", got)
	}
	// The removal of the new replica gives a move up.
	expectChange(t, d, change{Op: opMove, ShardID: 2, NodeID: 2, To: 1}, 5, "")
	expectChange(t, d, change{Op: opRemove, ShardID: 2, ReplicaID: 5}, 1, "")
	if got := d.Shards[2].Move; got != (Move{}) {
		t.Fatalf("%+v", got)
	}
}

// A directory of an earlier program has no map of ranges.
func TestADirectoryWithoutRangesIsRefused(t *testing.T) {
	m := &directoryMachine{}
	if m.RecoverFromSnapshot(strings.NewReader(`{"version":7,"nodes":{},"shards":{}}`), nil, nil) ==
		nil {
		t.Error("it is taken")
	}
	g := smallGenesis(1)
	directory := t.TempDir()
	s, err := initialState(1, g)
	if err != nil {
		t.Fatal(err)
	}
	s.Format = 0
	if err := s.prepare(directory); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(directory); err == nil || !strings.Contains(err.Error(), "has format 1") {
		t.Error(err)
	}
}
