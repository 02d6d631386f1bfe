package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// errNoReads: a node of an earlier build would not know the command.
var errNoReads = fmt.Errorf("%w: not all nodes know transactions that read", service.ErrUnavailable)

func hasReads(ops []service.Op) bool {
	return slices.ContainsFunc(ops, func(op service.Op) bool { return op.Read })
}

// ShardOf implements service.Service.
func (n *Node) ShardOf(key uint64) uint64 {
	return n.directory.Load().Ranges.ShardOf(key)
}

// Transact implements service.Service. All ops are one entry of the shard's log. Its reads take
// place where the entry is applied, so no other write comes in between.
func (n *Node) Transact(ctx context.Context, ops []service.Op) ([]service.Found, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	if err := n.checkValues(ops); err != nil {
		return nil, err
	}
	if hasReads(ops) && n.commands() < replica.ReadsVersion {
		return nil, errNoReads
	}
	// To look at the keys of puts would cost each replica a read.
	counted := slices.ContainsFunc(ops, func(op service.Op) bool { return op.Value == nil })
	result, err := n.transactIn(ctx, ops, counted)
	if err != nil {
		return nil, err
	}
	if !counted {
		return make([]service.Found, len(ops)), nil
	}
	found, err := replica.ParseFound(ops, result, n.ValueBytes())
	if err != nil {
		return nil, fmt.Errorf("%w: an answer of %d bytes", service.ErrUnknown, len(result))
	}
	return found, nil
}

// transactIn writes the ops to their shard, wherever a map of the ranges that is newer says it is.
func (n *Node) transactIn(ctx context.Context, ops []service.Op, counted bool) ([]byte, error) {
	for {
		d := n.directory.Load()
		shardID := d.Ranges.ShardOf(ops[0].Key)
		for _, op := range ops {
			if d.Ranges.ShardOf(op.Key) != shardID {
				return nil, fmt.Errorf("%w: a transaction in several shards", service.ErrUnavailable)
			}
		}
		result, err := n.writeShard(ctx, shardID, ops, counted)
		if !errors.Is(err, errMoved) || !n.awaitRoute(ctx, d) {
			return result, err
		}
	}
}
