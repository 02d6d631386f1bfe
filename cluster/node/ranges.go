package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// errMoved: nothing was done, because a key has another shard than the node believed, or is being
// moved. The call is routed again by a newer map.
var errMoved = fmt.Errorf("%w: the range of a key is being moved to another shard",
	service.ErrUnavailable)

// split makes a new shard for the upper part of a range, with replicas on the same nodes. The node
// that leads the new shard copies its records: see follow.go. The map changes later, by cut.
func (d *Directory) split(c change) (uint64, string) {
	source, found := d.Shards[c.ShardID]
	if !found {
		return resultRefused, fmt.Sprintf("there is no shard %d", c.ShardID)
	}
	if d.commands() < replica.BoundsVersion {
		return resultRefused, "some node runs an earlier version, which cannot split a range"
	}
	if source.Move != (Move{}) {
		return resultRefused, fmt.Sprintf("a replica of shard %d is being moved", c.ShardID)
	}
	for id, entry := range d.Shards {
		if entry.Source != 0 && (id == c.ShardID || entry.Source == c.ShardID) {
			return resultRefused, fmt.Sprintf("shard %d still copies the records of shard %d", id,
				entry.Source)
		}
	}
	shardID := slices.Max(slices.Collect(maps.Keys(d.Shards))) + 1
	ranges, err := d.Ranges.Split(c.ShardID, c.Version, c.Key, shardID)
	if err != nil {
		return resultRefused, err.Error()
	}
	bounds, _ := ranges.Of(shardID)
	entry := ShardEntry{First: bounds.First, Last: bounds.Last, Source: c.ShardID,
		SourceVersion: c.Version, Closed: true}
	for _, p := range source.Replicas {
		if p.Epoch != d.Nodes[p.NodeID].Epoch {
			return resultRefused, fmt.Sprintf("the replica of shard %d on node %d is lost, and is not"+
				" replaced yet", c.ShardID, p.NodeID)
		}
		entry.NextReplicaID++
		entry.Replicas = append(entry.Replicas,
			Placement{ReplicaID: entry.NextReplicaID, NodeID: p.NodeID, Epoch: p.Epoch})
	}
	entry.NextReplicaID++
	entry.Founders = slices.Clone(entry.Replicas)
	d.Shards[shardID] = entry
	return shardID, ""
}

// cut gives a new shard its keys in the map, unless the range that is split has changed since.
func (d *Directory) cut(shardID uint64) (uint64, string) {
	if _, has := d.Ranges.Of(shardID); has {
		return 1, ""
	}
	entry := d.Shards[shardID]
	ranges, err := d.Ranges.Split(entry.Source, entry.SourceVersion, entry.First, shardID)
	if err != nil {
		return resultRefused, err.Error()
	}
	d.Ranges = ranges
	return 1, ""
}

// partAt gives the shard that a split at the key has made, if there is one.
func (d *Directory) partAt(key uint64) (uint64, bool) {
	for shardID, entry := range d.Shards {
		if entry.Closed && entry.First == key {
			return shardID, true
		}
	}
	return 0, false
}

// awaitRoute waits until another try with the newest map may succeed where the shard of a key was
// another one. False: the time is over.
func (n *Node) awaitRoute(ctx context.Context, before *Directory) bool {
	n.nudgeReconciler()
	if n.directory.Load().Version > before.Version {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-n.stopped:
		return false
	case <-time.After(pollInterval):
		return true
	}
}

// SplitShard implements service.Control. A call that is repeated makes no second split: the version
// of the range that it has seen decides.
func (n *Node) SplitShard(ctx context.Context, shardID, key uint64) (uint64, error) {
	for {
		d, err := n.readDirectory(ctx)
		if err != nil {
			return 0, err
		}
		if created, was := d.partAt(key); was {
			return created, n.awaitSplit(ctx, created) // This call or one before it has begun it.
		}
		keys, has := d.Ranges.Of(shardID)
		if !has {
			return 0, fmt.Errorf("%w: there is no shard %d with records", service.ErrInvalid, shardID)
		}
		if key <= keys.First || key > keys.Last {
			return 0, fmt.Errorf("%w: shard %d has the keys from %016x to %016x, and %016x does not "+
				"split them", service.ErrInvalid, shardID, keys.First, keys.Last, key)
		}
		_, err = n.ask(ctx, directoryShard, controlRequest{Op: controlSplit, ShardID: shardID,
			Key: key, Version: keys.Version})
		if errors.Is(err, service.ErrConflict) || errors.Is(err, service.ErrInvalid) {
			if now, failed := n.readDirectory(ctx); failed != nil || now.Version == d.Version {
				return 0, fmt.Errorf("split shard %d: %w", shardID, err)
			}
		}
		if ctx.Err() != nil || !n.pause(pollInterval) {
			return 0, fmt.Errorf("split shard %d: %w", shardID, cmp.Or(err, ctx.Err()))
		}
	}
}

// awaitSplit waits until a new shard has copied its records and takes requests.
func (n *Node) awaitSplit(ctx context.Context, shardID uint64) error {
	return n.untilDone(ctx, func() error {
		d, err := n.readDirectory(ctx)
		if source := d.sourceOf(shardID); err == nil && source != 0 {
			err = fmt.Errorf("%w: shard %d still copies the records of shard %d, and goes on",
				service.ErrUnknown, shardID, source)
		}
		return err
	})
}

func (d *Directory) sourceOf(shardID uint64) uint64 {
	if d == nil {
		return 0
	}
	return d.Shards[shardID].Source
}
