// Package raftlog comes between dragonboat and Tan, its store of logs.
//
// Dragonboat reads a log on the thread that serves all shards. It does so for a follower that is
// behind, and for a store that applies what was logged before a start. Tan reads each range of a
// log by opening its file and seeking from the beginning of a block. A long read there holds up
// the heartbeats of all shards, and their leaders are lost. A Log answers from memory instead: it
// keeps the last entries of each replica. It reads ahead of a reader that is further behind, on a
// goroutine of its own. A read that neither can answer gets few entries, and dragonboat asks for
// the next ones.
//
// Thread safety: as raftio.ILogDB demands. The other methods may be called from any goroutine.
package raftlog

import (
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/plugin/tan"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

const (
	// The ends of all logs of a node take so much memory: see tails.
	tailsBytes = 32 << 20
	// The most that one of them keeps.
	tailBytes = 4 << 20
	// The bounds of what is read ahead for a replica at once. Replicas with readers share aheadsBytes.
	// Each may hold three times its share, and two entries more: a part of it was just given out.
	aheadBytes      = 2 << 20
	leastAheadBytes = 256 << 10
	aheadsBytes     = 32 << 20
	// So much is read from the disk while dragonboat waits.
	missBytes = 64 << 10
	// The most entries of such a read: Tan makes a list of all ranges of a read in advance.
	missEntries  = 64
	aheadEntries = 2048
)

// Factory makes the Log of a NodeHost, and keeps it.
type Factory struct {
	// FollowerBytesPerSecond bounds what followers are sent that are behind, beside twice of what
	// is logged meanwhile. 0: no bound.
	FollowerBytesPerSecond uint64

	log *Log
}

// Name is Tan's: the files are Tan's.
func (f *Factory) Name() string { return tan.Factory.Name() }

// Create implements config.LogDBFactory.
func (f *Factory) Create(c config.NodeHostConfig, callback config.LogDBCallback,
	directories, wals []string) (raftio.ILogDB, error) {
	inner, err := tan.Factory.Create(c, callback, directories, wals)
	if err != nil {
		return nil, err
	}
	f.log = newLog(inner, directories[0], newPace(f.FollowerBytesPerSecond, time.Now))
	return f.log, nil
}

// Log gives what Create made.
func (f *Factory) Log() *Log { return f.log }

// Log is a raftio.ILogDB over Tan.
type Log struct {
	raftio.ILogDB
	directory string // that dragonboat has chosen for Tan
	pace      *pace

	mu       sync.Mutex
	replicas map[raftio.NodeInfo]*replicaLog
	closed   bool
	loads    sync.WaitGroup

	tails tails
	saves saves
}

func newLog(inner raftio.ILogDB, directory string, p *pace) *Log {
	return &Log{ILogDB: inner, directory: directory, pace: p, tails: newTails(tailsBytes),
		replicas: map[raftio.NodeInfo]*replicaLog{}}
}

func (l *Log) replica(shardID, replicaID uint64) *replicaLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID}
	r := l.replicas[id]
	if r == nil {
		r = &replicaLog{}
		l.replicas[id] = r
	}
	return r
}

// SaveRaftState implements raftio.ILogDB.
func (l *Log) SaveRaftState(updates []raftpb.Update, workerID uint64) error {
	writes := false
	for i := range updates {
		u := &updates[i]
		if len(u.EntriesToSave) > 0 {
			writes = true
			// Entries that are about to be overwritten may not be read ahead any more.
			l.replica(u.ShardID, u.ReplicaID).overwrite(u.EntriesToSave[0].Index)
		}
	}
	if writes {
		defer l.saves.begin(workerID)()
	}
	if err := l.ILogDB.SaveRaftState(updates, workerID); err != nil {
		return err
	}
	for i := range updates {
		u := &updates[i]
		if len(u.EntriesToSave) > 0 {
			r := l.replica(u.ShardID, u.ReplicaID)
			l.pace.allow(2 * r.append(u.EntriesToSave))
			l.tails.note(r)
		}
	}
	return nil
}

// ReadRaftState implements raftio.ILogDB. Dragonboat calls it when it starts a replica.
func (l *Log) ReadRaftState(shardID, replicaID, lastIndex uint64) (raftio.RaftState, error) {
	state, err := l.ILogDB.ReadRaftState(shardID, replicaID, lastIndex)
	if err == nil && state.EntryCount > 0 {
		size := l.fileBytes(shardID, replicaID)
		l.replica(shardID, replicaID).start(state.FirstIndex, state.EntryCount, size)
	}
	return state, err
}

