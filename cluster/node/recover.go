package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/tools"

	"engine_race/cluster/files"
	"engine_race/cluster/raftlog"
	"engine_race/cluster/service"
)

// recoverName is the directory of the snapshots that UnsafeRecover makes, below the node's.
const recoverName = "unsafe-recover"

// UnsafeRecover makes the replicas here the only members of their shards, while the node does not
// serve. It is for shards that have lost the majority of their replicas for ever. Writes are lost
// that this replica's log does not know as committed, though they may have been acknowledged. The
// nodes with the other replicas may never run again with their data: they could go on without this
// one. An interrupted call is given again. It gives the recovered shards with their indexes.
func UnsafeRecover(ctx context.Context, c Config, shards []uint64) (map[uint64]uint64, error) {
	n, err := prepareNode(c)
	if err != nil {
		return nil, err
	}
	if err := n.hasBegun(); err != nil {
		return nil, err
	}
	chosen, err := n.choose(shards)
	if err != nil {
		return nil, err
	}
	if err := n.openHost(); err != nil {
		return nil, err
	}
	directory := filepath.Join(c.Directory, recoverName)
	indexes, err := n.exportAll(ctx, chosen, directory)
	for _, s := range n.localShards() {
		s.stop()
	}
	n.host.Close()
	if err != nil {
		return nil, err
	}
	for _, shardID := range shards {
		p := chosen[shardID]
		members := map[uint64]string{p.ReplicaID: c.Info.RaftAddress}
		from, err := exported(filepath.Join(directory, fmt.Sprint(shardID)))
		if err == nil {
			err = tools.ImportSnapshot(n.hostConfig(&raftlog.Factory{}), from, members, p.ReplicaID)
		}
		if err != nil {
			return nil, fmt.Errorf("recover shard %d: %w", shardID, err)
		}
	}
	return indexes, os.RemoveAll(directory)
}

// choose gives the replicas here of the shards.
func (n *Node) choose(shards []uint64) (map[uint64]Placement, error) {
	chosen := map[uint64]Placement{}
	d := n.directory.Load()
	for _, shardID := range shards {
		p, placed := d.On(shardID, n.state.NodeID)
		if !placed || p.Epoch != n.state.Epoch || n.isLost(shardID, p, nil) {
			return nil, fmt.Errorf("%w: node %d has no replica of shard %d", service.ErrInvalid,
				n.state.NodeID, shardID)
		}
		chosen[shardID] = p
	}
	return chosen, nil
}

// exportAll runs the replicas, each without its others, and exports a snapshot of each.
func (n *Node) exportAll(ctx context.Context, chosen map[uint64]Placement,
	directory string) (map[uint64]uint64, error) {
	if err := errors.Join(os.RemoveAll(directory), files.MakeDirectory(directory)); err != nil {
		return nil, err
	}
	indexes := map[uint64]uint64{}
	for shardID, p := range chosen {
		err := n.start(shardID, p.ReplicaID, n.directory.Load().foundersWith(shardID, p), p.Learns)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(directory, fmt.Sprint(shardID))
		if indexes[shardID], err = n.export(ctx, shardID, p.ReplicaID, path); err != nil {
			return nil, fmt.Errorf("export shard %d: %w", shardID, err)
		}
	}
	return indexes, nil
}

// export takes a snapshot when the replica has applied all that its log knows as committed.
func (n *Node) export(ctx context.Context, shardID, replicaID uint64, path string) (uint64, error) {
	known, err := n.log.ReadRaftState(shardID, replicaID, 0)
	if err != nil {
		return 0, err
	}
	for {
		index, err := n.tryExport(ctx, shardID, path)
		if err == nil && index >= known.State.Commit {
			return index, nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return 0, errors.Join(err, ctx.Err())
		}
	}
}

// tryExport takes a snapshot of what the replica has applied by now. Dragonboat panics at one of a
// replica that does not know its members yet.
func (n *Node) tryExport(ctx context.Context, shardID uint64, path string) (uint64, error) {
	knowsMembers := func(s dragonboat.ShardInfo) bool {
		return s.ShardID == shardID && len(s.Replicas) > 0
	}
	info := n.host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
	if !slices.ContainsFunc(info.ShardInfoList, knowsMembers) {
		return 0, service.ErrLoading
	}
	if err := errors.Join(os.RemoveAll(path), files.MakeDirectory(path)); err != nil {
		return 0, err
	}
	request, err := n.host.RequestSnapshot(shardID,
		dragonboat.SnapshotOption{Exported: true, ExportPath: path}, time.Hour)
	if err != nil {
		return 0, err
	}
	select {
	case result := <-request.ResultC():
		if !result.Completed() {
			return 0, fmt.Errorf("%w: no snapshot was taken", service.ErrUnavailable)
		}
		return result.SnapshotIndex(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// exported gives the directory of the one snapshot below a path.
func exported(path string) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
	if len(entries) != 1 {
		return "", fmt.Errorf("%s has %d snapshots", path, len(entries))
	}
	return filepath.Join(path, entries[0].Name()), nil
}
