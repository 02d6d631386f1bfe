package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
)

// A stream is a header, blocks of records and an end. The header is a magic number and the applied
// index. The magic number tells what follows: the highest token of a command if there is one. The
// bounds of the shard come behind it if a command has changed them. A block is the number of its
// records, their keys and their values, whose size is the cluster's. The end is a block without
// records and the number of all records. A CRC-32C follows each of them. Numbers are big-endian.
const (
	firstMagic  = 0x6572_736e_6170_0001
	tokenMagic  = 0x6572_736e_6170_0002
	boundsMagic = 0x6572_736e_6170_0003
)

var errDamagedStream = errors.New("a damaged stream of a snapshot")

// moment is the state of a store that a snapshot shows, with the index of its last entry.
type moment struct {
	store    *engine.Store
	snapshot *engine.Snapshot
	at       position
}

// noSnapshotError is why no snapshot can be begun. Where dragonboat meets ErrSnapshotStopped at
// that point, it removes a directory that it has not made yet, which panics. For any error that it
// does not know it ends the process. It gives a snapshot up quietly for ErrSnapshotStreaming, if it
// was to be streamed, and otherwise for an internal error, "snapshot out of date".
type noSnapshotError struct{ cause error }

func (e *noSnapshotError) Error() string { return "no snapshot: " + e.cause.Error() }

// Is takes the place of dragonboat's errors. Unwrap is missing on purpose: dragonboat must not find
// ErrSnapshotStopped in the cause.
func (e *noSnapshotError) Is(target error) bool {
	return target == statemachine.ErrSnapshotStreaming ||
		target != nil && target.Error() == "snapshot out of date"
}

// PrepareSnapshot takes a snapshot of the store. It fails with a noSnapshotError.
func (r *Replica) PrepareSnapshot() (any, error) {
	m, err := r.prepare()
	if err == nil {
		return m, nil
	}
	r.config.Logger.Warn("cannot prepare a snapshot", "error", err)
	return nil, &noSnapshotError{err}
}

func (r *Replica) prepare() (*moment, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.isWhole() {
		return nil, ErrClosed
	}
	snapshot, err := r.store.Snapshot()
	if err != nil {
		return nil, err
	}
	return &moment{r.store, snapshot, *r.applied.Load()}, nil
}

// SaveSnapshot streams what PrepareSnapshot took, and releases it. It ends when its store is
// closed: the receiver may be slow, and must not hold up the replica. Dragonboat ends the process
// for errors that are not its own. One of the store, such as a rotten record, is kept as a failure.
func (r *Replica) SaveSnapshot(context any, w io.Writer, stopped <-chan struct{}) error {
	err := r.saveAndRelease(context.(*moment), w, stopped)
	if err == nil || errors.Is(err, statemachine.ErrSnapshotStreaming) ||
		errors.Is(err, statemachine.ErrSnapshotStopped) {
		return err
	}
	r.config.Logger.Warn("cannot save a snapshot", "error", err)
	return statemachine.ErrSnapshotStopped
}

func (r *Replica) saveAndRelease(m *moment, w io.Writer, stopped <-chan struct{}) error {
	defer m.snapshot.Release()
	err := r.save(m, w, stopped)
	if !r.noteDamageOf(m, err) && err != nil {
		return statemachine.ErrSnapshotStopped
	}
	return err
}

// noteDamageOf looks at the error of a walk over a moment. False: its store was closed meanwhile,
// and the error says nothing of the one that took its place.
func (r *Replica) noteDamageOf(m *moment, err error) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.store != m.store {
		return false
	}
	r.noteDamage(err)
	return true
}

