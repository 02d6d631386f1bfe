package node

import (
	"encoding/json"
	"io"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/statemachine"
)

// directoryMachine replicates the directory, in memory.
type directoryMachine struct {
	current atomic.Pointer[Directory]
}

func newDirectoryMachine(g *Genesis) *directoryMachine {
	m := &directoryMachine{}
	m.current.Store(g.Directory())
	return m
}

// Update applies a change.
func (m *directoryMachine) Update(entry statemachine.Entry) (statemachine.Result, error) {
	var c change
	if err := json.Unmarshal(entry.Cmd, &c); err != nil {
		return statemachine.Result{Data: []byte("a malformed change")}, nil
	}
	next := m.current.Load().clone()
	value, refusal := next.apply(c)
	if refusal != "" {
		return statemachine.Result{Value: value, Data: []byte(refusal)}, nil
	}
	next.Version = entry.Index
	m.current.Store(next)
	return statemachine.Result{Value: value}, nil
}

// Lookup gives a *Directory.
func (m *directoryMachine) Lookup(any) (any, error) { return m.current.Load(), nil }

// SaveSnapshot writes the directory as JSON.
func (m *directoryMachine) SaveSnapshot(w io.Writer, _ statemachine.ISnapshotFileCollection,
	_ <-chan struct{}) error {
	return json.NewEncoder(w).Encode(m.current.Load())
}

// RecoverFromSnapshot reads it.
func (m *directoryMachine) RecoverFromSnapshot(r io.Reader, _ []statemachine.SnapshotFile,
	_ <-chan struct{}) error {
	d := &Directory{}
	if err := json.NewDecoder(r).Decode(d); err != nil {
		return err
	}
	if err := d.Ranges.Check(); err != nil {
		return err
	}
	m.current.Store(d)
	return nil
}

// Close does nothing.
func (m *directoryMachine) Close() error { return nil }
