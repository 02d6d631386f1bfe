package raftnode

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/statemachine"
)

// bareMachine forgets every entry. Its replica keeps only the log, and each start replays that.
type bareMachine struct {
	applied atomic.Uint64
}

func (m *bareMachine) Open(<-chan struct{}) (uint64, error) { return 0, nil }

func (m *bareMachine) Update(entries []statemachine.Entry) ([]statemachine.Entry, error) {
	m.applied.Store(entries[len(entries)-1].Index)
	return entries, nil
}

func (m *bareMachine) Lookup(any) (any, error)       { return nil, nil }
func (m *bareMachine) Sync() error                   { return nil }
func (m *bareMachine) PrepareSnapshot() (any, error) { return m.applied.Load(), nil }
func (m *bareMachine) Close() error                  { return nil }

func (m *bareMachine) SaveSnapshot(index any, to io.Writer, _ <-chan struct{}) error {
	return binary.Write(to, binary.LittleEndian, index)
}

func (m *bareMachine) RecoverFromSnapshot(from io.Reader, _ <-chan struct{}) error {
	var index uint64
	if err := binary.Read(from, binary.LittleEndian, &index); err != nil {
		return err
	}
	m.applied.Store(index)
	return nil
}
