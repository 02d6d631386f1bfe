package node

import (
	"context"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"
)

const (
	// Between two checks whether a log is to be shortened.
	maintainInterval = 200 * time.Millisecond
	// A log that is shortened keeps this share of its bytes, for replicas that are a little behind.
	keptShare = 4
	// An operator who shortens a log keeps these bytes of it.
	keptBytes = 4 << 20
	// A log is looked at again when it has grown by this share of its bytes.
	againShare = 16
	// A log grows to this many times of its bytes for the sake of replicas that run and are behind.
	patienceTimes = 2
)

// maintainForever syncs stores in the background and shortens logs.
func (n *Node) maintainForever() {
	lastSync := time.Now()
	for n.pause(maintainInterval) {
		syncs := time.Since(lastSync) >= n.config.SyncInterval
		for _, s := range n.localShards() {
			s.checkLeader()
			if s.replica == nil {
				continue
			}
			if syncs {
				if err := s.replica.SyncInBackground(); err != nil {
					n.config.Logger.Error("cannot sync", "shard", s.shardID, "error", err)
				}
			}
			n.shorten(s)
		}
		if syncs {
			lastSync = time.Now()
		}
	}
}

// shorten asks for a snapshot when the log is long. For a replica on disk a snapshot is a sync.
func (n *Node) shorten(s *shard) {
	size := n.log.Bytes(s.shardID, s.replicaID)
	if size < n.config.LogBytes {
		s.shortenedAt = 0
		return
	}
	if size < s.shortenedAt+n.config.LogBytes/againShare {
		return
	}
	s.shortenedAt = size
	if _, err := n.requestSnapshot(s, n.config.LogBytes/keptShare, time.Minute); err != nil {
		n.config.Logger.Warn("cannot shorten a log", "shard", s.shardID, "error", err)
	}
}

// keptAfter gives the index up to which a log need not be kept; 0: all of it must. About `tail`
// bytes at its end are kept. A log of `most` bytes waits for no other replica.
func (n *Node) keptAfter(s *shard, tail, most uint64) uint64 {
	index := n.log.IndexBefore(s.shardID, s.replicaID, tail)
	if n.log.Bytes(s.shardID, s.replicaID) >= most {
		return index
	}
	// A replica that runs needs what it has not applied: otherwise it would have to copy all
	// records.
	d := n.directory.Load()
	running, _ := n.askForReplicas(context.Background(), d.infosOf(s.shardID))
	for _, p := range d.Shards[s.shardID].Replicas {
		if r, runs := running[raftio.NodeInfo{ShardID: s.shardID, ReplicaID: p.ReplicaID}]; runs {
			index = min(index, r.AppliedIndex)
		}
	}
	return index
}

func (n *Node) requestSnapshot(s *shard, tail uint64, timeout time.Duration) (
	*dragonboat.RequestState, error) {
	kept := n.keptAfter(s, tail, patienceTimes*n.config.LogBytes)
	request, err := n.host.RequestSnapshot(s.shardID, dragonboat.SnapshotOption{
		OverrideCompactionOverhead: true, CompactionIndex: max(1, kept)}, timeout)
	if err != nil {
		return nil, fmt.Errorf("request a snapshot: %w", err)
	}
	return request, nil
}
