package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/service"
)

const (
	// A batch of so many ops or bytes is written to the store. The staging of one bucket holds more
	// values of 4096 bytes. An entry is not divided, so a batch may be longer by its last entry.
	maxBatchOps   = 128
	maxBatchBytes = maxBatchOps * service.DefaultValueBytes
	// A batch keeps the memory of its ops for later ones, if it was no longer than so many batches.
	keptBatches = 8
	// Between two tries to write to a full disk.
	fullDelay = 100 * time.Millisecond
)

// errStopped: the replica was stopped while it waited for room on a full disk.
var errStopped = errors.New("the replica was stopped")

// Update applies entries in their order. An entry is applied as a whole. It ends the process at a
// command that a newer program has proposed: the other replicas may apply it.
func (r *Replica) Update(entries []statemachine.Entry) ([]statemachine.Entry, error) {
	r.lockUpdates(context.Background())
	defer r.unlockUpdates()
	r.begun.Store(entries[len(entries)-1].Index)
	at, err := *r.applied.Load(), errStopped
	if !r.dead.Load() {
		err = r.applyAll(entries, &at)
	}
	if err != nil {
		// Dragonboat ends the process when Update fails, with the replicas of all shards. This one
		// stores no index any more, so its next opening applies the entries.
		r.dead.Store(true)
		if !errors.Is(err, errStopped) {
			r.fail(err, true)
		}
		for i := range entries {
			entries[i].Result = statemachine.Result{Value: ResultStopped}
		}
		return entries, nil
	}
	at.index = entries[len(entries)-1].Index
	r.applied.Store(&at)
	r.logMessages(r.store)
	return entries, nil
}

// applyAll brings the token and the bounds of a position to those of the last entry.
func (r *Replica) applyAll(entries []statemachine.Entry, at *position) error {
	for i := range entries {
		if err := r.apply(&entries[i], at); err != nil {
			return fmt.Errorf("apply entry %d: %w", entries[i].Index, err)
		}
	}
	if err := r.writer.flush(); err != nil {
		return fmt.Errorf("apply entries up to %d: %w", entries[len(entries)-1].Index, err)
	}
	return nil
}

func (r *Replica) apply(entry *statemachine.Entry, at *position) error {
	h, ops, err := r.parse(entry.Cmd)
	if errors.Is(err, errNewer) {
		panic(fmt.Sprintf("entry %d of the replica in %s: %v", entry.Index, r.config.Directory, err))
	}
	if err != nil {
		entry.Result.Value = ResultMalformed
		return nil
	}
	// A command of the first version has no token.
	if h.Version > firstVersion && h.Token < at.token {
		entry.Result.Value = ResultLate
		return nil
	}
	at.token = max(at.token, h.Token)
	if h.Bounds {
		return r.changeBounds(entry, ops, at)
	}
	if !r.mayApply(h, ops) {
		entry.Result.Value = ResultMoved
		return nil
	}
	entry.Result.Value = ResultApplied
	r.track(ops)
	// A replica that catches up applies many commands at once: their values would fill its memory.
	if h.Counted && (!h.Reads || h.Reader == r.reader) {
		if err := r.writer.flush(); err != nil {
			return err
		}
		if entry.Result.Data, err = r.existing(ops); err != nil {
			return err
		}
	}
	if h.Mark {
		if err := r.mark(entry); err != nil {
			return err
		}
	}
	if err := r.writer.batch.Append(ops); err != nil {
		return err
	}
	return r.writer.flushFull()
}

// existing tells of each op whether its key is there when the op comes, and of a read the value.
func (r *Replica) existing(ops []byte) ([]byte, error) {
	existed := make([]byte, 0, len(ops)/opHeaderBytes)
	valueBytes, most := r.config.ValueBytes, r.stepValues()
	changed := map[uint64][]byte{} // the values of earlier ops, nil after a deletion
	for len(ops) > 0 {
		looked := &r.looked
		looked.keys = looked.keys[:0]
		for rest := ops; len(rest) > 0 && len(looked.keys) < most; {
			op, after := r.next(rest)
			looked.keys = append(looked.keys, op.Key)
			rest = after
		}
		values, results := looked.room(most, valueBytes)
		if err := r.store.ReadMany(looked.keys, values, results); err != nil {
			return nil, err
		}
		for i := range looked.keys {
			op, rest := r.next(ops)
			ops = rest
			value, known := changed[op.Key]
			was := byte(foundNothing)
			switch err := results.Err(i); {
			case known && value != nil:
				was = foundThere
			case !known && err == nil:
				was = foundThere
				value = values[i*valueBytes:][:valueBytes]
			case !known && op.Read && !errors.Is(err, engine.ErrNotFound):
				was = foundDamaged
				r.noteDamage(err)
			case !known && !errors.Is(err, engine.ErrNotFound):
				was = foundThere // A damaged record was there.
			}
			existed = append(existed, was)
			if op.Read && was == foundThere {
				existed = append(existed, value...)
			}
			if !op.Read {
				changed[op.Key] = op.Value
			}
		}
	}
	return existed, nil
}

// looked is the memory in which Update looks for the keys of counted ops.
type looked struct {
	keys    []uint64
	values  []byte
	results engine.Results
}

// room gives memory for the values of the keys, of which there are `most` at most. A deletion has 9
// bytes in a command, so there may be many: their values never lie in memory together.
func (l *looked) room(most, valueBytes int) ([]byte, engine.Results) {
	if l.values == nil {
		l.values = make([]byte, most*valueBytes)
		l.results = make(engine.Results, most)
	}
	return l.values[:len(l.keys)*valueBytes], l.results[:len(l.keys)]
}

// writer collects ops and writes them to a store in batches.
type writer struct {
	replica *Replica
	store   *engine.Store
	batch   *engine.Batch
	ended   func() error // fails when nobody waits for room on a full disk any more
}

func (r *Replica) newWriter(store *engine.Store, ended func() error) (writer, error) {
	batch, err := engine.NewBatch(r.config.ValueBytes)
	return writer{replica: r, store: store, batch: batch, ended: ended}, err
}

func (w *writer) destroy() { w.batch.Destroy() }

// isFull tells whether the batch is as long as `batches` of those that are written.
func (w *writer) isFull(batches int) bool {
	return w.batch.Len() >= batches*maxBatchOps || w.batch.Bytes() >= batches*maxBatchBytes
}

// flushFull writes the batch if it is long enough.
func (w *writer) flushFull() error {
	if !w.isFull(1) {
		return nil
	}
	return w.flush()
}

// flush writes the batch. On a full disk it waits for room: an entry that is committed cannot be
// refused.
func (w *writer) flush() error {
	if w.batch.Len() == 0 {
		return nil
	}
	r := w.replica
	defer r.full.Store(false)
	for {
		err := w.store.Write(w.batch)
		if err == nil {
			return w.clear()
		}
		if !errors.Is(err, engine.ErrFull) {
			return err
		}
		if err := w.ended(); err != nil {
			return err
		}
		if !r.full.Swap(true) {
			r.config.Logger.Error("the disk is full: the replica waits for room",
				"directory", r.config.Directory, "error", err)
		}
		time.Sleep(fullDelay)
	}
}

// clear empties the batch.
func (w *writer) clear() error {
	if !w.isFull(keptBatches) {
		w.batch.Clear()
		return nil
	}
	batch, err := engine.NewBatch(w.replica.config.ValueBytes)
	if err != nil {
		return err
	}
	w.batch.Destroy()
	w.batch = batch
	return nil
}
