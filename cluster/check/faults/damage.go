package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"engine_race/cluster/check/wire"
	"engine_race/cluster/service"
)

// damageFaults hurt what a node has stored, or let it fall behind.
func damageFaults() []Fault {
	return []Fault{
		{Name: "rot", Help: "the values on a leader's disk change; its replicas are copied anew",
			inject: rot},
		{Name: "full-leader", Help: "a leader's disk has no room; others must lead its shards",
			NeedsDisks: true, MayCrash: true, inject: fullLeader},
		{Name: "catch-up", Help: "a follower misses a load, and applies it beside a load",
			inject: catchUp},
	}
}

// rot changes the values of a node, and lets the node read all of them.
func rot(ctx context.Context, e *Env) error {
	node, err := e.leader(ctx)
	if err != nil {
		return err
	}
	count, err := e.Cluster.Rot(node)
	if err != nil {
		return err
	}
	e.Log.Info("rot", "node", node, "values", count)
	before := e.Cluster.PID(node)
	err = e.insist(ctx, func(ctx context.Context) error { return readAll(ctx, e, node) })
	if err != nil {
		return err
	}
	if err := e.hold(ctx); err != nil {
		return err
	}
	if after := e.Cluster.PID(node); after != before {
		return fmt.Errorf("node %d was process %d, and is %d after rot", node, before, after)
	}
	return nil
}

// readAll lets a node read all records. Other nodes may answer for those that are damaged.
func readAll(ctx context.Context, e *Env, node int) error {
	conn, err := e.Cluster.Dialer(node).Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for lower := []byte("-"); ; {
		answer, err := conn.Do([]byte("RANGE"), lower, []byte("+"), []byte("LIMIT"), []byte("500"))
		if err != nil {
			return err
		}
		fields, _ := answer.([]any)
		if len(fields) < 2*500 {
			return nil
		}
		last, _ := fields[len(fields)-2].([]byte)
		if len(last) != service.KeyBytes {
			return errors.New("RANGE answers without keys")
		}
		lower = next(last)
	}
}

// next gives the key behind this one. The last key of all is its own next one.
func next(key []byte) []byte {
	key = slices.Clone(key)
	for i := len(key) - 1; i >= 0; i-- {
		if key[i]++; key[i] != 0 {
			return key
		}
	}
	return wire.KeyBytes(^uint64(0))
}

func fullLeader(ctx context.Context, e *Env) error {
	node, err := e.leader(ctx)
	if err != nil {
		return err
	}
	e.Log.Info("fill the disk", "leader", node)
	if err := e.Cluster.FillDisk(node); err != nil {
		return err
	}
	via := e.other(node)
	err = e.insist(ctx, func(ctx context.Context) error {
		status, err := e.Cluster.Status(ctx, via)
		if err != nil {
			return err
		}
		for _, shard := range status.Shards {
			if shard.LeaderID == 0 || int(shard.LeaderID) == node {
				return fmt.Errorf("shard %d is led by node %d, whose disk is full", shard.ShardID,
					shard.LeaderID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e.hold(ctx)
}

// catchUp stops a follower while a load goes on, and starts it again beside the load.
func catchUp(ctx context.Context, e *Env) error {
	node, err := e.follower(ctx)
	if err != nil {
		return err
	}
	e.Log.Info("fall behind", "node", node)
	if err := e.Cluster.Kill(node); err != nil {
		return err
	}
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	writes := make(chan int, 1)
	go func() { writes <- e.Load(loaded) }()
	if err := e.hold(ctx); err != nil {
		return err
	}
	if err := e.Cluster.Start(node); err != nil {
		return err
	}
	err = e.Cluster.WaitReady(ctx, node)
	stop()
	if count := <-writes; err == nil && count == 0 {
		err = errors.New("no write of the load was acknowledged")
	}
	return err
}