// IterateEntries implements raftio.ILogDB. It may give fewer entries than were asked for. It then
// names a size above maxSize: that is how dragonboat knows that more would follow.
func (l *Log) IterateEntries(entries []raftpb.Entry, size, shardID, replicaID, low, high,
	maxSize uint64) ([]raftpb.Entry, uint64, error) {
	r := l.replica(shardID, replicaID)
	limit := maxSize
	if maxSize == messageBytes {
		limit = min(maxSize, l.pace.take())
	}
	got, gotSize, wanted := r.read(low, high, limit)
	if wanted {
		l.readAhead(r, shardID, replicaID)
	}
	if len(got) == 0 {
		var err error
		end := min(high, low+missEntries)
		got, gotSize, err = l.ILogDB.IterateEntries(nil, 0, shardID, replicaID, low, end,
			max(1, min(limit, missBytes)))
		if err != nil {
			return nil, 0, err
		}
		// A single entry is what dragonboat asks for to learn its term.
		if len(got) > 0 && high > low+1 && r.follow(got[len(got)-1].Index+1) {
			l.readAhead(r, shardID, replicaID)
		}
	}
	if maxSize == messageBytes {
		l.pace.spend(gotSize)
	}
	entries, size = append(entries, got...), size+gotSize
	if len(got) > 0 && got[len(got)-1].Index+1 < high && size <= maxSize {
		if len(entries) > 1 {
			// Dragonboat leaves out the last of several entries whose size is above the limit.
			entries = append(entries, raftpb.Entry{Index: got[len(got)-1].Index + 1})
		}
		size = maxSize + 1
	}
	return entries, size, nil
}

// readAhead reads the next entries of a reader, unless the Log is about to be closed.
func (l *Log) readAhead(r *replicaLog, shardID, replicaID uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	share := l.aheadShare(r)
	from, to, generation, begins := r.beginLoad(share)
	if !begins {
		return
	}
	if l.closed {
		r.endLoad(nil, generation)
		return
	}
	l.loads.Go(func() {
		entries, _, err := l.ILogDB.IterateEntries(nil, 0, shardID, replicaID, from, to, share)
		if err != nil {
			entries = nil // The reader finds the error again.
		}
		r.endLoad(entries, generation)
	})
}

// aheadShare is how much a replica reads ahead at once, beside the others that do. The caller holds
// the mutex.
func (l *Log) aheadShare(reader *replicaLog) uint64 {
	readers := uint64(1)
	for _, r := range l.replicas {
		if r != reader && r.readsAhead() {
			readers++
		}
	}
	return max(leastAheadBytes, min(aheadBytes, aheadsBytes/readers))
}

// RemoveEntriesTo implements raftio.ILogDB.
func (l *Log) RemoveEntriesTo(shardID, replicaID, index uint64) error {
	err := l.ILogDB.RemoveEntriesTo(shardID, replicaID, index)
	if err == nil {
		l.replica(shardID, replicaID).remove(index)
	}
	return err
}

// RemoveNodeData implements raftio.ILogDB. No read may be under way: it would make the files again.
func (l *Log) RemoveNodeData(shardID, replicaID uint64) error {
	r := l.replica(shardID, replicaID)
	r.retire()
	l.tails.forget(r)
	err := l.ILogDB.RemoveNodeData(shardID, replicaID)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.replicas, raftio.NodeInfo{ShardID: shardID, ReplicaID: replicaID})
	return err
}

// ImportSnapshot implements raftio.ILogDB.
func (l *Log) ImportSnapshot(snapshot raftpb.Snapshot, replicaID uint64) error {
	l.replica(snapshot.ShardID, replicaID).overwrite(0)
	return l.ILogDB.ImportSnapshot(snapshot, replicaID)
}

// Close implements raftio.ILogDB.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.loads.Wait()
	return l.ILogDB.Close()
}

// Bytes is the size of the entries that a replica's log holds.
func (l *Log) Bytes(shardID, replicaID uint64) uint64 {
	return l.replica(shardID, replicaID).bytes()
}

// IndexBefore gives the index after which the log has about `tail` bytes, or 0 if all of it has
// fewer.
func (l *Log) IndexBefore(shardID, replicaID, tail uint64) uint64 {
	return l.replica(shardID, replicaID).indexBefore(tail)
}
