// Package multiread is the engine itself as an opponent of the bench: one store in one process.
// Its clients write single records and read many at once, without a network or replicas.
//
// A Store's Do is for one goroutine at a time. It starts the clients' goroutines and waits for
// them. A Store owns its directory until Close.
package multiread

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"engine_race/cluster/bench/load"
	"engine_race/cluster/engine"
)

// Kind is the opponent's name.
const Kind = "multi_read"

// Store is an open store.
type Store struct{ store *engine.Store }

// Open opens the store in a directory, made when missing. It has as many buckets and files as the
// stores of engine-raced, and values of this size.
func Open(directory string, memoryBytes uint64, valueBytes int) (*Store, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	store, err := engine.Open(directory, engine.Sized(map[string]string{"bucket_count": "16",
		"file_count": "4", "memory_budget_bytes": strconv.FormatUint(memoryBytes, 10)}, valueBytes))
	if err != nil {
		return nil, err
	}
	return &Store{store: store}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.store.Close() }

// Do works off an order. A fill is durable when it returns.
func (s *Store) Do(work load.Work) (load.Figures, error) {
	switch work.Kind {
	case load.State:
		return load.Figures{Leads: true}, nil
	case load.Fill, load.Write:
		return s.write(work)
	case load.LocalRead:
		return s.read(work)
	}
	return load.Figures{}, fmt.Errorf("the store cannot do %q", work.Kind)
}

func (s *Store) write(work load.Work) (load.Figures, error) {
	batches := make([]*engine.Batch, work.Clients)
	for i := range batches {
		var err error
		if batches[i], err = engine.NewBatch(s.store.ValueBytes()); err != nil {
			return load.Figures{}, err
		}
		defer batches[i].Destroy()
	}
	figures, err := load.Run(work, func(client int, keys []uint64, value []byte) (int, error) {
		batch := batches[client]
		batch.Clear()
		if err := batch.Put(keys[0], value); err != nil {
			return 0, err
		}
		return 0, s.store.Write(batch)
	})
	if err == nil && work.Kind == load.Fill {
		err = s.store.Sync()
	}
	return figures, err
}

// reader has the memory of one client.
type reader struct {
	values  []byte // of one size
	results engine.Results
}

func (s *Store) read(work load.Work) (load.Figures, error) {
	depth := max(work.Depth, 1)
	readers := make([]reader, work.Clients)
	for i := range readers {
		readers[i] = reader{values: make([]byte, depth*s.store.ValueBytes()),
			results: make(engine.Results, depth)}
	}
	return load.Run(work, func(client int, keys []uint64, _ []byte) (int, error) {
		r := &readers[client]
		if err := s.store.ReadMany(keys, r.values, r.results); err != nil {
			return 0, err
		}
		return r.check(keys)
	})
}

// check counts the keys that are missing. A value must begin with its key.
func (r *reader) check(keys []uint64) (missing int, err error) {
	for i, key := range keys {
		err := r.results.Err(i)
		if errors.Is(err, engine.ErrNotFound) {
			missing++
			continue
		}
		if err != nil {
			return missing, err
		}
		if value := r.values[i*len(r.values)/len(r.results):]; string(value[:load.KeyBytes]) !=
			string(load.KeyText(key)) {
			return missing, fmt.Errorf("key %x has the value of %x", key, value[:load.KeyBytes])
		}
	}
	return missing, nil
}
