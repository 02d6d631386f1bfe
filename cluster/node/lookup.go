package node

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"engine_race/cluster/engine"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// readIndex says how the request for a read index has ended. The replica isQuiet if it has begun to
// apply nothing since before the request.
type readIndex struct {
	err     error
	isQuiet bool
}

// lookTogether looks the keys of several calls up, and answers when the read index has come. With
// `early` it looks at once. The replica then had all entries up to the index, unless it was not
// quiet: so it looks again.
func lookTogether(from *replica.Replica, reads []*read, early bool, indexed <-chan readIndex) {
	memory := newReadMemory(len(reads), from.ValueBytes())
	memory.users.Store(int32(len(reads)))
	for i, r := range reads {
		memory.Keys[i] = r.key
	}
	var err error
	if early {
		_, err = from.Lookup(&memory.ReadQuery)
	}
	index := <-indexed
	if index.err != nil {
		answer(reads, index.err)
		return
	}
	if !early || !index.isQuiet || err != nil {
		_, err = from.Lookup(&memory.ReadQuery)
	}
	if err != nil {
		answer(reads, lookupError(err))
		return
	}
	for i, r := range reads {
		r.memory = memory
		r.value, err = memory.value(i)
		r.done <- err
	}
}

// readKeys gives the values of a replica's keys at one moment, nil where one is absent. They may be
// used until release is called.
func readKeys(from *replica.Replica, keys []uint64) (values [][]byte, release func(), err error) {
	memory := newReadMemory(len(keys), from.ValueBytes())
	memory.users.Store(1)
	copy(memory.Keys, keys)
	memory.Atomic = len(keys) > 1
	if _, err := from.Lookup(&memory.ReadQuery); err != nil {
		return nil, nil, lookupError(err)
	}
	values = make([][]byte, len(keys))
	for i := range values {
		if values[i], err = memory.value(i); err != nil {
			return nil, nil, err
		}
	}
	return values, memory.release, nil
}

// readMemory is a query with the memory of its answer, which later queries use again. Memory of a
// call that gave up is never released, and goes to the garbage collector.
type readMemory struct {
	replica.ReadQuery
	valueBytes int
	users      atomic.Int32
}

var readMemories sync.Pool

// Memory for so many values is allocated at least.
const leastReadKeys = 16

func newReadMemory(keys, valueBytes int) *readMemory {
	m, _ := readMemories.Get().(*readMemory)
	// Nodes of other clusters may run in the process of a test.
	if m == nil || cap(m.Keys) < keys || m.valueBytes != valueBytes {
		room := max(keys, service.ValuesIn(leastReadKeys, valueBytes))
		m = &readMemory{valueBytes: valueBytes, ReadQuery: replica.ReadQuery{
			Keys: make([]uint64, room), Values: make([]byte, room*valueBytes),
			Results: make(engine.Results, room)}}
	}
	m.Keys, m.Values = m.Keys[:keys], m.Values[:keys*valueBytes]
	m.Results, m.Atomic = m.Results[:keys], false
	return m
}

// release is called once by each user.
func (m *readMemory) release() {
	if m.users.Add(-1) == 0 && cap(m.Keys) <= maxReadKeysOf(m.valueBytes) {
		readMemories.Put(m)
	}
}

// value gives the value of key number i, nil if it is absent.
func (m *readMemory) value(i int) ([]byte, error) {
	if !m.Has(i) {
		return nil, errMoved
	}
	err := m.Results.Err(i)
	if err == nil {
		from, to := i*m.valueBytes, (i+1)*m.valueBytes
		return m.Values[from:to:to], nil
	}
	if errors.Is(err, engine.ErrNotFound) {
		return nil, nil
	}
	return nil, lookupError(fmt.Errorf("key %016x: %w", m.Keys[i], err))
}

// lookupError turns errors of a replica into those of the service.
func lookupError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, replica.ErrMoved):
		return errMoved
	case errors.Is(err, replica.ErrClosed):
		return fmt.Errorf("%w: %w", service.ErrLoading, err)
	case errors.Is(err, engine.ErrCorruption):
		return fmt.Errorf("%w: %w", service.ErrCorrupt, err)
	}
	return fmt.Errorf("%w: %w", service.ErrUnavailable, err)
}
