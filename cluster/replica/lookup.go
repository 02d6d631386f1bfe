package replica

import (
	"errors"
	"fmt"

	"engine_race/cluster/engine"
	"engine_race/cluster/keyspace"
	"engine_race/cluster/service"
)

// ReadQuery reads keys. Lookup fills Values and Results, whose memory the caller gives.
type ReadQuery struct {
	Keys    []uint64
	Values  []byte // the size of a value for each key
	Results engine.Results
	// Atomic reads all keys at one moment.
	Atomic bool
	// The bounds before and after the look-up: see Has.
	before, after keyspace.Entry
}

// Has tells whether the shard had key i all the time of the look-up. Otherwise its result says
// nothing. Keys of several calls are looked up together, so a query has no error of its own.
func (q *ReadQuery) Has(i int) bool {
	return hasAll(q.before, q.Keys[i], q.Keys[i]) && hasAll(q.after, q.Keys[i], q.Keys[i])
}

// ScanQuery walks over keys in ascending order. Lookup fills Keys, Values and More. It fails with
// ErrMoved unless the shard has all keys from Lower to Last.
type ScanQuery struct {
	Lower      uint64
	Last       uint64  // included
	Upper      *uint64 // not included; nil: up to Last
	Limit      int
	WithValues bool
	// Outside: the keys are no longer the shard's. Records of them wait to be copied or deleted.
	Outside bool

	Keys   []uint64
	Values []byte
	More   bool
}

// CountQuery counts live keys into Count. Lookup fails with ErrMoved unless the keys of the shard
// are those from First to Last.
type CountQuery struct {
	First, Last uint64
	Count       uint64
}

const (
	// Values of the default size that a walk reads ahead. The engine keeps memory for them.
	prefetched = 32
	// The most that the engine takes.
	mostPrefetched = 64
)

// Prefetch is how many values a walk over some records reads ahead. One read brings many small
// values, so more of them cost less each.
func Prefetch(records, valueBytes int) int {
	return min(records, mostPrefetched, service.RecordsIn(prefetched, valueBytes))
}

// Values that one step of a walk or of a look-up holds in memory, at most.
const mostStepValues = 64

func stepValues(valueBytes int) int { return service.ValuesIn(mostStepValues, valueBytes) }

func (r *Replica) stepValues() int { return stepValues(r.config.ValueBytes) }

// MaxScanLimit is the most records that a scan gives.
const MaxScanLimit = 1 << 20

// Keys that a count takes at a time.
const countChunk = 4096

// Lookup answers a *ReadQuery, *ScanQuery or *CountQuery, in place.
func (r *Replica) Lookup(query any) (any, error) {
	switch q := query.(type) {
	case *ReadQuery:
		return q, r.withStore(func() error { return r.read(q) })
	case *ScanQuery:
		return q, r.withStore(func() error {
			if q.Outside {
				return r.outside(q.Lower, q.Last, func() error { return r.scan(q) })
			}
			return r.within(q.Lower, q.Last, func() error { return r.scan(q) })
		})
	case *CountQuery:
		return q, r.within(q.First, q.Last, func() error {
			if b := r.Bounds(); b.First != q.First || b.Last != q.Last {
				return ErrMoved
			}
			return r.countKeys(q)
		})
	}
	return nil, fmt.Errorf("a query of an unknown type %T", query)
}

// withStore calls `look` while the store is open, beside a bounded number of others.
func (r *Replica) withStore(look func() error) error {
	r.lookups <- struct{}{}
	defer func() { <-r.lookups }()
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.isWhole() {
		return ErrClosed
	}
	err := look()
	r.noteDamage(err)
	return err
}

// IsStillAt tells whether the replica has begun no Update and has loaded no snapshot since Applied
// gave the index.
func (r *Replica) IsStillAt(index uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.isWhole() && r.begun.Load() == index
}

func (r *Replica) read(q *ReadQuery) error {
	q.before = r.Bounds()
	readMany := r.store.ReadMany
	if q.Atomic && len(q.Keys) > 1 {
		snapshot, err := r.store.Snapshot()
		if err != nil {
			return err
		}
		defer snapshot.Release()
		readMany = snapshot.ReadMany
	}
	err := readMany(q.Keys, q.Values, q.Results)
	q.after = r.Bounds()
	r.noteResults(q.Results)
	return err
}

// noteResults looks for damaged records among those that were read.
func (r *Replica) noteResults(results engine.Results) {
	for i := range results {
		if err := results.Err(i); err != nil && !errors.Is(err, engine.ErrNotFound) {
			r.noteDamage(err)
		}
	}
}

func (r *Replica) scan(q *ScanQuery) error {
	if q.Limit < 1 || q.Limit > MaxScanLimit {
		return fmt.Errorf("a scan of %d records: from 1 to %d are possible", q.Limit, MaxScanLimit)
	}
	prefetch := 0
	if q.WithValues {
		prefetch = Prefetch(q.Limit, r.config.ValueBytes)
	}
	upper := q.Upper
	if upper == nil || *upper > q.Last {
		upper = behind(q.Last)
	}
	it, err := r.store.Iterate(engine.Walk{Lower: q.Lower, Upper: upper, Prefetch: prefetch})
	if err != nil {
		return err
	}
	defer it.Destroy()
	// One key more tells whether there are further ones.
	keys := make([]uint64, q.Limit+1)
	var values []byte
	if q.WithValues {
		values = make([]byte, q.Limit*r.config.ValueBytes)
	}
	taken, err := it.Take(keys[:q.Limit], values)
	if err != nil {
		return err
	}
	q.Keys = keys[:taken]
	if q.WithValues {
		q.Values = values[:taken*r.config.ValueBytes]
	}
	if taken < q.Limit {
		return nil
	}
	further, err := it.Take(keys[q.Limit:], nil)
	q.More = further > 0
	return err
}

// behind gives an upper bound that is not included; nil: there is none.
func behind(last uint64) *uint64 {
	if last == ^uint64(0) {
		return nil
	}
	last++
	return &last
}

// countKeys lets one call at a time walk over all keys, so that counts leave room for other
// lookups. The calls that wait meanwhile share the next walk: it begins after they came.
func (r *Replica) countKeys(q *CountQuery) error {
	came := r.countsBegun.Load()
	r.countMu.Lock()
	defer r.countMu.Unlock()
	if r.countNumber <= came {
		if err := r.withStore(r.countAgain); err != nil {
			return err
		}
	}
	q.Count = r.count
	return nil
}

// countAgain walks over all keys, unless nothing was applied since the last count.
func (r *Replica) countAgain() error {
	index := r.Applied()
	isQuiet := func() bool { return index != 0 && r.begun.Load() == index }
	if r.countIndex == index && isQuiet() {
		return nil
	}
	number, wasQuiet := r.countsBegun.Add(1), isQuiet()
	bounds := r.Bounds()
	it, err := r.store.Iterate(engine.Walk{Lower: bounds.First, Upper: behind(bounds.Last)})
	if err != nil {
		return err
	}
	defer it.Destroy()
	keys, count := make([]uint64, countChunk), uint64(0)
	for {
		taken, err := it.Take(keys, nil)
		if err != nil {
			return err
		}
		count += uint64(taken)
		if taken < len(keys) {
			break
		}
	}
	r.count, r.countNumber, r.countIndex = count, number, 0
	// Beside an Update the walk may show a part of its entries: it is not the count of an index.
	if wasQuiet && isQuiet() {
		r.countIndex = index
	}
	return nil
}
