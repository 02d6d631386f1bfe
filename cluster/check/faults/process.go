package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"engine_race/cluster/check/clock"
	"engine_race/cluster/check/process"
)

// clockOffset is how far the clocks of a node go ahead in the fault "clock-offset".
const clockOffset = 100_000 * time.Second

func processFaults() []Fault {
	kill, pause := (*process.Cluster).Kill, (*process.Cluster).Pause
	cutPower, fillDisk := (*process.Cluster).CutPower, (*process.Cluster).FillDisk
	leader, follower := (*Env).leader, (*Env).follower
	anyNode := func(e *Env, _ context.Context) (int, error) { return e.anyNode(), nil }
	return []Fault{
		{Name: "none", Help: "nothing happens", inject: func(ctx context.Context, e *Env) error {
			return e.hold(ctx)
		}},
		{Name: "kill-leader", Help: "SIGKILL for a leader", inject: toOne("kill", leader, kill)},
		{Name: "kill-follower", Help: "SIGKILL for a follower",
			inject: toOne("kill", follower, kill)},
		{Name: "kill-all", Help: "SIGKILL for all nodes at once", inject: toAll(kill)},
		{Name: "power-one", Help: "a node loses its power, and what it did not sync",
			NeedsDisks: true, inject: toOne("cut the power", anyNode, cutPower)},
		{Name: "power-all", Help: "all nodes lose their power at once, and what they did not sync",
			NeedsDisks: true, inject: toAll(cutPower)},
		{Name: "pause-leader", Help: "SIGSTOP for a leader", inject: toOne("pause", leader, pause)},
		{Name: "pause-follower", Help: "SIGSTOP for a follower",
			inject: toOne("pause", follower, pause)},
		{Name: "full-disk", Help: "a node's disk has no room", NeedsDisks: true, MayCrash: true,
			inject: toOne("fill the disk", anyNode, fillDisk)},
		{Name: "silent-connections", Help: "a node restarts while a hundred connections to each " +
			"raft address say nothing", inject: silent},
		{Name: "clock-offset", Help: "a node restarts with its monotonic clock a day ahead",
			NeedsRoot: true, inject: offsetClock},
		{Name: "clock-jump", Help: "the wall clock of each node jumps, and jumps back",
			NeedsRoot: true, inject: jumpClocks},
	}
}

// toOne hurts the chosen node, and holds.
func toOne(action string, choose func(*Env, context.Context) (int, error),
	hurt func(*process.Cluster, int) error) func(context.Context, *Env) error {
	return func(ctx context.Context, e *Env) error {
		node, err := choose(e, ctx)
		if err != nil {
			return err
		}
		e.Log.Info(action, "node", node)
		if err := hurt(e.Cluster, node); err != nil {
			return err
		}
		return e.hold(ctx)
	}
}

// toAll hurts all nodes at once. Nothing can happen while all nodes are down, so it does not hold.
func toAll(hurt func(*process.Cluster, int) error) func(context.Context, *Env) error {
	return func(_ context.Context, e *Env) error {
		failures := make(chan error)
		for id := 1; id <= e.Cluster.Nodes(); id++ {
			go func() { failures <- hurt(e.Cluster, id) }()
		}
		var all []error
		for range e.Cluster.Nodes() {
			all = append(all, <-failures)
		}
		return errors.Join(all...)
	}
}

// jumpClocks lets the wall clocks of all nodes differ by hours while the nodes run.
func jumpClocks(ctx context.Context, e *Env) error {
	for id := 1; id <= e.Cluster.Nodes(); id++ {
		offset := time.Duration(e.Random.IntN(200)-100) * time.Hour
		e.Log.Info("clock jump", "node", id, "offset", offset)
		if err := e.shiftWall(ctx, id, offset); err != nil {
			return err
		}
	}
	if err := e.hold(ctx); err != nil {
		return err
	}
	for id := 1; id <= e.Cluster.Nodes(); id++ {
		if err := e.shiftWall(ctx, id, 0); err != nil {
			return err
		}
	}
	return nil
}

// shiftWall stops the node for a moment, while none of its threads reads the clock.
func (e *Env) shiftWall(ctx context.Context, node int, offset time.Duration) error {
	return e.insist(ctx, func(context.Context) error {
		if err := e.Cluster.Pause(node); err != nil {
			return err
		}
		err := clock.ShiftWall(e.Cluster.PID(node), offset)
		return errors.Join(err, e.Cluster.Resume(node))
	})
}

// offsetClock restarts a node in a time namespace. The wall clock has none: a namespace shifts the
// monotonic and the boot clock alone.
func offsetClock(ctx context.Context, e *Env) error {
	node, err := e.leader(ctx)
	if err != nil {
		return err
	}
	e.Log.Info("clocks ahead", "node", node, "offset", clockOffset)
	if err := e.Cluster.Kill(node); err != nil {
		return err
	}
	e.Cluster.SetClockOffset(node, clockOffset)
	err = e.Cluster.Start(node)
	if err == nil {
		err = e.Cluster.WaitReady(ctx, node)
	}
	if err == nil {
		err = e.hold(ctx)
	}
	e.Cluster.SetClockOffset(node, 0)
	if killed := e.Cluster.Kill(node); killed != nil {
		return errors.Join(err, fmt.Errorf("node %d keeps its clock offset: %w", node, killed))
	}
	return err
}
