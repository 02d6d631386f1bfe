package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Between two looks at the directory.
	reconcileInterval = 500 * time.Millisecond
	fetchTimeout      = time.Second
	replaceTimeout    = time.Hour
	removeTimeout     = 10 * time.Second
	// A replica that was added should have caught up, or loaded a snapshot, after so long.
	resumeAfter = time.Minute
)

// reconcileForever starts and stops replicas as the directory says.
func (n *Node) reconcileForever() {
	cleanVersion, isClean := uint64(0), false
	for {
		select {
		case <-n.stopped:
			return
		case <-n.nudge:
		case <-time.After(reconcileInterval):
		}
		n.refreshDirectory()
		n.reconcile()
		n.raise()
		n.tellAddresses()
		version := n.directory.Load().Version
		// The next start must not find a replica in the file whose log is deleted.
		if version == n.savedVersion && (!isClean || cleanVersion != version) {
			cleanVersion, isClean = version, n.clean()
		}
	}
}

// refreshDirectory takes the newest directory, and saves it for the next start.
func (n *Node) refreshDirectory() {
	before := n.directory.Load()
	newest := n.newestDirectory(before)
	if newest.Version > before.Version {
		n.directory.Store(newest)
		if epoch := newest.Nodes[n.state.NodeID].Epoch; epoch > n.state.Epoch {
			n.config.Logger.Error("another data directory has joined as this node: remove all of "+
				"this one and join again", "epoch", n.state.Epoch, "newest", epoch)
		}
	}
	version := n.directory.Load().Version
	if version == n.savedVersion {
		return
	}
	if err := n.saveDirectory(n.directory.Load()); err != nil {
		n.config.Logger.Error("cannot save the directory", "error", err)
		return
	}
	n.savedVersion = version
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
	if err := json.Unmarshal(answer, d); err != nil || d.Version <= newest.Version ||
		d.Ranges.Check() != nil {
		return newest
	}
	return d
}

// reconcile starts replicas that the directory places here and stops others.
func (n *Node) reconcile() {
	d := n.directory.Load()
	// At most once: it takes long with many shards.
	leftovers := sync.OnceValue(n.leftovers)
	for shardID := range d.Shards {
		p, placed := d.On(shardID, n.state.NodeID)
		running := n.shard(shardID)
		if running != nil && (!placed || p.ReplicaID != running.replicaID) {
			n.remove(running)
			running = nil
		}
		if placed && running == nil && n.mayStart(shardID, p, leftovers()) {
			if err := n.start(shardID, p.ReplicaID, d.foundersWith(shardID, p),
				p.Learns); err != nil {
				n.config.Logger.Error("cannot start a replica", "error", err)
			}
		}
	}
}

// mayStart tells whether a replica that is placed here can run.
func (n *Node) mayStart(shardID uint64, p Placement, leftovers map[raftio.NodeInfo]bool) bool {
	n.mu.RLock()
	after := n.starts[shardID].after
	n.mu.RUnlock()
	return n.hasBegun() == nil && p.Epoch == n.state.Epoch && time.Now().After(after) &&
		!n.isLost(shardID, p, leftovers) && !isCleaning(shardID, p, leftovers)
}

// isCleaning tells whether an earlier replica of the shard still has its raft log here. Dragonboat
// may not have let go of it, and panics when it finds two replicas of a shard.
func isCleaning(shardID uint64, p Placement, leftovers map[raftio.NodeInfo]bool) bool {
	for left, hasLog := range leftovers {
		if left.ShardID == shardID && left.ReplicaID != p.ReplicaID && hasLog {
			return true
		}
	}
	return false
}

// isLost tells whether a replica was here whose files are gone: all of the node's, or its own. One
// of a later epoch is not: this node has come back with data of before, and must leave it alone.
func (n *Node) isLost(shardID uint64, p Placement, leftovers map[raftio.NodeInfo]bool) bool {
	if p.Epoch < n.state.Epoch {
		return true
	}
	if p.Epoch > n.state.Epoch || shardID == directoryShard || n.shard(shardID) != nil {
		return false
	}
	directory := n.replicaDirectory(shardID, p.ReplicaID)
	err := replica.Check(directory)
	// A directory is made before the log.
	if err == nil && leftovers[raftio.NodeInfo{ShardID: shardID, ReplicaID: p.ReplicaID}] {
		if _, err = os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	if err != nil {
		n.config.Logger.Error("a replica is lost", "shard", shardID, "error", err)
	}
	return err != nil
}

// replaceLost replaces lost replicas of this node. It also goes on with calls of AddReplica and
// RemoveReplica that were interrupted: such a replica runs, and is no member. Each shard is looked
// after by itself, as one without a quorum may hold a call up for long.
func (n *Node) replaceLost() {
	ctx, cancel := n.untilStopped()
	defer cancel()
	busy := newBusyShards()
	defer busy.wait()
	for ctx.Err() == nil {
		for shardID := range n.directory.Load().Shards {
			busy.run(shardID, func() { n.replaceIfLost(ctx, shardID) })
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconcileInterval):
		}
	}
}

