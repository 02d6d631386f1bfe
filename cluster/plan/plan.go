// Package plan simulates where the replicas of a large cluster could lie. No program uses it yet:
// its test prints the figures of docs/cluster.md.
//
// Thread safety: a Layout belongs to one goroutine. Equal seeds give equal layouts.
package plan

import (
	"math/rand/v2"
	"slices"
)

// Layout has the nodes of each shard. Nodes and shards are numbered from 0 on. Each machine has
// PerMachine neighbouring nodes.
type Layout struct {
	Nodes      int
	PerMachine int
	Shards     [][]int
}

// Ring places like the first directory of a cluster: neighbouring shards begin at neighbouring
// nodes.
func Ring(nodes, perMachine, shards, replicas int) *Layout {
	l := &Layout{Nodes: nodes, PerMachine: perMachine}
	for shard := range shards {
		var members []int
		for i := range replicas {
			members = append(members, (shard+i)%nodes)
		}
		l.Shards = append(l.Shards, members)
	}
	return l
}

// Spread places each replica on the node with the fewest replicas, among machines that the shard
// does not use. Chance decides between equal nodes.
func Spread(nodes, perMachine, shards, replicas int, random *rand.Rand) *Layout {
	l := &Layout{Nodes: nodes, PerMachine: perMachine}
	loads := make([]int, nodes)
	for range shards {
		var members []int
		for range replicas {
			node := l.emptiest(loads, members, random)
			loads[node]++
			members = append(members, node)
		}
		l.Shards = append(l.Shards, members)
	}
	return l
}

// emptiest gives the node with the fewest replicas that shares no machine with the members; -1:
// there is none.
func (l *Layout) emptiest(loads, members []int, random *rand.Rand) int {
	best, ties := -1, 0
	for node := range l.Nodes {
		if l.sharesMachine(node, members) {
			continue
		}
		switch {
		case best < 0 || loads[node] < loads[best]:
			best, ties = node, 1
		case loads[node] == loads[best]:
			if ties++; random.IntN(ties) == 0 {
				best = node
			}
		}
	}
	return best
}

func (l *Layout) sharesMachine(node int, members []int) bool {
	return slices.ContainsFunc(members, func(member int) bool {
		return member/l.PerMachine == node/l.PerMachine
	})
}

// Together counts the shards with two replicas on one machine.
func (l *Layout) Together() int {
	count := 0
	for _, members := range l.Shards {
		for i, node := range members {
			if l.sharesMachine(node, members[:i]) {
				count++
				break
			}
		}
	}
	return count
}

// Loads counts the replicas of each node.
func (l *Layout) Loads() []int {
	loads := make([]int, l.Nodes)
	for _, members := range l.Shards {
		for _, node := range members {
			loads[node]++
		}
	}
	return loads
}

// Grow adds nodes and moves replicas from the fullest nodes to the emptiest until no two nodes
// differ by more than one. It gives the count of moves.
func (l *Layout) Grow(nodes int, random *rand.Rand) int {
	l.Nodes = nodes
	loads := l.Loads()
	moves := 0
	for {
		fullest := 0
		for node, load := range loads {
			if load > loads[fullest] {
				fullest = node
			}
		}
		if !l.moveFrom(fullest, loads, random) {
			return moves
		}
		moves++
	}
}

// moveFrom moves one replica off a node, if another node has at least two fewer.
func (l *Layout) moveFrom(from int, loads []int, random *rand.Rand) bool {
	begin := random.IntN(len(l.Shards))
	for i := range l.Shards {
		members := l.Shards[(begin+i)%len(l.Shards)]
		at := slices.Index(members, from)
		if at < 0 {
			continue
		}
		others := slices.Delete(slices.Clone(members), at, at+1)
		to := l.emptiest(loads, others, random)
		if to >= 0 && loads[to]+1 < loads[from] {
			members[at] = to
			loads[from]--
			loads[to]++
			return true
		}
	}
	return false
}

// Partners counts the other nodes that have a shard in common with a node. They rebuild the
// replicas of the node when it is lost.
func (l *Layout) Partners(node int) int {
	partners := map[int]bool{}
	for _, members := range l.Shards {
		if slices.Contains(members, node) {
			for _, other := range members {
				partners[other] = true
			}
		}
	}
	delete(partners, node)
	return len(partners)
}

// LostMajorities gives the share of pairs of nodes whose loss takes the majority of some shard of
// three replicas.
func (l *Layout) LostMajorities() float64 {
	pairs := map[[2]int]bool{}
	for _, members := range l.Shards {
		sorted := slices.Sorted(slices.Values(members))
		for i, a := range sorted {
			for _, b := range sorted[i+1:] {
				pairs[[2]int{a, b}] = true
			}
		}
	}
	return float64(len(pairs)) / float64(l.Nodes*(l.Nodes-1)/2)
}

// BalanceLeaders gives each shard a leader: the member that leads fewest. It gives the count of
// shards that each node leads.
func (l *Layout) BalanceLeaders() []int {
	leads := make([]int, l.Nodes)
	for _, members := range l.Shards {
		leader := slices.MinFunc(members, func(a, b int) int { return leads[a] - leads[b] })
		leads[leader]++
	}
	return leads
}
