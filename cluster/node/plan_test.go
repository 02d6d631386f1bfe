package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// simulated is a survey that steps change. No node and no clock is behind it.
type simulated struct {
	survey
	t *testing.T
}

// simulate places the replicas of `shards` shards, three each, by chance on the nodes.
func simulate(t *testing.T, random *rand.Rand, nodes, shards int) *simulated {
	s := &simulated{t: t}
	for id := 1; id <= nodes; id++ {
		s.nodes = append(s.nodes, surveyedNode{id: uint64(id), host: fmt.Sprint("host", id),
			answers: true, freeBytes: 1 << 50})
	}
	for id := 1; id <= shards; id++ {
		shard := surveyedShard{id: uint64(id), bytes: 1 << 20}
		for i, node := range random.Perm(nodes)[:min(3, nodes)] {
			shard.replicas = append(shard.replicas, surveyedReplica{node: uint64(node + 1),
				ready: true, isFit: true, leads: i == 0})
		}
		s.shards = append(s.shards, shard)
	}
	return s
}

// take makes a step.
func (s *simulated) take(next step) {
	s.t.Helper()
	shard := &s.shards[next.shard-1]
	from, to := shard.on(next.from), shard.on(next.to)
	switch {
	case next.isLeader && from != nil && to != nil && from.leads:
		from.leads, to.leads = false, true
	case !next.isLeader && from != nil && to == nil:
		from.node = next.to
		if from.leads { // Another replica leads before it goes.
			from.leads = false
			for i := range shard.replicas {
				if &shard.replicas[i] != from {
					shard.replicas[i].leads = true
					break
				}
			}
		}
	default:
		s.t.Fatalf("a step that nobody can take: %+v of %+v", next, *shard)
	}
}

// counts gives how many replicas of records a node has, or how many shards it leads.
func (s *simulated) counts(leaders bool) []int {
	counts := make([]int, len(s.nodes))
	for _, shard := range s.shards {
		for _, r := range shard.replicas {
			if leaders && r.leads || !leaders && shard.id != directoryShard {
				counts[r.node-1]++
			}
		}
	}
	return counts
}

// settle takes steps until there are no more, and gives their number.
func (s *simulated) settle(check func(next step)) int {
	s.t.Helper()
	for taken := 0; ; taken++ {
		next := s.plan(true, true)
		if next == (step{}) {
			return taken
		}
		if taken > 10000 {
			s.t.Fatalf("the steps come to no end: %+v", next)
		}
		check(next)
		s.take(next)
	}
}

func squares(counts []int) int {
	sum := 0
	for _, count := range counts {
		sum += count * count
	}
	return sum
}

// excess is how many replicas nodes have beyond the mean: at least so many must move.
func excess(counts []int) int {
	sum, most := 0, 0
	for _, count := range counts {
		sum += count
	}
	for _, count := range counts {
		most += max(0, count-(sum+len(counts)-1)/len(counts))
	}
	return most
}

func TestStepsSpreadReplicasAndLeadersAndComeToAnEnd(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := simulate(t, random, 1+random.IntN(9), 2+random.IntN(40))
		needed, replicaSteps := excess(s.counts(false)), 0
		s.settle(func(next step) {
			// What falls with each step cannot go back and forth.
			counts := s.counts(next.isLeader)
			before := squares(counts)
			counts[next.from-1]--
			counts[next.to-1]++
			if squares(counts) >= before {
				t.Fatalf("seed %d: %+v makes nothing better: %v", seed, next, counts)
			}
			if !next.isLeader {
				replicaSteps++
			}
		})
		counts := s.counts(false)
		if slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("seed %d: replicas %v", seed, counts)
		}
		// One more for each node: they end at the mean or one below it.
		if replicaSteps > needed+len(s.nodes) {
			t.Errorf("seed %d: %d steps, where %d replicas are too many", seed, replicaSteps, needed)
		}
		for _, shard := range s.shards {
			for i, r := range shard.replicas {
				if shard.on(r.node) != &shard.replicas[i] {
					t.Fatalf("seed %d: two replicas of shard %d on node %d", seed, shard.id, r.node)
				}
			}
		}
	}
}

