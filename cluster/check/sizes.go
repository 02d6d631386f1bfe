package check

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"engine_race/cluster/check/faults"
	"engine_race/cluster/check/netns"
	"engine_race/cluster/check/process"
	"engine_race/cluster/check/value"
)

// turns gives the order of the faults: every fault comes about equally often.
type turns struct {
	random *rand.Rand
	order  []int
}

// next gives the number of a fault.
func (t *turns) next(faults int) int {
	if len(t.order) == 0 {
		t.order = t.random.Perm(faults)
	}
	number := t.order[0]
	t.order = t.order[1:]
	return number
}

// runSizes makes the histories on a cluster for each size of values. The clusters run side by side:
// most of the time a fault holds, or nodes start. Failovers are measured on the first cluster, when
// the others have ended.
func runSizes(ctx context.Context, options Options, setup process.Options,
	selected []faults.Fault, report *Report) error {
	sizes := options.Sizes
	if len(sizes) == 0 {
		sizes = []value.Size{0}
	}
	order := &turns{random: rand.New(rand.NewPCG(options.Seed, 0))}
	var checkers []*checker
	first := 0
	for i, size := range sizes {
		part := options
		part.Histories = shareOf(options.Histories, i, len(sizes))
		if i > 0 {
			part.Failovers, part.BlackHoles = 0, 0
			if part.Histories == 0 {
				break
			}
		}
		part.Dir = filepath.Join(options.Dir, fmt.Sprintf("values-%d", size.Bytes()))
		c := &checker{options: part, valueSize: size, first: first, report: newReport(),
			random: rand.New(rand.NewPCG(options.Seed, uint64(i)+1)), ended: make(chan struct{})}
		for range part.Histories {
			c.faults = append(c.faults, selected[order.next(len(selected))])
		}
		checkers = append(checkers, c)
		first += part.Histories
	}
	checkers[0].others = checkers[1:]
	failures := make([]error, len(checkers))
	for i, c := range checkers {
		go func() {
			defer close(c.ended)
			failures[i] = c.runCluster(ctx, setup)
		}()
	}
	for _, c := range checkers {
		<-c.ended
		report.add(c.report)
	}
	report.finish()
	return cmp.Or(failures...)
}

// shareOf gives part number `index` of a count that is shared out. The first parts have the rest.
func shareOf(count, index, parts int) int {
	return (count + parts - 1 - index) / parts
}

// runCluster makes all histories and failovers of one cluster.
func (c *checker) runCluster(ctx context.Context, setup process.Options) error {
	log := c.options.Log
	setup.Dir, setup.ValueSize = c.options.Dir, c.valueSize
	c.env = &faults.Env{Random: c.random, Hold: c.options.Hold, HealIn: c.options.ReadyIn,
		Log: log}
	if c.options.Namespaces {
		network, err := netns.New(c.options.Nodes)
		if err != nil {
			return err
		}
		defer func() { logError(log, "remove the network", network.Close()) }()
		c.env.Net, setup.Network = network, network
	}
	cluster, err := process.New(ctx, setup)
	if err != nil {
		return err
	}
	defer func() { logError(log, "end the cluster", cluster.Close()) }()
	if err := cluster.StartAll(ctx); err != nil {
		return err
	}
	c.cluster, c.env.Cluster, c.env.Load = cluster, cluster, c.load
	c.ready = newReadiness(cluster)
	return c.run(ctx)
}
