// Package value makes values that prove which write they come from. A value holds its key, the id
// of its write, and filler bytes that depend on both. Decode checks each byte, so that a value with
// parts of two writes is found. All functions may be called from any goroutine.
package value

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"engine_race/cluster/service"
)

// ErrMixed says that a value is not the work of exactly one write to its key.
var ErrMixed = errors.New("the value does not come from one write of its key")

const (
	headerBytes = 16
	wordBytes   = 8
)

// Size is the size of a cluster's values, in bytes. The zero value is the default of clusters.
type Size int

// Bytes gives the size as a number.
func (s Size) Bytes() int { return int(cmp.Or(s, service.DefaultValueBytes)) }

// Check refuses sizes without room for filler bytes. Others than powers of two are refused, too:
// stores pad some of them.
func (s Size) Check() error {
	size := s.Bytes()
	if size < 2*headerBytes || size > service.MaxValueBytes || size&(size-1) != 0 {
		return fmt.Errorf("values of %d bytes: a power of two from %d to %d is needed", size,
			2*headerBytes, service.MaxValueBytes)
	}
	return nil
}

// Encode gives the value that the write `id` stores below key.
func (s Size) Encode(key, id uint64) []byte {
	value := make([]byte, s.Bytes())
	binary.LittleEndian.PutUint64(value, key)
	binary.LittleEndian.PutUint64(value[8:], id)
	state := mix(key) ^ id
	for at := headerBytes; at < len(value); at += wordBytes {
		state += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(value[at:], mix(state))
	}
	return value
}

// Decode gives the id of the write that made the value. It fails with ErrMixed if the value has a
// wrong size, belongs to another key, or has filler bytes of another write.
func (s Size) Decode(key uint64, value []byte) (uint64, error) {
	if len(value) != s.Bytes() {
		return 0, fmt.Errorf("%w: key %d has a value of %d bytes", ErrMixed, key, len(value))
	}
	if stored := binary.LittleEndian.Uint64(value); stored != key {
		return 0, fmt.Errorf("%w: key %d has the value of key %d", ErrMixed, key, stored)
	}
	id := binary.LittleEndian.Uint64(value[8:])
	state := mix(key) ^ id
	for at := headerBytes; at < len(value); at += wordBytes {
		state += 0x9e3779b97f4a7c15
		if binary.LittleEndian.Uint64(value[at:]) != mix(state) {
			return 0, fmt.Errorf("%w: key %d, write %d, wrong bytes at offset %d",
				ErrMixed, key, id, at)
		}
	}
	return id, nil
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
