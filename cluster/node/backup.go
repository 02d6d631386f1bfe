package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"engine_race/cluster/engine"
	"engine_race/cluster/files"
	"engine_race/cluster/keyspace"
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
	Cluster string `json:"cluster"`
	// ValueBytes is the size of all values. 0: service.DefaultValueBytes, in lists of earlier builds.
	ValueBytes int           `json:"value_bytes,omitempty"`
	Shards     []backupShard `json:"shards"`
}

type backupShard struct {
	ShardID uint64 `json:"shard"`
	Kind    string `json:"kind"`
	Records uint64 `json:"records"`
	// Keys are those of the shard at that moment. The backup may have records of others, which are
	// another shard's. Nil in lists of earlier builds: none had such records.
	Keys *keyspace.Entry `json:"keys,omitempty"`
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
	ranges := n.directory.Load().Ranges
	for _, keys := range ranges {
		if err := n.quorum(ctx, keys.Shard); err != nil {
			return report, fmt.Errorf("back up: %w", err)
		}
	}
	list := backupList{Cluster: n.state.Genesis.Cluster, ValueBytes: n.ValueBytes()}
	for _, keys := range ranges {
		b := backupShard{ShardID: keys.Shard, Keys: &keys}
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
	before := s.replica.Bounds()
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
	if err == nil && !(isOf(before, b.Keys) && isOf(s.replica.Bounds(), b.Keys)) {
		return 0, errSplitMeanwhile
	}
	return report.Bytes, lookupError(err)
}

// errSplitMeanwhile: a backup by the present map would miss records, or have some twice.
var errSplitMeanwhile = fmt.Errorf("%w: the range of the shard is being split: try again later",
	service.ErrConflict)

// isOf tells whether a shard's own bounds are those of the map.
func isOf(bounds keyspace.Entry, keys *keyspace.Entry) bool {
	return bounds.First == keys.First && bounds.Last == keys.Last && bounds.Version == keys.Version
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
	url := fmt.Sprintf("%s://%s%s?shard=%d&range=%d", n.config.Scheme, address, pathStream,
		b.ShardID, b.Keys.Version)
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
		reason, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return 0, fmt.Errorf("%s answers %s: %s", address, response.Status, bytes.TrimSpace(reason))
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	// The end of the stream proves that it is whole.
	b.Records = 0
	copied := io.TeeReader(response.Body, file)
	err = replica.ReadStream(copied, n.ValueBytes(), func(service.Op) error {
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
	var shardID, version uint64
	fmt.Sscan(r.URL.Query().Get("shard"), &shardID)
	fmt.Sscan(r.URL.Query().Get("range"), &version)
	s := n.shard(shardID)
	if s == nil || s.replica == nil {
		http.Error(w, errNotHere.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := n.soonApplied(r.Context(), s); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := s.replica.Stream(w, version, s.stopped); err != nil {
		if errors.Is(err, replica.ErrMoved) {
			http.Error(w, errSplitMeanwhile.Error(), http.StatusServiceUnavailable)
			return
		}
		n.config.Logger.Warn("cannot send a shard", "shard", shardID, "error", err)
		panic(http.ErrAbortHandler)
	}
}