// A fourth node gets its share in as many steps as that share has replicas.
func TestANodeThatJoinsGetsItsShare(t *testing.T) {
	s := simulate(t, rand.New(rand.NewPCG(1, 1)), 3, 9)
	s.settle(func(step) {})
	s.nodes = append(s.nodes, surveyedNode{id: 4, host: "host4", answers: true, freeBytes: 1 << 50})
	replicas := 0
	s.settle(func(next step) {
		if !next.isLeader {
			replicas++
			if next.to != 4 {
				t.Errorf("%+v goes elsewhere", next)
			}
		}
	})
	if counts := s.counts(false); replicas != 6 || !slices.Equal(counts, []int{6, 6, 6, 6}) {
		t.Errorf("%d steps, %v", replicas, counts)
	}
	if leads := s.counts(true); slices.Max(leads)-slices.Min(leads) > 1 {
		t.Errorf("leaders %v", leads)
	}
}

func TestNothingMovesWhileTheClusterIsNotWell(t *testing.T) {
	for name, hurt := range map[string]func(s *simulated){
		"a node is down": func(s *simulated) {
			s.nodes[0].answers = false
			for i := range s.shards {
				if r := s.shards[i].on(1); r != nil {
					*r = surveyedReplica{node: 1}
				}
			}
		},
		"a replica is behind":   func(s *simulated) { s.shards[3].replicas[1].ready = false },
		"a replica differs":     func(s *simulated) { s.shards[3].replicas[1].differs = true },
		"a replica moves":       func(s *simulated) { s.shards[3].busy = "a replica is being moved" },
		"a shard has no leader": func(s *simulated) { s.shards[3].replicas[0].leads = false },
	} {
		s := simulate(t, rand.New(rand.NewPCG(1, 1)), 3, 9)
		s.nodes = append(s.nodes, surveyedNode{id: 4, answers: true, freeBytes: 1 << 50})
		if s.plan(true, true) == (step{}) {
			t.Fatal("nothing is to be done")
		}
		if hurt(s); s.plan(true, true) != (step{}) {
			t.Errorf("%s: %+v", name, s.plan(true, true))
		}
		if s.unsettled() == "" {
			t.Errorf("%s: no reason", name)
		}
	}
}

func TestReplicasGoWhereThereIsRoom(t *testing.T) {
	s := simulate(t, rand.New(rand.NewPCG(1, 1)), 3, 9)
	s.settle(func(step) {})
	for i := range s.shards {
		s.shards[i].bytes = 1 << 30
	}
	s.nodes = append(s.nodes,
		surveyedNode{id: 4, host: "host4", answers: true, freeBytes: 2<<30 + leastRoom - 1},
		surveyedNode{id: 5, host: "host5", answers: true, freeBytes: 2<<30 + leastRoom},
		surveyedNode{id: 6, host: "host6", answers: true, freeBytes: 1 << 40})
	if next := s.plan(true, true); next.to != 6 {
		t.Errorf("%+v, and node 6 has most room", next)
	}
	s.nodes[5].freeBytes = 0
	if next := s.plan(true, true); next.to != 5 {
		t.Errorf("%+v, and node 5 alone has room", next)
	}
	s.nodes[4].freeBytes = 0
	if next := s.plan(true, false); next != (step{}) {
		t.Errorf("%+v, and no node has room", next)
	}
}

// Two nodes on one machine fail together.
func TestReplicasStayOnDifferentHosts(t *testing.T) {
	s := simulate(t, rand.New(rand.NewPCG(1, 1)), 3, 9)
	s.settle(func(step) {})
	s.nodes = append(s.nodes, surveyedNode{id: 4, host: "host1", answers: true, freeBytes: 1 << 50})
	s.settle(func(next step) {
		if !next.isLeader && next.to == 4 && next.from != 1 {
			t.Errorf("%+v puts two replicas on host1", next)
		}
	})
	counts := s.counts(false)
	if counts[3] == 0 || counts[0]-counts[3] > 1 {
		t.Errorf("node 4 takes nothing from its neighbour: %v", counts)
	}
}

