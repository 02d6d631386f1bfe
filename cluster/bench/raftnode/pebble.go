package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"engine_race/cluster/bench/load"
	"engine_race/cluster/service"

	"github.com/cockroachdb/pebble"
	"github.com/lni/dragonboat/v4/statemachine"
)

// appliedKey cannot be the key of a record, since those have 8 bytes.
var appliedKey = []byte("applied index")

// recoverBatchBytes is about the size of a batch that a snapshot is loaded with.
const recoverBatchBytes = 4 << 20

// pebbleMachine has the design of dragonboat's example of an on-disk state machine: each call of
// Update is one batch, which also has the applied index. Entries are stored as they are, without
// the example's JSON.
type pebbleMachine struct {
	directory string
	syncs     bool // each Update is durable when it returns
	db        *pebble.DB
}

func (m *pebbleMachine) Open(<-chan struct{}) (uint64, error) {
	if err := os.MkdirAll(m.directory, 0o755); err != nil {
		return 0, err
	}
	db, err := pebble.Open(m.directory, &pebble.Options{})
	if err != nil {
		return 0, fmt.Errorf("opening Pebble: %w", err)
	}
	m.db = db
	text, err := m.get(appliedKey)
	if err != nil || text == nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(text), nil
}

// get is nil for a missing key.
func (m *pebbleMachine) get(key []byte) ([]byte, error) {
	value, closer, err := m.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return slices.Clone(value), nil
}

func (m *pebbleMachine) writeOptions() *pebble.WriteOptions {
	if m.syncs {
		return pebble.Sync
	}
	return pebble.NoSync
}

func (m *pebbleMachine) Update(entries []statemachine.Entry) ([]statemachine.Entry, error) {
	batch := m.db.NewBatch()
	defer batch.Close()
	for i, entry := range entries {
		if len(entry.Cmd) < load.KeyBytes {
			return nil, fmt.Errorf("an entry has %d bytes", len(entry.Cmd))
		}
		key, value := entry.Cmd[:load.KeyBytes], entry.Cmd[load.KeyBytes:]
		if err := batch.Set(key, value, nil); err != nil {
			return nil, err
		}
		entries[i].Result = statemachine.Result{Value: 1}
	}
	index := binary.LittleEndian.AppendUint64(nil, entries[len(entries)-1].Index)
	if err := batch.Set(appliedKey, index, nil); err != nil {
		return nil, err
	}
	return entries, batch.Commit(m.writeOptions())
}

func (m *pebbleMachine) Lookup(key any) (any, error) {
	text, ok := key.([]byte)
	if !ok {
		return nil, fmt.Errorf("a key is bytes, not %T", key)
	}
	return m.get(text)
}

// Sync makes the batches of the past durable: the write-ahead log has one order.
func (m *pebbleMachine) Sync() error {
	if m.syncs {
		return nil
	}
	return m.db.LogData(nil, pebble.Sync)
}

func (m *pebbleMachine) PrepareSnapshot() (any, error) { return m.db.NewSnapshot(), nil }

// SaveSnapshot writes pairs of a length and bytes: a key, then its value.
func (m *pebbleMachine) SaveSnapshot(view any, to io.Writer, _ <-chan struct{}) error {
	snapshot, ok := view.(*pebble.Snapshot)
	if !ok {
		return fmt.Errorf("a snapshot is not %T", view)
	}
	defer snapshot.Close()
	all := snapshot.NewIter(nil)
	defer all.Close()
	for valid := all.First(); valid; valid = all.Next() {
		for _, text := range [][]byte{all.Key(), all.Value()} {
			length := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
			if _, err := to.Write(append(length, text...)); err != nil {
				return err
			}
		}
	}
	return all.Error()
}

// RecoverFromSnapshot puts the records over those that are there: no record is ever deleted.
func (m *pebbleMachine) RecoverFromSnapshot(from io.Reader, _ <-chan struct{}) error {
	batch := m.db.NewBatch()
	defer func() { batch.Close() }()
	for {
		key, err := readText(from)
		if errors.Is(err, io.EOF) {
			return batch.Commit(pebble.Sync)
		}
		if err != nil {
			return err
		}
		value, err := readText(from)
		if err != nil {
			return fmt.Errorf("a key without a value: %w", err)
		}
		if err := batch.Set(key, value, nil); err != nil {
			return err
		}
		if batch.Len() >= recoverBatchBytes {
			if err := batch.Commit(pebble.NoSync); err != nil {
				return err
			}
			batch.Close()
			batch = m.db.NewBatch()
		}
	}
}

// readText refuses texts that are longer than values may be: a snapshot may not let a node allocate
// as much as it likes.
func readText(from io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	bytes := binary.LittleEndian.Uint32(length[:])
	if bytes > service.MaxValueBytes {
		return nil, fmt.Errorf("a text of %d bytes in a snapshot", bytes)
	}
	text := make([]byte, bytes)
	_, err := io.ReadFull(from, text)
	return text, err
}

func (m *pebbleMachine) Close() error {
	if m.db == nil {
		return nil
	}
	return m.db.Close()
}