func (n *Node) replaceIfLost(ctx context.Context, shardID uint64) {
	p, placed := n.directory.Load().On(shardID, n.state.NodeID)
	s := n.shard(shardID)
	switch {
	case !placed:
	case s == nil && n.isLost(shardID, p, n.leftovers()):
		n.replace(ctx, shardID)
	case s != nil && (!s.caughtUp.Load() || p.Learns && n.isLearner(shardID)) &&
		time.Since(s.started) > resumeAfter &&
		n.directory.Load().foundersWith(shardID, p) == nil:
		n.addAgain(ctx, shardID)
	}
}

// isLearner tells whether the replica of a shard here has no vote.
func (n *Node) isLearner(shardID uint64) bool {
	info := n.host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
	for _, shard := range info.ShardInfoList {
		if shard.ShardID == shardID {
			return shard.IsNonVoting
		}
	}
	return false
}

func (n *Node) replace(ctx context.Context, shardID uint64) {
	ctx, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	err := n.replaceReplica(ctx, shardID)
	n.config.Logger.Info("replaced a lost replica", "shard", shardID, "error", err)
}

func (n *Node) addAgain(ctx context.Context, shardID uint64) {
	ctx, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	err := n.AddReplica(ctx, shardID, n.state.NodeID)
	n.config.Logger.Info("added a replica again", "shard", shardID, "error", err)
	if errors.Is(err, service.ErrConflict) {
		// It was removed, and its ID is never used again: that call was interrupted.
		err = n.RemoveReplica(ctx, shardID, n.state.NodeID)
		n.config.Logger.Info("removed a replica again", "shard", shardID, "error", err)
	}
}

// remove stops a replica that was taken away. clean deletes its files. The reconciler and
// tendForever may remove one at the same time.
func (n *Node) remove(s *shard) {
	n.mu.Lock()
	runs := n.shards[s.shardID] == s
	if runs {
		delete(n.shards, s.shardID)
	}
	n.mu.Unlock()
	if !runs {
		return
	}
	s.stop()
	err := n.host.StopReplica(s.shardID, s.replicaID)
	if err != nil && !errors.Is(err, dragonboat.ErrShardNotFound) {
		n.config.Logger.Error("cannot stop a replica", "shard", s.shardID, "error", err)
	}
}

// clean deletes what replicas have left that were taken away. An ID is never used again, so a
// replica with a used ID that the directory does not have was removed for good. True: all is clean.
func (n *Node) clean() bool {
	d := n.directory.Load()
	done := true
	for left, hasLog := range n.leftovers() {
		shardID, replicaID := left.ShardID, left.ReplicaID
		s := n.shard(shardID)
		entry, known := d.Shards[shardID]
		p, placed := d.On(shardID, n.state.NodeID)
		if !known || replicaID >= entry.NextReplicaID || placed && p.ReplicaID == replicaID ||
			s != nil && s.replicaID == replicaID {
			continue
		}
		if err := n.deleteReplica(shardID, replicaID, hasLog); err != nil {
			n.config.Logger.Warn("cannot remove a replica yet", "shard", shardID,
				"replica", replicaID, "error", err)
			done = false
			continue
		}
		n.config.Logger.Info("removed a replica", "shard", shardID, "replica", replicaID)
	}
	return done
}

// leftovers gives the replicas that have a raft log or a directory here, and whether they have a
// log.
func (n *Node) leftovers() map[raftio.NodeInfo]bool {
	left := map[raftio.NodeInfo]bool{}
	entries, _ := os.ReadDir(filepath.Join(n.config.Directory, replicasName))
	for _, entry := range entries {
		var r raftio.NodeInfo
		_, err := fmt.Sscanf(entry.Name(), "shard-%d-%d", &r.ShardID, &r.ReplicaID)
		if err == nil {
			left[r] = false
		}
	}
	for _, log := range n.host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{}).LogInfo {
		left[log] = true
	}
	return left
}

// deleteReplica deletes the raft log first: dragonboat then has closed the store.
func (n *Node) deleteReplica(shardID, replicaID uint64, hasLog bool) error {
	if hasLog {
		ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
		defer cancel()
		if err := n.host.SyncRemoveData(ctx, shardID, replicaID); err != nil {
			return err
		}
	}
	return os.RemoveAll(n.replicaDirectory(shardID, replicaID))
}