func TestANodeThatLeavesIsEmptied(t *testing.T) {
	for _, answers := range []bool{true, false} {
		s := simulate(t, rand.New(rand.NewPCG(1, 1)), 5, 9)
		s.settle(func(step) {})
		s.nodes[1].leaving, s.nodes[1].answers = true, answers
		for i := range s.shards {
			if r := s.shards[i].on(2); r != nil && !answers {
				if r.leads { // The others have elected one of them.
					next := (slices.IndexFunc(s.shards[i].replicas,
						func(r surveyedReplica) bool { return r.node == 2 }) + 1) % 3
					s.shards[i].replicas[next].leads = true
				}
				*r = surveyedReplica{node: 2}
			}
		}
		s.settle(func(next step) {
			if next.to == 2 {
				t.Errorf("%+v goes to the node that leaves", next)
			}
			if !next.isLeader && !answers { // The new replica is ready, unlike the former one.
				shard := &s.shards[next.shard-1]
				*shard.on(next.from) = surveyedReplica{node: next.from, ready: true, isFit: true}
			}
		})
		for _, shard := range s.shards {
			if shard.on(2) != nil {
				t.Errorf("shard %d is still there", shard.id)
			}
		}
	}
}

// The directory stays where it is.
func TestTheDirectoryStays(t *testing.T) {
	s := simulate(t, rand.New(rand.NewPCG(1, 1)), 3, 1)
	s.nodes = append(s.nodes, surveyedNode{id: 4, host: "host4", answers: true, freeBytes: 1 << 50})
	if next := s.plan(true, false); next != (step{}) {
		t.Errorf("%+v", next)
	}
}

// A need that comes and goes, such as while a node restarts, moves nothing.
func TestAStepIsTakenWhenLooksInARowWantIt(t *testing.T) {
	a, b := step{shard: 2, from: 1, to: 2}, step{shard: 3, from: 1, to: 2}
	none := step{}
	for _, looks := range []struct{ wanted, due []step }{
		{[]step{a, a, a, a}, []step{none, none, a, none}},
		{[]step{a, a, none, a, a}, []step{none, none, none, none, none}},
		{[]step{a, b, a, b, b, b}, []step{none, none, none, none, none, b}},
		{[]step{none, none, none, none}, []step{none, none, none, none}},
	} {
		var balancer balancer
		for i, wanted := range looks.wanted {
			if due := balancer.next(wanted); due != looks.due[i] {
				t.Errorf("look %d of %v: %+v is due, not %+v", i, looks.wanted, due, looks.due[i])
			}
		}
	}
}

func TestEachPartCanBeTurnedOff(t *testing.T) {
	s := simulate(t, rand.New(rand.NewPCG(1, 1)), 3, 9)
	s.settle(func(step) {})
	s.nodes = append(s.nodes, surveyedNode{id: 4, host: "host4", answers: true, freeBytes: 1 << 50})
	if next := s.plan(false, true); next != (step{}) {
		t.Errorf("replicas are off: %+v", next)
	}
	s.nodes[2].leaving = true
	if next := s.plan(false, false); next.from != 3 || next.isLeader {
		t.Errorf("a node that leaves keeps its replicas: %+v", next)
	}
	s.nodes[2].leaving = false
	for i := range s.shards {
		for k := range s.shards[i].replicas {
			r := &s.shards[i].replicas[k]
			r.leads = r.node == 1
		}
	}
	if next := s.plan(false, true); !next.isLeader {
		t.Errorf("no leader moves: %+v", next)
	}
	if next := s.plan(false, false); next != (step{}) {
		t.Errorf("both are off: %+v", next)
	}
	if strings.Contains(s.unsettled(), "node") {
		t.Error(s.unsettled())
	}
}
