// Package keyspace cuts the keys into ranges, one a shard. Pure functions.
package keyspace

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Entry is a range of keys, First and Last included, with the shard that has it.
type Entry struct {
	Shard uint64 `json:"shard"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Version begins with 1, and rises with each change of the shard's bounds.
	Version uint64 `json:"version"`
}

// Has tells whether a key lies in the range.
func (e Entry) Has(key uint64) bool { return e.First <= key && key <= e.Last }

// Map has the ranges of all keys in their order. A Map that was published is never changed.
type Map []Entry

// NewMap gives consecutive shards from firstShard on the ranges that begin with 0 and with each of
// the keys in `lowers`, which ascend.
func NewMap(firstShard uint64, lowers []uint64) Map {
	m := Map{{Shard: firstShard, Last: ^uint64(0), Version: 1}}
	for i, lower := range lowers {
		m[i].Last = lower - 1
		m = append(m, Entry{Shard: m[i].Shard + 1, First: lower, Last: ^uint64(0), Version: 1})
	}
	return m
}

// EqualWidths gives the lowest keys of all ranges but the first, for ranges of equal width.
func EqualWidths(shards uint64) []uint64 {
	var lowers []uint64
	for r := uint64(1); r < shards; r++ {
		// The smallest key with key * shards >= r * 2^64.
		lower, remainder := bits.Div64(r, 0, shards)
		if remainder != 0 {
			lower++
		}
		lowers = append(lowers, lower)
	}
	return lowers
}

// Find gives the place of the range that has a key. The map is not empty.
func (m Map) Find(key uint64) int {
	at, found := slices.BinarySearchFunc(m, key,
		func(e Entry, key uint64) int { return cmp.Compare(e.First, key) })
	if !found {
		at--
	}
	return at
}

// ShardOf gives the shard that has a key.
func (m Map) ShardOf(key uint64) uint64 { return m[m.Find(key)].Shard }

// Of gives the range of a shard.
func (m Map) Of(shard uint64) (Entry, bool) {
	at := slices.IndexFunc(m, func(e Entry) bool { return e.Shard == shard })
	if at < 0 {
		return Entry{}, false
	}
	return m[at], true
}

// Check fails unless each key lies in exactly one range, and each shard has one.
func (m Map) Check() error {
	if len(m) == 0 {
		return fmt.Errorf("the map of ranges is empty")
	}
	next, shards := uint64(0), map[uint64]bool{}
	for i, e := range m {
		if e.First != next || e.Last < e.First || e.Version == 0 || shards[e.Shard] {
			return fmt.Errorf("the map of ranges is wrong at its entry %d: %+v", i, e)
		}
		if isLast := i == len(m)-1; isLast != (e.Last == ^uint64(0)) {
			return fmt.Errorf("the map of ranges ends wrongly at its entry %d: %+v", i, e)
		}
		shards[e.Shard], next = true, e.Last+1
	}
	return nil
}

// Split gives a map in which `to` has the keys of a shard from `key` on. It fails if the version of
// the shard's range is not `version`: somebody else has changed it.
func (m Map) Split(shard, version, key, to uint64) (Map, error) {
	at := slices.IndexFunc(m, func(e Entry) bool { return e.Shard == shard })
	switch {
	case at < 0:
		return nil, fmt.Errorf("shard %d has no keys", shard)
	case m[at].Version != version:
		return nil, fmt.Errorf("the range of shard %d has version %d, not %d", shard, m[at].Version,
			version)
	case key <= m[at].First || key > m[at].Last:
		return nil, fmt.Errorf("shard %d has the keys from %016x to %016x, and %016x does not split"+
			" them", shard, m[at].First, m[at].Last, key)
	}
	upper := Entry{Shard: to, First: key, Last: m[at].Last, Version: 1}
	next := slices.Insert(slices.Clone(m), at+1, upper)
	next[at].Last, next[at].Version = key-1, version+1
	return next, nil
}
