package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

func growthFaults() []Fault {
	return []Fault{
		{Name: "move-replica", Help: "a replica moves, and a node that takes part is killed",
			inject: moveReplica},
		{Name: "split-range", Help: "a range is split under its clients", inject: splitRange(false)},
		{Name: "split-range-kill", Help: "the same, and a node is killed meanwhile",
			inject: splitRange(true)},
	}
}

// moveReplica makes room on a node first: in a small cluster each has a replica of every shard. The
// move is given again until it has come to its end.
func moveReplica(ctx context.Context, e *Env) error {
	shard, err := e.shard(ctx)
	if err != nil {
		return err
	}
	to := e.anyNode()
	if err := e.setReplica(ctx, shard, to, false); err != nil {
		return err
	}
	members, err := e.members(ctx, e.other(to))
	if err != nil {
		return err
	}
	froms := slices.DeleteFunc(members[shard], func(node int) bool { return node == to })
	if len(froms) < 2 {
		return fmt.Errorf("shard %d has the nodes %v", shard, froms)
	}
	from, killed := froms[e.Random.IntN(len(froms))], e.anyNode()
	e.Log.Info("move a replica", "shard", shard, "from", from, "to", to, "killed", killed)
	moved := make(chan error, 1)
	go func() { moved <- e.Cluster.MoveReplica(ctx, e.other(killed), shard, from, to) }()
	if err := e.Cluster.Kill(killed); err != nil {
		return errors.Join(err, <-moved)
	}
	if err := e.hold(ctx); err != nil {
		return errors.Join(err, <-moved)
	}
	if err := errors.Join(e.Cluster.Start(killed), e.Cluster.WaitReady(ctx, killed)); err != nil {
		return errors.Join(err, <-moved)
	}
	if err := <-moved; err != nil {
		e.Log.Debug("a move was cut off", "error", err)
		err = e.insist(ctx, func(ctx context.Context) error {
			return e.Cluster.MoveReplica(ctx, e.other(from), shard, from, to)
		})
		if err != nil {
			return err
		}
	}
	// The node may hear of it a moment later.
	err = e.insist(ctx, func(ctx context.Context) error {
		members, err := e.members(ctx, to)
		if err == nil && (slices.Contains(members[shard], from) ||
			!slices.Contains(members[shard], to)) {
			err = fmt.Errorf("after the move from node %d to node %d shard %d is on %v", from, to, shard,
				members[shard])
		}
		return err
	})
	return errors.Join(err, e.setReplica(ctx, shard, from, true))
}

// splitRange splits the range that has a group of keys, in front of the group.
func splitRange(kills bool) func(context.Context, *Env) error {
	return func(ctx context.Context, e *Env) error {
		key, via := e.Keys[e.Random.IntN(len(e.Keys))], e.anyNode()
		status, err := e.Cluster.Status(ctx, via)
		if err != nil {
			return err
		}
		shard := uint64(0)
		for _, one := range status.Shards {
			if one.RangeVersion != 0 && one.Lower < key && key <= one.Upper {
				shard = one.ShardID
			}
		}
		if shard == 0 {
			return fmt.Errorf("node %d knows no shard that key %x splits", via, key)
		}
		e.Log.Info("split a range", "shard", shard, "key", key)
		split := make(chan error, 1)
		go func() { split <- e.Cluster.Split(ctx, via, shard, key) }()
		if kills {
			killed := e.other(via)
			err := errors.Join(e.Cluster.Kill(killed), e.hold(ctx), e.Cluster.Start(killed),
				e.Cluster.WaitReady(ctx, killed))
			if err != nil {
				return errors.Join(err, <-split)
			}
		}
		if err := <-split; err == nil {
			return nil
		}
		return e.insist(ctx, func(ctx context.Context) error {
			return e.Cluster.Split(ctx, e.other(via), shard, key)
		})
	}
}
