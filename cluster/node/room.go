package node

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
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

// arrival is a snapshot that was admitted. Room is reserved for what it does not take yet.
type arrival struct {
	index, size, received uint64
	whole                 bool // all pieces are here
	last                  time.Time
}

// quietTime is how long dragonboat waits for the next piece of a snapshot.
const quietTime = 15 * time.Minute

// admitPiece refuses a piece of a snapshot for a replica that does not run here, and one for which
// there is no room. Dragonboat has no directory for the replica of a disk that was lost, and ends
// the process. The replica's leader sends it a snapshot as long as it is a member. It offers each
// for 30 s, and holds one of its 8 places for snapshots to this node meanwhile.
func (n *Node) admitPiece(chunk raftpb.Chunk) error {
	if s := n.shard(chunk.ShardID); s != nil && s.replicaID == chunk.ReplicaID {
		return n.admitSnapshot(chunk)
	}
	n.snapshotRefused(chunk)
	err := fmt.Errorf("%w: replica %d of shard %d", errNotHere, chunk.ReplicaID, chunk.ShardID)
	n.config.Logger.Warn("a snapshot is refused", "shard", chunk.ShardID, "error", err)
	return err
}

// admitSnapshot refuses a snapshot for which the disk has no room. Dragonboat ends the process
// when it cannot write a piece of one. The sender tries again later.
func (n *Node) admitSnapshot(chunk raftpb.Chunk) error {
	size := uint64(0)
	if chunk.ChunkId == 0 {
		size = n.snapshotBytes(chunk)
	}
	n.arrivingMu.Lock()
	defer n.arrivingMu.Unlock()
	free, err := n.freeBytes()
	if err != nil {
		return nil
	}
	needed, to := uint64(lowBytes), receiverOf(chunk)
	a := n.arriving[to]
	if chunk.ChunkId == 0 {
		// It takes the place of one whose stream was broken.
		a = &arrival{index: chunk.Index, size: size}
		needed += n.roomFor(to, a) + n.reservedBytes(to)
	}
	if free < needed {
		n.forgetArrival(chunk)
		err = fmt.Errorf("%w: a snapshot needs %d bytes, and %d are free", service.ErrFull, needed, free)
		n.config.Logger.Error("a snapshot is refused", "shard", chunk.ShardID, "error", err)
		return err
	}
	if a != nil && a.index == chunk.Index {
		a.received += uint64(len(chunk.Data))
		a.whole, a.last = chunk.IsLastChunk(), time.Now()
		n.arriving[to] = a
	}
	return nil
}

func receiverOf(chunk raftpb.Chunk) raftio.NodeInfo {
	return raftio.NodeInfo{ShardID: chunk.ShardID, ReplicaID: chunk.ReplicaID}
}

// roomFor is what a snapshot still takes. Its pieces lie beside the store here, until their records
// have taken its place.
func (n *Node) roomFor(to raftio.NodeInfo, a *arrival) uint64 {
	here := n.storeBytes(to.ShardID, to.ReplicaID)
	return a.size - min(a.size, a.received) + a.size - min(a.size, here)
}

// reservedBytes is what all snapshots take that arrive or are loaded, but for one replica's.
func (n *Node) reservedBytes(except raftio.NodeInfo) uint64 {
	total := uint64(0)
	for to, a := range n.arriving {
		if time.Since(a.last) > quietTime && !(a.whole && n.isEmpty(to)) {
			delete(n.arriving, to)
		} else if to != except {
			total += n.roomFor(to, a)
		}
	}
	return total
}

// isEmpty tells whether a replica has applied nothing: it loads a snapshot, or is about to.
func (n *Node) isEmpty(to raftio.NodeInfo) bool {
	s := n.shard(to.ShardID)
	return s != nil && s.replicaID == to.ReplicaID && s.replica != nil && s.replica.Applied() == 0
}

// snapshotRefused is called when a piece was refused: the rest will not come.
func (n *Node) snapshotRefused(chunk raftpb.Chunk) {
	n.arrivingMu.Lock()
	defer n.arrivingMu.Unlock()
	n.forgetArrival(chunk)
}

func (n *Node) forgetArrival(chunk raftpb.Chunk) {
	if a := n.arriving[receiverOf(chunk)]; a != nil && a.index == chunk.Index {
		delete(n.arriving, receiverOf(chunk))
	}
}

// snapshotLoaded is called when a replica has loaded a snapshot.
func (n *Node) snapshotLoaded(info raftio.SnapshotInfo) {
	n.arrivingMu.Lock()
	defer n.arrivingMu.Unlock()
	to := raftio.NodeInfo{ShardID: info.ShardID, ReplicaID: info.ReplicaID}
	if a := n.arriving[to]; a != nil && a.index <= info.Index {
		delete(n.arriving, to)
	}
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
	if n.config.storeBytes != nil {
		return n.config.storeBytes(shardID, replicaID)
	}
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
