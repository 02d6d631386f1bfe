package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"engine_race/cluster/engine"
	"engine_race/cluster/files"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// A backup is a directory with a list. For each shard it has a backup of the engine, or the stream
// of a snapshot where another node has the shard.
const (
	backupListName = "backup.json"
	kindEngine     = "engine"
	kindStream     = "stream"
)

// A node that sends the stream of a shard may be silent for so long.
const streamSilence = 30 * time.Second

type backupList struct {
	Cluster string        `json:"cluster"`
	Shards  []backupShard `json:"shards"`
}

type backupShard struct {
	ShardID uint64 `json:"shard"`
	Kind    string `json:"kind"`
	Records uint64 `json:"records"`
	// Of an engine's backup: it has only what changed since the backup in Since.
	Since string `json:"since,omitempty"`
}

func (b *backupShard) path(directory string) string {
	return filepath.Join(directory, fmt.Sprintf("shard-%d", b.ShardID))
}

// Backup implements service.Control. Each shard is backed up at one moment of the call, with all
// writes that were acknowledged before the call.
func (n *Node) Backup(ctx context.Context, directory, since string) (service.BackupReport, error) {
	var report service.BackupReport
	if entries, err := os.ReadDir(directory); err == nil && len(entries) > 0 {
		return report, fmt.Errorf("%w: %s is not empty", service.ErrConflict, directory)
	}
	err := errors.Join(files.MakeDirectory(directory), files.SyncDirectory(filepath.Dir(directory)))
	if err != nil {
		return report, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	earlier := map[uint64]backupShard{}
	if since != "" {
		var list backupList
		if err := readJSON(filepath.Join(since, backupListName), &list); err != nil {
			return report, fmt.Errorf("%w: %w", service.ErrInvalid, err)
		}
		for _, b := range list.Shards {
			earlier[b.ShardID] = b
		}
	}
	// A shard without a leader would hold the call up for all of its time.
	for r := range n.state.Genesis.Shards {
		if err := n.quorum(ctx, firstDataShard+r); err != nil {
			return report, fmt.Errorf("back up: %w", err)
		}
	}
	list := backupList{Cluster: n.state.Genesis.Cluster}
	for r := range n.state.Genesis.Shards {
		b := backupShard{ShardID: firstDataShard + r}
		if was, known := earlier[b.ShardID]; known && was.Kind == kindEngine {
			b.Since = was.path(since)
		}
		bytes, err := n.backupShard(ctx, &b, b.path(directory))
		if err != nil {
			return report, fmt.Errorf("back up shard %d: %w", b.ShardID, err)
		}
		report.Records += b.Records
		report.Bytes += bytes
		list.Shards = append(list.Shards, b)
	}
	// The names of the parts must be durable before the list is there: writeJSON syncs both.
	if err := writeJSON(filepath.Join(directory, backupListName), list); err != nil {
		return report, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	return report, nil
}

func (n *Node) backupShard(ctx context.Context, b *backupShard, path string) (uint64, error) {
	s := n.shard(b.ShardID)
	if s == nil {
		b.Kind, b.Since = kindStream, ""
		return n.fetchStream(ctx, b, path)
	}
	b.Kind = kindEngine
	if err := n.soonApplied(ctx, s); err != nil {
		return 0, err
	}
	report, err := s.replica.Backup(path, b.Since)
	if err != nil && b.Since != "" && errors.Is(err, engine.ErrInvalidArgument) {
		// The replica has another store by now.
		n.config.Logger.Warn("backing up a whole shard", "shard", b.ShardID, "error", err)
		b.Since = ""
		if err := os.RemoveAll(path); err != nil {
			return 0, err
		}
		report, err = s.replica.Backup(path, "")
	}
	b.Records = report.Records
	return report.Bytes, lookupError(err)
}

// soonApplied waits until the replica has applied all that was acknowledged before the call. It
// does not wait for ever: the shard may have lost its leader.
func (n *Node) soonApplied(ctx context.Context, s *shard) error {
	soon, cancel := context.WithTimeout(ctx, n.inTicks(defaultTimeout))
	defer cancel()
	err := s.barrier(soon)
	if err != nil {
		if missing := n.quorum(ctx, s.shardID); missing != nil {
			return missing
		}
	}
	return err
}

// fetchStream copies the stream of a shard from another node.
func (n *Node) fetchStream(ctx context.Context, b *backupShard, path string) (uint64, error) {
	d := n.directory.Load()
	last := fmt.Errorf("%w: no node is known to have the shard", service.ErrUnavailable)
	for _, p := range d.Shards[b.ShardID].Replicas {
		size, err := n.fetchStreamOf(ctx, d.Nodes[p.NodeID].AdminAddress, b, path)
		if err == nil {
			return size, nil
		}
		last = fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	return 0, last
}

func (n *Node) fetchStreamOf(ctx context.Context, address string, b *backupShard,
	path string) (uint64, error) {
	url := fmt.Sprintf("%s://%s%s?shard=%d", n.config.Scheme, address, pathStream, b.ShardID)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, err
	}
	// A node that was stopped keeps its connections, and sends nothing.
	watch := time.AfterFunc(streamSilence, cancel)
	defer watch.Stop()
	response, err := n.config.Client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s", address, response.Status)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	// The end of the stream proves that it is whole.
	b.Records = 0
	err = replica.ReadStream(io.TeeReader(response.Body, file), func(service.Op) error {
		watch.Reset(streamSilence)
		b.Records++
		return nil
	})
	if err := errors.Join(err, file.Sync()); err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()), nil
}

// serveStream sends the stream of a shard. A failure cuts it off.
func (n *Node) serveStream(w http.ResponseWriter, r *http.Request) {
	var shardID uint64
	fmt.Sscan(r.URL.Query().Get("shard"), &shardID)
	s := n.shard(shardID)
	if s == nil || s.replica == nil {
		http.Error(w, errNotHere.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := n.soonApplied(r.Context(), s); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := s.replica.Stream(w, s.stopped); err != nil {
		n.config.Logger.Warn("cannot send a shard", "shard", shardID, "error", err)
		panic(http.ErrAbortHandler)
	}
}

const (
	// Records that a restore writes together, and how many such writes are under way.
	restoreRecords = 128
	restoreWrites  = 8
)

// Restore implements service.Control. It writes the records like a client, so every replica gets
// them. After a failure some are there: the cluster must be emptied or made anew.
func (n *Node) Restore(ctx context.Context, directory string) (service.BackupReport, error) {
	var report service.BackupReport
	// Two would write into each other's store.
	if !n.restoring.TryLock() {
		return report, fmt.Errorf("%w: a restore is under way", service.ErrConflict)
	}
	defer n.restoring.Unlock()
	var list backupList
	if err := readJSON(filepath.Join(directory, backupListName), &list); err != nil {
		return report, fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	count, err := n.Count(ctx)
	if err != nil {
		return report, err
	}
	if count > 0 {
		return report, fmt.Errorf("%w: the cluster has %d keys, and only an empty one can be "+
			"restored into", service.ErrConflict, count)
	}
	restorer := newRestorer(ctx, n)
	for _, b := range list.Shards {
		if err := restorer.shard(b, b.path(directory)); err != nil {
			restorer.finish()
			return report, fmt.Errorf("%w: restore shard %d: %w", service.ErrUnknown, b.ShardID, err)
		}
	}
	if err := restorer.finish(); err != nil {
		return report, fmt.Errorf("%w: restore: %w", service.ErrUnknown, err)
	}
	report.Records = restorer.written.Load()
	report.Bytes = report.Records * (service.KeyBytes + service.ValueBytes)
	return report, nil
}

// restorer writes records, several writes at a time.
type restorer struct {
	node    *Node
	ctx     context.Context
	cancel  context.CancelCauseFunc
	work    chan []service.Op
	workers sync.WaitGroup
	written atomic.Uint64
	ops     []service.Op // that wait for more
}

func newRestorer(ctx context.Context, n *Node) *restorer {
	r := &restorer{node: n, work: make(chan []service.Op)}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	for range restoreWrites {
		r.workers.Go(r.write)
	}
	return r
}

func (r *restorer) write() {
	for ops := range r.work {
		var shardIDs []uint64
		for _, part := range r.node.split(len(ops), func(i int) uint64 { return ops[i].Key }) {
			shardIDs = append(shardIDs, part.shardID)
		}
		err := r.node.untilServed(r.ctx, shardIDs, func() error {
			attempt, cancel := context.WithTimeout(r.ctx, defaultTimeout)
			defer cancel()
			_, err := r.node.Write(attempt, ops, false)
			return err
		})
		if err != nil {
			r.cancel(err)
			continue
		}
		r.written.Add(uint64(len(ops)))
	}
}

// add takes a record, whose value it copies.
func (r *restorer) add(record service.Op) error {
	record.Value = append([]byte(nil), record.Value...)
	r.ops = append(r.ops, record)
	if len(r.ops) < restoreRecords {
		return nil
	}
	return r.send()
}

func (r *restorer) send() error {
	ops := r.ops
	r.ops = nil
	select {
	case r.work <- ops:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// finish waits for all writes. It is called once.
func (r *restorer) finish() error {
	if len(r.ops) > 0 {
		r.send()
	}
	close(r.work)
	r.workers.Wait()
	err := context.Cause(r.ctx)
	r.cancel(nil)
	return err
}

func (r *restorer) shard(b backupShard, path string) error {
	if b.Kind == kindStream {
		return r.stream(path)
	}
	return r.engineBackup(path)
}

func (r *restorer) stream(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return replica.ReadStream(file, r.add)
}

// engineBackup makes a temporary store of the backup, and adds its records.
func (r *restorer) engineBackup(path string) error {
	temporary := filepath.Join(r.node.config.Directory, restoreName)
	if err := os.RemoveAll(temporary); err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if err := engine.Restore(path, temporary, nil); err != nil {
		return err
	}
	store, err := engine.Open(temporary, r.node.config.Engine)
	if err != nil {
		return err
	}
	defer store.Close()
	it, err := store.Iterate(engine.Walk{Prefetch: 32})
	if err != nil {
		return err
	}
	defer it.Destroy()
	keys := make([]uint64, restoreRecords)
	values := make([]byte, restoreRecords*engine.ValueBytes)
	for {
		taken, err := it.Take(keys, values)
		if err != nil || taken == 0 {
			return err
		}
		for i := range taken {
			value := values[i*engine.ValueBytes : (i+1)*engine.ValueBytes]
			if err := r.add(service.Op{Key: keys[i], Value: value}); err != nil {
				return err
			}
		}
	}
}
