// Package value makes 4096-byte values that prove which write they come from. A value holds its
// key, the id of its write, and filler bytes that depend on both. Decode checks each byte, so that
// a value with parts of two writes is found. All functions may be called from any goroutine.
package value

import (
	"encoding/binary"
	"errors"
	"fmt"

	"engine_race/cluster/service"
)

// ErrMixed says that a value is not the work of exactly one write to its key.
var ErrMixed = errors.New("the value does not come from one write of its key")

const headerBytes = 16

// Encode gives the value that the write `id` stores below key. Its size is service.ValueBytes.
func Encode(key, id uint64) []byte {
	value := make([]byte, service.ValueBytes)
	binary.LittleEndian.PutUint64(value, key)
	binary.LittleEndian.PutUint64(value[8:], id)
	state := mix(key) ^ id
	for at := headerBytes; at < len(value); at += 8 {
		state += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(value[at:], mix(state))
	}
	return value
}

// Decode gives the id of the write that made the value. It fails with ErrMixed if the value has a
// wrong size, belongs to another key, or has filler bytes of another write.
func Decode(key uint64, value []byte) (uint64, error) {
	if len(value) != service.ValueBytes {
		return 0, fmt.Errorf("%w: key %d has a value of %d bytes", ErrMixed, key, len(value))
	}
	if stored := binary.LittleEndian.Uint64(value); stored != key {
		return 0, fmt.Errorf("%w: key %d has the value of key %d", ErrMixed, key, stored)
	}
	id := binary.LittleEndian.Uint64(value[8:])
	state := mix(key) ^ id
	for at := headerBytes; at < len(value); at += 8 {
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