func (r *Replica) save(m *moment, w io.Writer, stopped <-chan struct{}) error {
	it, err := m.store.Iterate(engine.Walk{Snapshot: m.snapshot,
		Prefetch: Prefetch(mostPrefetched, r.config.ValueBytes)})
	if err != nil {
		return err
	}
	defer it.Destroy()
	if err := writeHeader(w, m.at); err != nil {
		return err
	}
	keys := make([]uint64, r.stepValues())
	values := make([]byte, len(keys)*r.config.ValueBytes)
	block, total := []byte(nil), uint64(0)
	for {
		if isClosed(stopped) || r.stopping.Load() {
			return statemachine.ErrSnapshotStopped
		}
		taken, err := it.Take(keys, values)
		if err != nil {
			return err
		}
		total += uint64(taken)
		block = binary.BigEndian.AppendUint32(block[:0], uint32(taken))
		for _, key := range keys[:taken] {
			block = binary.BigEndian.AppendUint64(block, key)
		}
		block = append(block, values[:taken*r.config.ValueBytes]...)
		if taken == 0 {
			return writeChecked(w, binary.BigEndian.AppendUint64(block, total))
		}
		if err := writeChecked(w, block); err != nil {
			return err
		}
	}
}

// writeHeader keeps to the first format while no command has had a token. It keeps to the second
// one while the bounds are the first ones. The receiver may not know the later one.
func writeHeader(w io.Writer, at position) error {
	magic, further := uint64(firstMagic), []byte(nil)
	if at.token != 0 {
		magic, further = tokenMagic, binary.BigEndian.AppendUint64(nil, at.token)
	}
	if at.hasBounds() {
		magic, further = boundsMagic, appendBounds(
			binary.BigEndian.AppendUint64(nil, at.token), at.bounds)
	}
	header := binary.BigEndian.AppendUint64(nil, magic)
	err := writeChecked(w, binary.BigEndian.AppendUint64(header, at.index))
	if err != nil || len(further) == 0 {
		return err
	}
	return writeChecked(w, further)
}

func writeChecked(w io.Writer, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return err
	}
	_, err := w.Write(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli)))
	return err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Backup writes a backup of what was applied before the call, as engine.Store.Backup does.
func (r *Replica) Backup(directory, since string) (engine.BackupReport, error) {
	r.mu.RLock()
	store, isWhole := r.store, r.isWhole()
	r.mu.RUnlock()
	if !isWhole {
		return engine.BackupReport{}, ErrClosed
	}
	report, err := store.Backup(directory, since)
	r.noteDamage(err)
	return report, err
}

// Stream writes the records that were applied before the call, as SaveSnapshot does. It fails with
// ErrMoved unless the shard's bounds have the version.
func (r *Replica) Stream(w io.Writer, version uint64, stopped <-chan struct{}) error {
	// A new shard's last records come before its bounds.
	if r.Bounds().Version != version {
		return ErrMoved
	}
	m, err := r.prepare()
	if err != nil {
		return err
	}
	// Records go later than the bounds that they belong to: see changeBounds.
	if r.Bounds().Version != version {
		m.snapshot.Release()
		return ErrMoved
	}
	return r.saveAndRelease(m, w, stopped)
}

// RecoverFromSnapshot replaces the store by the stream's records. A process that ends meanwhile
// finds no index, and begins anew. After a failure it waits until dragonboat stops the replica: it
// ends the process for any other error.
func (r *Replica) RecoverFromSnapshot(stream io.Reader, stopped <-chan struct{}) error {
	err := r.recover(stream, stopped)
	if err == nil || errors.Is(err, statemachine.ErrSnapshotStopped) {
		return err
	}
	r.fail(fmt.Errorf("load a snapshot: %w", err), true)
	<-stopped
	return statemachine.ErrSnapshotStopped
}

func (r *Replica) recover(stream io.Reader, stopped <-chan struct{}) error {
	if err := r.closeStore(); err != nil {
		return err
	}
	if err := removeApplied(r.config.Directory); err != nil {
		return err
	}
	r.applied.Store(&position{})
	r.synced.Store(0)
	r.countMu.Lock()
	r.countIndex = 0
	r.countMu.Unlock()
	store, err := r.openStore(true)
	if err != nil {
		return err
	}
	// Lookups fail until the whole stream is there.
	at, err := r.load(store, stream, stopped)
	if err == nil {
		err = r.publish(store, at)
	}
	if err != nil {
		// Dragonboat does not look into joined errors, and must find ErrSnapshotStopped.
		if closing := store.Close(); closing != nil {
			r.config.Logger.Error("cannot close a store", "error", closing)
		}
		return err
	}
	return nil
}
