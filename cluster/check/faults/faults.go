// Package faults hurts a cluster and heals it again. Each Fault holds for a bounded time, and its
// Run returns when all nodes are ready again. Only one Fault may run at a time in a cluster.
package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"engine_race/cluster/check/netns"
	"engine_race/cluster/check/process"
)

// Env is what faults work on.
type Env struct {
	Cluster *process.Cluster
	Net     *netns.Net // nil: there is none
	Random  *rand.Rand
	Hold    time.Duration // how long a fault lasts
	// HealIn bounds the time until the cluster is whole again.
	HealIn time.Duration
	// Load writes to all shards until the context ends, and gives the number of acknowledged
	// writes.
	Load func(ctx context.Context) int
	// Keys are first keys of groups that clients write. A split between two groups keeps each whole.
	Keys []uint64
	Log  *slog.Logger
}

// Fault is one way to hurt a cluster.
type Fault struct {
	Name       string
	Help       string
	NeedsNet   bool // network namespaces
	NeedsDisks bool // a file system for each node
	NeedsRoot  bool // for the fault itself
	// NoFailures: clients that follow /readyz must see no failed request.
	NoFailures bool
	// Curable: clients that do not know /readyz must see no refusal that lasts for a second.
	Curable bool
	// MayCrash: a node may end by itself, if it comes back when the fault is over.
	MayCrash bool

	inject func(ctx context.Context, env *Env) error
}

// All lists the faults.
func All() []Fault {
	return slices.Concat(processFaults(), networkFaults(), operatorFaults(), growthFaults(),
		damageFaults())
}

// Select gives the faults with these names, which have commas between them. "all" stands for those
// that the environment permits, and a name behind "-" takes a fault out again.
func Select(names string, hasNet, hasDisks, isRoot bool) ([]Fault, error) {
	permitted := func(f Fault) bool {
		return (hasNet || !f.NeedsNet) && (hasDisks || !f.NeedsDisks) && (isRoot || !f.NeedsRoot)
	}
	var selected []Fault
	known := map[string]Fault{}
	for _, fault := range All() {
		known[fault.Name] = fault
	}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if name == "all" {
			for _, fault := range All() {
				if permitted(fault) {
					selected = append(selected, fault)
				}
			}
			continue
		}
		name, without := strings.CutPrefix(name, "-")
		fault, ok := known[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("there is no fault %q", name)
		case without:
			selected = slices.DeleteFunc(selected, func(f Fault) bool { return f.Name == name })
			continue
		case !permitted(fault):
			return nil, fmt.Errorf("the fault %q needs root, and namespaces or disks that this run "+
				"does not have", name)
		}
		selected = append(selected, fault)
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("%q leaves no fault", names)
	}
	return selected, nil
}

// Run injects the fault, holds it, heals the cluster, and waits until all nodes are ready. It heals
// after a failure too.
func (f Fault) Run(ctx context.Context, env *Env) error {
	err := f.inject(ctx, env)
	if err != nil {
		err = fmt.Errorf("%s: %w", f.Name, err)
	}
	if ctx.Err() != nil { // the run is being ended: nobody needs the cluster any more
		return errors.Join(err, ctx.Err())
	}
	if healed := env.Heal(ctx); healed != nil {
		err = errors.Join(err, fmt.Errorf("%s: heal: %w", f.Name, healed))
	}
	return err
}

// Heal undoes whatever a fault has left, and waits until all nodes are ready.
func (e *Env) Heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.HealIn)
	defer cancel()
	var failures []error
	if e.Net != nil {
		failures = append(failures, e.Net.Heal())
	}
	for id := 1; id <= e.Cluster.Nodes(); id++ {
		failures = append(failures, e.Cluster.Resume(id))
		if e.Cluster.HasDisks() {
			failures = append(failures, e.Cluster.FreeDisk(id))
		}
	}
	return errors.Join(append(failures, e.Cluster.StartAll(ctx))...)
}

// hold waits for the duration of the fault.
func (e *Env) hold(ctx context.Context) error { return wait(ctx, e.Hold) }

func wait(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leader gives the leader of a random shard.
func (e *Env) leader(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, e.HealIn)
	defer cancel()
	shard, err := e.shard(ctx)
	if err != nil {
		return 0, err
	}
	return e.Cluster.Leader(ctx, shard)
}

// shard gives a random shard.
func (e *Env) shard(ctx context.Context) (uint64, error) {
	var ids []uint64
	via := e.anyNode()
	err := e.insist(ctx, func(ctx context.Context) (err error) {
		ids, err = e.Cluster.ShardIDs(ctx, via)
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(ids) == 0 {
		return 0, errors.New("/status names no shard")
	}
	return ids[e.Random.IntN(len(ids))], nil
}

// follower gives a random node that is not the leader of a random shard.
func (e *Env) follower(ctx context.Context) (int, error) {
	leader, err := e.leader(ctx)
	if err != nil {
		return 0, err
	}
	return e.other(leader), nil
}

func (e *Env) anyNode() int { return 1 + e.Random.IntN(e.Cluster.Nodes()) }

// other gives a random node that is not this one, unless there is only one.
func (e *Env) other(node int) int {
	nodes := e.Cluster.Nodes()
	if nodes == 1 {
		return node
	}
	return 1 + (node+e.Random.IntN(nodes-1))%nodes
}
