package main

import (
	"math/bits"
	"time"
)

// histogram counts latencies in buckets whose width is at most 1/64 of their value. Its values are
// nanoseconds.
type histogram struct {
	counts  [64 * 64]uint64
	total   uint64
	largest uint64
}

const stepBits = 6 // 2^6 buckets for each power of two

// add counts `times` operations that took `latency`.
func (h *histogram) add(latency time.Duration, times uint64) {
	if times == 0 {
		return
	}
	value := uint64(max(latency, 0))
	h.counts[bucket(value)] += times
	h.total += times
	h.largest = max(h.largest, value)
}

// bucket gives the index for a value.
func bucket(value uint64) int {
	if value < 1<<stepBits {
		return int(value)
	}
	shift := bits.Len64(value) - stepBits - 1
	return (shift+1)<<stepBits + int(value>>shift) - 1<<stepBits
}

// upper gives the greatest value of a bucket.
func upper(index int) uint64 {
	if index < 1<<stepBits {
		return uint64(index)
	}
	shift := index>>stepBits - 1
	return (uint64(index&(1<<stepBits-1))+1<<stepBits+1)<<shift - 1
}

// merge adds another histogram's counts.
func (h *histogram) merge(other *histogram) {
	for i, count := range other.counts {
		h.counts[i] += count
	}
	h.total += other.total
	h.largest = max(h.largest, other.largest)
}

// microseconds gives the latency that a share of all operations did not exceed, rounded up.
func (h *histogram) microseconds(share float64) uint64 {
	wanted := uint64(share * float64(h.total))
	value := h.largest
	seen := uint64(0)
	for i, count := range h.counts {
		if seen += count; count > 0 && seen >= wanted {
			value = min(upper(i), h.largest)
			break
		}
	}
	return (value + 999) / 1000
}
