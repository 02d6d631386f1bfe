package node

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/lni/dragonboat/v4/raftpb"

	"engine_race/cluster/service"
)

// lowBytes is how much room a disk has to have. Below it, writing may fail at any moment.
const lowBytes = 96 << 20

// freeBytes is the room on the node's disk.
func (n *Node) freeBytes() (uint64, error) {
	if n.config.freeBytes != nil {
		return n.config.freeBytes()
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(n.config.Directory, &disk); err != nil {
		return 0, err
	}
	return disk.Bavail * uint64(disk.Bsize), nil
}

// hasLittleRoom tells whether the disk is about to be full. Raft's log cannot be written then.
func (n *Node) hasLittleRoom() bool {
	free, err := n.freeBytes()
	return err == nil && free < lowBytes
}

// admitSnapshot refuses a snapshot for which the disk has no room. Dragonboat ends the process
// when it cannot write a piece of one. The sender tries again later.
func (n *Node) admitSnapshot(chunk raftpb.Chunk) error {
	free, err := n.freeBytes()
	if err != nil {
		return nil
	}
	needed := uint64(lowBytes)
	if chunk.ChunkId == 0 {
		// The pieces lie beside the store here, until their records have taken its place.
		size := n.snapshotBytes(chunk)
		here := n.storeBytes(chunk.ShardID, chunk.ReplicaID)
		needed += size + max(size, here) - here
	}
	if free >= needed {
		return nil
	}
	err = fmt.Errorf("%w: a snapshot needs %d bytes, and %d are free", service.ErrFull, needed, free)
	n.config.Logger.Error("a snapshot is refused", "shard", chunk.ShardID, "error", err)
	return err
}

// snapshotBytes asks the sender of a snapshot for its size, which the pieces do not name. 0:
// unknown.
func (n *Node) snapshotBytes(chunk raftpb.Chunk) uint64 {
	d := n.directory.Load()
	for _, p := range d.Shards[chunk.ShardID].Replicas {
		if p.ReplicaID == chunk.From {
			size, err := n.askNode(context.Background(), d.Nodes[p.NodeID].NodeInfo,
				controlRequest{Op: controlBytes, ShardID: chunk.ShardID})
			if err != nil {
				n.config.Logger.Warn("the size of a snapshot is not known", "error", err)
			}
			return size
		}
	}
	return 0
}

// storeBytes is the room that the store of a replica takes. A snapshot of it takes no more.
func (n *Node) storeBytes(shardID, replicaID uint64) uint64 {
	total := uint64(0)
	_ = filepath.WalkDir(n.replicaDirectory(shardID, replicaID),
		func(_ string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil // It was removed meanwhile.
			}
			if info, err := entry.Info(); err == nil {
				if stat, is := info.Sys().(*syscall.Stat_t); is {
					total += uint64(stat.Blocks) * 512
				}
			}
			return nil
		})
	return total
}
