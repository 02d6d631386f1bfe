package replica

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/service"
)

// Replicas of a shard are compared by hashes of their records. A command marks a moment: each
// replica takes a snapshot when it applies the entry. So all hash the state of one index, and
// writes go on meanwhile.
//
// Records are hashed by chunks. A chunk ends with a key whose own hash says so. A record that is
// missing thus changes one chunk, and not the ends of all later ones.
const (
	// One key in this number ends a chunk.
	chunkRecords = 1024
	// A mark that nobody hashes holds back the space of overwritten records, for so long at most.
	markTime = 15 * time.Minute
)

// ErrNoMark: the replica has no snapshot of the index. It has loaded a later state, or the mark was
// replaced by a later one.
var ErrNoMark = errors.New("the replica has no mark of this index")

// Chunk is a range of records: it ends with the key Last, and begins behind the chunk before it.
type Chunk struct {
	Last    uint64 `json:"last"`
	Records uint64 `json:"records"`
	Hash    string `json:"hash"`
}

// marked is the snapshot of the last mark.
type marked struct {
	at       moment
	released *time.Timer
}

// mark remembers the state of an entry, and forgets an earlier one.
func (r *Replica) mark(entry *statemachine.Entry) error {
	if err := r.writer.flush(); err != nil {
		return err
	}
	snapshot, err := r.store.Snapshot()
	if err != nil {
		return err
	}
	m := &marked{at: moment{store: r.store, snapshot: snapshot, at: position{index: entry.Index}}}
	entry.Result.Data = binary.BigEndian.AppendUint64(nil, entry.Index)
	r.setMark(m)
	return nil
}

// setMark replaces the mark: by none, if m is nil.
func (r *Replica) setMark(m *marked) {
	r.markMu.Lock()
	defer r.markMu.Unlock()
	if before := r.marked; before != nil {
		before.released.Stop()
		before.at.snapshot.Release()
	}
	r.marked = m
	close(r.markChanged)
	r.markChanged = make(chan struct{})
	if m == nil {
		return
	}
	m.released = time.AfterFunc(markTime, func() {
		r.markMu.Lock()
		defer r.markMu.Unlock()
		if r.marked == m {
			m.at.snapshot.Release()
			r.marked = nil
		}
	})
}

// takeMark waits for the mark of an index and takes it.
func (r *Replica) takeMark(ctx context.Context, index uint64) (*marked, error) {
	for {
		applied := r.Applied()
		r.markMu.Lock()
		m, changed := r.marked, r.markChanged
		if m != nil && m.at.at.index == index {
			m.released.Stop()
			r.marked = nil
			r.markMu.Unlock()
			return m, nil
		}
		r.markMu.Unlock()
		if applied >= index {
			return nil, fmt.Errorf("%w: %d", ErrNoMark, index)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Hash gives the chunks of the state of a marked index, once. It reads at most bytesPerSecond a
// second, of service.WorkBytes for each record; 0 stands for no limit.
func (r *Replica) Hash(ctx context.Context, index uint64, bytesPerSecond int64) ([]Chunk, error) {
	m, err := r.takeMark(ctx, index)
	if err != nil {
		return nil, err
	}
	defer m.at.snapshot.Release()
	chunks, err := r.hash(ctx, &m.at, bytesPerSecond)
	r.noteDamageOf(&m.at, err)
	return chunks, err
}

func (r *Replica) hash(ctx context.Context, m *moment, bytesPerSecond int64) ([]Chunk, error) {
	it, err := m.store.Iterate(engine.Walk{Snapshot: m.snapshot,
		Prefetch: Prefetch(mostPrefetched, r.config.ValueBytes)})
	if err != nil {
		return nil, err
	}
	defer it.Destroy()
	var chunks []Chunk
	valueBytes := r.config.ValueBytes
	keys, values := make([]uint64, r.stepValues()), make([]byte, r.stepValues()*valueBytes)
	hash, open := sha256.New(), Chunk{}
	end := func() {
		open.Hash = hex.EncodeToString(hash.Sum(nil)[:16])
		chunks = append(chunks, open)
		hash.Reset()
		open = Chunk{}
	}
	began, read := time.Now(), int64(0)
	for {
		taken, err := it.Take(keys, values)
		if err != nil {
			return nil, err
		}
		if taken == 0 {
			break
		}
		for i, key := range keys[:taken] {
			hash.Write(binary.BigEndian.AppendUint64(nil, key))
			hash.Write(values[i*valueBytes : (i+1)*valueBytes])
			open.Last, open.Records = key, open.Records+1
			if endsChunk(key) {
				end()
			}
		}
		read += int64(taken * service.WorkBytes(valueBytes))
		if err := rest(ctx, began, read, bytesPerSecond); err != nil {
			return nil, err
		}
	}
	if open.Records > 0 {
		// The rest of the keys.
		open.Last = r.config.Upper // not of the bounds: records that are about to go count, too
		end()
	}
	return chunks, nil
}

// rest waits until these bytes may have been read.
func rest(ctx context.Context, began time.Time, read, bytesPerSecond int64) error {
	wait := time.Duration(0)
	if bytesPerSecond > 0 {
		due := time.Duration(float64(read) / float64(bytesPerSecond) * float64(time.Second))
		wait = due - time.Since(began)
	}
	if wait <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endsChunk depends on the key alone. It mixes all bits, as SplitMix64 does: keys may be
// neighbours, or differ in their first bytes only.
func endsChunk(key uint64) bool {
	key = (key ^ key>>30) * 0xbf58476d1ce4e5b9
	key = (key ^ key>>27) * 0x94d049bb133111eb
	return (key^key>>31)%chunkRecords == 0
}
