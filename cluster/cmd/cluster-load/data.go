package main

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
)

const (
	keyBytes  = 8
	headBytes = 16                 // of a value: its key and the number of its write
	increment = 0x9e3779b97f4a7c15 // of SplitMix64
)

// mix is the finalizer of SplitMix64, a bijection of 64-bit numbers.
func mix(x uint64) uint64 {
	x += increment
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fillValue writes the value of a key's write into value: key, sequence, and words that follow from
// both. A short value has the beginning of that.
func fillValue(value []byte, key, sequence uint64) {
	var head [headBytes]byte
	binary.BigEndian.PutUint64(head[:], key)
	binary.BigEndian.PutUint64(head[keyBytes:], sequence)
	state := mix(key ^ mix(sequence))
	rest := value[copy(value, head[:]):]
	for ; len(rest) >= 8; rest = rest[8:] {
		state += increment
		binary.LittleEndian.PutUint64(rest, state^state>>29)
	}
	if len(rest) > 0 {
		state += increment
		binary.LittleEndian.PutUint64(head[:], state^state>>29)
		copy(rest, head[:])
	}
}

// verifyValue tells whether a value is one that fillValue wrote for the key. A value without its
// whole sequence shows the key alone.
func verifyValue(value []byte, key uint64) bool {
	if binary.BigEndian.Uint64(value) != key {
		return false
	}
	if len(value) < headBytes {
		return true
	}
	state := mix(key ^ mix(binary.BigEndian.Uint64(value[keyBytes:])))
	rest := value[headBytes:]
	for ; len(rest) >= 8; rest = rest[8:] {
		state += increment
		if binary.LittleEndian.Uint64(rest) != state^state>>29 {
			return false
		}
	}
	var last [8]byte
	state += increment
	binary.LittleEndian.PutUint64(last[:], state^state>>29)
	return string(rest) == string(last[:len(rest)])
}

// chooser chooses keys and kinds of commands for one client.
type chooser struct {
	options  *options
	random   *rand.Rand
	zipf     *rand.Zipf     // index i with a probability proportional to 1/(1+i)^1.01; nil: uniform
	next     *atomic.Uint64 // of --fill, shared by all clients
	sequence uint64
}

func newChooser(o *options, client int, next *atomic.Uint64) *chooser {
	c := &chooser{options: o, next: next, sequence: uint64(client+1) << 40,
		random: rand.New(rand.NewPCG(uint64(client), increment))}
	if o.distribution == "zipf" {
		c.zipf = rand.NewZipf(c.random, 1.01, 1, o.keys-1)
	}
	return c
}

// choose gives the next command. It answers false if --fill has written all keys.
func (c *chooser) choose() (key uint64, read, ok bool) {
	if c.options.fill {
		index := c.next.Add(1) - 1
		return mix(index), false, index < c.options.keys
	}
	var index uint64
	if c.zipf != nil {
		index = c.zipf.Uint64()
	} else {
		index = c.random.Uint64N(c.options.keys)
	}
	switch c.options.workload {
	case "get":
		read = true
	case "mixed":
		read = c.random.IntN(100) < c.options.readPercent
	}
	return mix(index), read, true
}

// nextSequence numbers a write: 0 for --fill, else a number that no other write of the run has.
func (c *chooser) nextSequence() uint64 {
	if c.options.fill {
		return 0
	}
	c.sequence++
	return c.sequence
}
