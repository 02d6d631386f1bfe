package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/replica"
)

const (
	// Between two looks at the directory.
	reconcileInterval = 500 * time.Millisecond
	fetchTimeout      = time.Second
	replaceTimeout    = time.Hour
	// Between two checks whether a log is to be shortened.
	maintainInterval = 200 * time.Millisecond
	// Entries that stay when a log is shortened, for replicas that are a little behind.
	keptEntries = 1024
)

// reconcileForever lets what runs here follow the directory.
func (n *Node) reconcileForever() {
	defer n.workers.Done()
	for {
		select {
		case <-n.stopped:
			return
		case <-n.nudge:
		case <-time.After(reconcileInterval):
		}
		n.refreshDirectory()
		n.reconcile()
	}
}

// checkReplicas fails if the files of a replica here are lost.
func (n *Node) checkReplicas() error {
	d := n.directory.Load()
	for shardID := range d.Shards {
		p, placed := d.On(shardID, n.state.NodeID)
		if !placed || shardID == directoryShard {
			continue
		}
		if err := replica.Check(n.replicaDirectory(shardID, p.ReplicaID)); err != nil {
			return err
		}
	}
	return nil
}

// refreshDirectory takes the newest directory, and saves it for the next start.
func (n *Node) refreshDirectory() {
	before := n.directory.Load()
	newest := n.newestDirectory(before)
	if newest.Version <= before.Version {
		return
	}
	n.directory.Store(newest)
	if err := n.saveDirectory(newest); err != nil {
		n.config.Logger.Error("cannot save the directory", "error", err)
	}
}

func (n *Node) saveDirectory(d *Directory) error {
	return writeJSON(filepath.Join(n.config.Directory, directoryName), d)
}

// newestDirectory asks the replica here, or another node if that has no leader: it may have been
// removed, and would not hear of it.
func (n *Node) newestDirectory(newest *Directory) *Directory {
	if n.shard(directoryShard) != nil {
		if d := n.machine.current.Load(); d.Version > newest.Version {
			newest = d
		}
		if _, _, known, err := n.host.GetLeaderID(directoryShard); err == nil && known {
			return newest
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	answer, err := n.elsewhere(ctx, directoryShard, pathDirectory, "", nil, true)
	if err != nil {
		return newest
	}
	d := &Directory{}
	if err := json.Unmarshal(answer, d); err != nil || d.Version <= newest.Version {
		return newest
	}
	return d
}

// reconcile starts replicas that the directory places here and stops others.
func (n *Node) reconcile() {
	d := n.directory.Load()
	for shardID := range d.Shards {
		p, placed := d.On(shardID, n.state.NodeID)
		running := n.shard(shardID)
		if running != nil && (!placed || p.ReplicaID != running.replicaID) {
			n.remove(running)
			running = nil
		}
		if placed && running == nil && p.Epoch == n.state.Epoch {
			if err := n.start(shardID, p.ReplicaID, n.firstMembers(shardID, p)); err != nil {
				n.config.Logger.Error("cannot start a replica", "error", err)
			}
		}
	}
}

// replaceLost replaces the replicas that this node had before its data was lost, one by one.
func (n *Node) replaceLost() {
	defer n.workers.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-n.stopped
		cancel()
	}()
	for ctx.Err() == nil {
		d := n.directory.Load()
		for shardID := range d.Shards {
			p, placed := d.On(shardID, n.state.NodeID)
			if !placed || p.Epoch == n.state.Epoch {
				continue
			}
			attempt, cancel := context.WithTimeout(ctx, replaceTimeout)
			err := n.RemoveReplica(attempt, shardID, n.state.NodeID)
			if err == nil {
				err = n.AddReplica(attempt, shardID, n.state.NodeID)
			}
			cancel()
			n.config.Logger.Info("replaced a lost replica", "shard", shardID, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconcileInterval):
		}
	}
}

// firstMembers gives the members of a shard that the genesis has placed here, and nil for replicas
// that were added later.
func (n *Node) firstMembers(shardID uint64, p Placement) map[uint64]string {
	first := n.state.Genesis.Directory()
	if was, placed := first.On(shardID, p.NodeID); !placed || was != p {
		return nil
	}
	return first.Members(shardID)
}

// remove stops a replica that was taken away, and deletes its files.
func (n *Node) remove(s *shard) {
	n.mu.Lock()
	delete(n.shards, s.shardID)
	n.mu.Unlock()
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := n.host.StopReplica(s.shardID, s.replicaID)
	if err != nil && !errors.Is(err, dragonboat.ErrShardNotFound) {
		n.config.Logger.Error("cannot stop a replica", "shard", s.shardID, "error", err)
	}
	if err := n.host.SyncRemoveData(ctx, s.shardID, s.replicaID); err != nil {
		n.config.Logger.Error("cannot remove a raft log", "shard", s.shardID, "error", err)
	}
	directory := n.replicaDirectory(s.shardID, s.replicaID)
	if err := os.RemoveAll(directory); err != nil {
		n.config.Logger.Error("cannot remove a replica", "directory", directory, "error", err)
	}
	n.config.Logger.Info("removed a replica", "shard", s.shardID, "replica", s.replicaID)
}

// maintainForever syncs stores in the background and shortens logs.
func (n *Node) maintainForever() {
	defer n.workers.Done()
	lastSync := time.Now()
	for {
		select {
		case <-n.stopped:
			return
		case <-time.After(maintainInterval):
		}
		syncs := time.Since(lastSync) >= n.config.SyncInterval
		for _, s := range n.localShards() {
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

// shorten asks for a snapshot when the log has grown enough. For a replica on disk a snapshot is a
// sync.
func (n *Node) shorten(s *shard) {
	applied := s.replica.AppliedBytes()
	if applied-s.shortenedAt.Load() < n.config.LogBytes {
		return
	}
	s.shortenedAt.Store(applied)
	if _, err := n.requestSnapshot(s, time.Minute); err != nil {
		n.config.Logger.Warn("cannot shorten a log", "shard", s.shardID, "error", err)
	}
}

func (n *Node) requestSnapshot(s *shard, timeout time.Duration) (*dragonboat.RequestState, error) {
	request, err := n.host.RequestSnapshot(s.shardID, dragonboat.SnapshotOption{
		OverrideCompactionOverhead: true, CompactionOverhead: keptEntries}, timeout)
	if err != nil {
		return nil, fmt.Errorf("request a snapshot: %w", err)
	}
	return request, nil
}
