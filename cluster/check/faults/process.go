package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"engine_race/cluster/check/clock"
)

// choice picks the node that a fault hurts.
type choice func(*Env, context.Context) (int, error)

func leader(e *Env, ctx context.Context) (int, error)   { return e.leader(ctx) }
func follower(e *Env, ctx context.Context) (int, error) { return e.follower(ctx) }

// clockOffset is how far the clocks of a node go ahead in the fault "clock-offset".
const clockOffset = 100_000 * time.Second

func processFaults() []Fault {
	return []Fault{
		{Name: "none", Help: "nothing happens", inject: func(ctx context.Context, e *Env) error {
			return e.hold(ctx)
		}},
		{Name: "kill-leader", Help: "SIGKILL for a leader", inject: kill(leader)},
		{Name: "kill-follower", Help: "SIGKILL for a follower", inject: kill(follower)},
		{Name: "kill-all", Help: "SIGKILL for all nodes at once", inject: killAll},
		{Name: "power-one", Help: "a node loses its power, and what it did not sync",
			NeedsDisks: true, NeedsRoot: true, inject: cutPowerOfOne},
		{Name: "power-all", Help: "all nodes lose their power at once, and what they did not sync",
			NeedsDisks: true, NeedsRoot: true, inject: cutPowerOfAll},
		{Name: "pause-leader", Help: "SIGSTOP for a leader", inject: pause(leader)},
		{Name: "pause-follower", Help: "SIGSTOP for a follower", inject: pause(follower)},
		{Name: "full-disk", Help: "a node's disk has no room", NeedsDisks: true, NeedsRoot: true,
			MayCrash: true, inject: fullDisk},
		{Name: "clock-offset", Help: "a node restarts with its monotonic clock a day ahead",
			NeedsRoot: true, inject: offsetClock},
		{Name: "clock-jump", Help: "the wall clock of each node jumps, and jumps back",
			NeedsRoot: true, inject: jumpClocks},
	}
}

func kill(choose choice) func(context.Context, *Env) error {
	return func(ctx context.Context, e *Env) error {
		node, err := choose(e, ctx)
		if err != nil {
			return err
		}
		e.Log.Info("kill", "node", node)
		if err := e.Cluster.Kill(node); err != nil {
			return err
		}
		return e.hold(ctx)
	}
}

func killAll(_ context.Context, e *Env) error { return toAll(e, e.Cluster.Kill) }

func cutPowerOfOne(ctx context.Context, e *Env) error {
	node := e.anyNode()
	e.Log.Info("cut the power", "node", node)
	if err := e.Cluster.CutPower(node); err != nil {
		return err
	}
	return e.hold(ctx)
}

func cutPowerOfAll(_ context.Context, e *Env) error { return toAll(e, e.Cluster.CutPower) }

// toAll ends all nodes at once.
func toAll(e *Env, end func(id int) error) error {
	failures := make(chan error)
	for id := 1; id <= e.Cluster.Nodes(); id++ {
		go func() { failures <- end(id) }()
	}
	var all []error
	for range e.Cluster.Nodes() {
		all = append(all, <-failures)
	}
	// Nothing can happen while all nodes are down, so the fault does not hold.
	return errors.Join(all...)
}

func pause(choose choice) func(context.Context, *Env) error {
	return func(ctx context.Context, e *Env) error {
		node, err := choose(e, ctx)
		if err != nil {
			return err
		}
		e.Log.Info("pause", "node", node)
		if err := e.Cluster.Pause(node); err != nil {
			return err
		}
		return e.hold(ctx)
	}
}

func fullDisk(ctx context.Context, e *Env) error {
	node := e.anyNode()
	e.Log.Info("fill the disk", "node", node)
	if err := e.Cluster.FillDisk(node); err != nil {
		return err
	}
	return e.hold(ctx)
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
