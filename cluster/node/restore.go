package node

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"engine_race/cluster/engine"
	"engine_race/cluster/keyspace"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Records of the default size that a restore writes together, and how many such writes are under
	// way.
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
	if size := cmp.Or(list.ValueBytes, service.DefaultValueBytes); size != n.ValueBytes() {
		return report, fmt.Errorf("%w: the backup has values of %d bytes, and this cluster has values "+
			"of %d", service.ErrConflict, size, n.ValueBytes())
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
	report.Bytes = report.Records * uint64(service.KeyBytes+n.ValueBytes())
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
	most    int             // records that are written together
	ops     []service.Op    // that wait for more
	keys    *keyspace.Entry // others are left out; nil: none is
}

func newRestorer(ctx context.Context, n *Node) *restorer {
	r := &restorer{node: n, work: make(chan []service.Op),
		most: service.RecordsIn(restoreRecords, n.ValueBytes())}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	for range restoreWrites {
		r.workers.Go(r.write)
	}
	return r
}

func (r *restorer) write() {
	for ops := range r.work {
		var shardIDs []uint64
		d := r.node.directory.Load()
		for _, part := range d.parts(len(ops), func(i int) uint64 { return ops[i].Key }) {
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
	if r.keys != nil && !r.keys.Has(record.Key) {
		return nil
	}
	record.Value = append([]byte(nil), record.Value...)
	r.ops = append(r.ops, record)
	if len(r.ops) < r.most {
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
	r.keys = b.Keys
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
	return replica.ReadStream(file, r.node.ValueBytes(), r.add)
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
	store, err := engine.Open(temporary, engine.Sized(r.node.config.Engine, r.node.ValueBytes()))
	if err != nil {
		return err
	}
	defer store.Close()
	it, err := store.Iterate(engine.Walk{Prefetch: replica.Prefetch(r.most, r.node.ValueBytes())})
	if err != nil {
		return err
	}
	defer it.Destroy()
	valueBytes := r.node.ValueBytes()
	keys, values := make([]uint64, r.most), make([]byte, r.most*valueBytes)
	for {
		taken, err := it.Take(keys, values)
		if err != nil || taken == 0 {
			return err
		}
		for i := range taken {
			value := values[i*valueBytes : (i+1)*valueBytes]
			if err := r.add(service.Op{Key: keys[i], Value: value}); err != nil {
				return err
			}
		}
	}
}
