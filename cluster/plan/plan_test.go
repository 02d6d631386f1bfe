package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
)

const (
	nodes, perMachine, shards, replicas = 300, 4, 10_000, 3
	moreNodes                           = 332
)

func spread() (*Layout, *rand.Rand) {
	random := rand.New(rand.NewPCG(1, 2))
	return Spread(nodes, perMachine, shards, replicas, random), random
}

func extremes(counts []int) (least, most int) { return slices.Min(counts), slices.Max(counts) }

func TestReplicasAreSpreadEvenlyOverMachines(t *testing.T) {
	l, random := spread()
	if least, most := extremes(l.Loads()); most-least > 1 {
		t.Errorf("from %d to %d replicas a node", least, most)
	}
	before := make([][]int, shards)
	for i, members := range l.Shards {
		before[i] = slices.Clone(members)
	}
	moves := l.Grow(moreNodes, random)
	if count := l.Together(); count > 0 {
		t.Errorf("%d shards have two replicas on one machine", count)
	}
	if least, most := extremes(l.Loads()); most-least > 1 {
		t.Errorf("from %d to %d replicas a node after growth", least, most)
	}
	moved := 0
	for i, members := range l.Shards {
		for at, node := range members {
			if node != before[i][at] {
				moved++
			}
		}
	}
	if moved == 0 || moved > moves {
		t.Errorf("%d replicas moved, but %d moves were counted", moved, moves)
	}
}

// TestFigures prints the figures of docs/cluster.md.
func TestFigures(t *testing.T) {
	l, random := spread()
	ring := Ring(nodes, perMachine, shards, replicas)
	t.Logf("%d shards of %d replicas on %d nodes, %d a machine", shards, replicas, nodes, perMachine)
	for _, each := range []struct {
		name   string
		layout *Layout
	}{{"ring", ring}, {"spread", l}} {
		least, most := extremes(each.layout.Loads())
		led, leads := extremes(each.layout.BalanceLeaders())
		var partners []int
		for node := range nodes {
			partners = append(partners, each.layout.Partners(node))
		}
		few, many := extremes(partners)
		t.Logf("%s: %d shards with two replicas on one machine; %d to %d replicas a node, %d to %d "+
			"leaders, %d to %d partners; %.1f %% of pairs of nodes have a majority of some shard",
			each.name, each.layout.Together(), least, most, led, leads, few, many,
			100*each.layout.LostMajorities())
	}
	moves := l.Grow(moreNodes, random)
	renumbered := Ring(moreNodes, perMachine, shards, replicas)
	changed := 0
	for shard, members := range ring.Shards {
		for _, node := range renumbered.Shards[shard] {
			if !slices.Contains(members, node) {
				changed++
			}
		}
	}
	t.Logf("growth to %d nodes: %d of %d replicas move; a new ring would move %d", moreNodes, moves,
		shards*replicas, changed)
}
