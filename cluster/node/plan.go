package node

import (
	"cmp"
	"fmt"
	"slices"
)

// survey is what one look at the cluster has shown. The controller decides by it alone, so tests
// need neither nodes nor a clock.
type survey struct {
	nodes  []surveyedNode  // ascending by ID
	shards []surveyedShard // ascending by ID, with the directory
}

type surveyedNode struct {
	id        uint64
	host      string // of its Raft address: nodes of one host fail together
	answers   bool
	leaving   bool
	freeBytes uint64 // on its disk
}

type surveyedShard struct {
	id       uint64
	busy     string // why its replicas may not be moved now, or ""
	bytes    uint64 // that a replica takes on its disk
	replicas []surveyedReplica
}

type surveyedReplica struct {
	node                uint64
	ready, leads, isFit bool
	differs             bool // a comparison found other records than most replicas have
}

// step is what the controller does next. The zero value: nothing.
type step struct {
	shard, from, to uint64 // nodes
	isLeader        bool   // the shard's leader moves, and no replica
}

// leastRoom is what a disk must have beside two copies of a replica. It is for the log, and for the
// room below which a node counts as full.
const leastRoom = 3 * lowBytes

// settledLooks is how many looks in a row must show the need of one step before it is taken. A node
// that restarts, or a replica that is behind, is mostly back by then.
const settledLooks = 3

// balancer decides when to take a step.
type balancer struct {
	wanted step
	looks  int
	waits  string // why the last look moved nothing, if the cluster was not well
}

// next gives the step that is due, or the zero value.
func (b *balancer) next(wanted step) step {
	if wanted != b.wanted {
		b.wanted, b.looks = wanted, 0
	}
	b.looks++
	if wanted == (step{}) || b.looks < settledLooks {
		return step{}
	}
	b.wanted, b.looks = step{}, 0
	return wanted
}

func (v *survey) node(id uint64) *surveyedNode {
	at, found := slices.BinarySearchFunc(v.nodes, id,
		func(n surveyedNode, id uint64) int { return cmp.Compare(n.id, id) })
	if !found {
		return &surveyedNode{id: id}
	}
	return &v.nodes[at]
}

func (s *surveyedShard) on(nodeID uint64) *surveyedReplica {
	for i := range s.replicas {
		if s.replicas[i].node == nodeID {
			return &s.replicas[i]
		}
	}
	return nil
}

// unsettled says why nothing may be moved now, or "". A node that leaves may be down for good.
func (v *survey) unsettled() string {
	for _, s := range v.shards {
		if s.busy != "" {
			return fmt.Sprintf("shard %d: %s", s.id, s.busy)
		}
		leads := false
		for _, r := range s.replicas {
			leads = leads || r.leads
			if n := v.node(r.node); n.leaving && !n.answers {
				continue
			}
			if !r.ready || r.differs {
				return fmt.Sprintf("the replica of shard %d on node %d is not ready", s.id, r.node)
			}
		}
		if !leads {
			return fmt.Sprintf("shard %d has no leader", s.id)
		}
	}
	return ""
}

// plan gives the next step, or the zero value. Replicas come before leaders. Each step makes the
// sum of the squares of the nodes' counts smaller, or takes a replica off a node that leaves for
// good. So the steps come to an end, and none is taken back.
func (v *survey) plan(replicas, leaders bool) step {
	if v.unsettled() != "" {
		return step{}
	}
	if next := v.planReplica(replicas); next != (step{}) {
		return next
	}
	if leaders {
		return v.planLeader()
	}
	return step{}
}

// planReplica moves a replica off a node that leaves, or from a node with at least two replicas
// more than another one. Of the nodes that can take it, that with the fewest replicas does, and of
// these that with most room on its disk. The directory's replicas stay, unless their node leaves.
// Without `spreads` all replicas of other nodes stay.
func (v *survey) planReplica(spreads bool) step {
	counts := map[uint64]int{}
	for _, s := range v.shards {
		for _, r := range s.replicas {
			if s.id != directoryShard {
				counts[r.node]++
			}
		}
	}
	var sources, targets []surveyedNode
	for _, n := range v.nodes {
		sources = append(sources, n)
		if n.answers && !n.leaving {
			targets = append(targets, n)
		}
	}
	slices.SortStableFunc(sources, func(a, b surveyedNode) int {
		return cmp.Or(cmp.Compare(btoi(b.leaving), btoi(a.leaving)),
			cmp.Compare(counts[b.id], counts[a.id]))
	})
	slices.SortStableFunc(targets, func(a, b surveyedNode) int {
		return cmp.Or(cmp.Compare(counts[a.id], counts[b.id]),
			cmp.Compare(b.freeBytes, a.freeBytes))
	})
	for _, from := range sources {
		for _, to := range targets {
			if !from.leaving && (!spreads || counts[from.id]-counts[to.id] < 2) {
				continue
			}
			if s := v.shardToMove(from, to); s != 0 {
				return step{shard: s, from: from.id, to: to.id}
			}
		}
	}
	return step{}
}

// shardToMove gives a shard whose replica can go from one node to the other, or 0. It prefers one
// that the node does not lead.
func (v *survey) shardToMove(from, to surveyedNode) uint64 {
	led := uint64(0)
	for i := range v.shards {
		s := &v.shards[i]
		r := s.on(from.id)
		if r == nil || s.on(to.id) != nil || s.id == directoryShard && !from.leaving ||
			to.freeBytes < 2*s.bytes+leastRoom || v.hosts(s, 0, 0) > v.hosts(s, from.id, to.id) {
			continue
		}
		if !r.leads {
			return s.id
		}
		if led == 0 {
			led = s.id
		}
	}
	return led
}

// hosts counts the hosts of a shard's replicas, after one has gone from a node to another.
func (v *survey) hosts(s *surveyedShard, from, to uint64) int {
	hosts := map[string]bool{}
	for _, r := range s.replicas {
		id := r.node
		if id == from {
			id = to
		}
		hosts[v.node(id).host] = true
	}
	return len(hosts)
}

// planLeader moves a leader from a node that leads at least two shards more than another one with a
// replica.
func (v *survey) planLeader() step {
	leads := map[uint64]int{}
	for _, s := range v.shards {
		for _, r := range s.replicas {
			if r.leads {
				leads[r.node]++
			}
		}
	}
	best, most := step{}, 1
	for _, s := range v.shards {
		for _, from := range s.replicas {
			for _, to := range s.replicas {
				difference := leads[from.node] - leads[to.node]
				if v.node(to.node).leaving {
					continue
				}
				if from.leads && to.ready && to.isFit && difference > most {
					best, most = step{s.id, from.node, to.node, true}, difference
				}
			}
		}
	}
	return best
}
