// Package keyspace cuts the keys into ranges, one a shard. Pure functions.
package keyspace

import (
	"math/bits"
	"slices"
)

// Division is a key space of all 64-bit numbers, cut into Shards ranges. Ranges are numbered from 0
// on, in the order of their keys.
type Division struct {
	Shards uint64
	// Lowers has the lowest key of each range but the first, in ascending order. Nil: the ranges have
	// equal width.
	Lowers []uint64
}

// Range gives the range that a key lies in.
func (d Division) Range(key uint64) uint64 {
	if d.Lowers != nil {
		at, found := slices.BinarySearch(d.Lowers, key)
		if found {
			at++
		}
		return uint64(at)
	}
	high, _ := bits.Mul64(key, d.Shards)
	return high
}

// Lower gives the lowest key of a range.
func (d Division) Lower(r uint64) uint64 {
	switch {
	case r == 0:
		return 0
	case d.Lowers != nil:
		return d.Lowers[r-1]
	}
	// The smallest key with key * Shards >= r * 2^64.
	quotient, remainder := bits.Div64(r, 0, d.Shards)
	if remainder != 0 {
		quotient++
	}
	return quotient
}

// Upper gives the highest key of a range.
func (d Division) Upper(r uint64) uint64 {
	if r+1 == d.Shards {
		return ^uint64(0)
	}
	return d.Lower(r+1) - 1
}
