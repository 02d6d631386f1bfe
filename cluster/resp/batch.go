package resp

import (
	"encoding/binary"

	"engine_race/cluster/service"
)

// batch has memory that rounds of one connection use again.
type batch struct {
	requests []request
	keys     []uint64
	ops      []service.Op
	groups   []writeGroup
	groupOf  map[uint64]int // key -> the group with ops of it
}

// shrink drops memory that few rounds need.
func (b *batch) shrink() {
	clear(b.ops)
	clear(b.requests)
	if cap(b.requests) > baseSpans {
		b.requests = nil
	}
	if cap(b.keys) > baseSpans || cap(b.ops) > baseSpans {
		b.keys, b.ops = nil, nil
	}
	if len(b.groupOf) > baseSpans {
		b.groupOf = nil
	}
}

// key reads a key's 8 bytes. False: the argument has another size.
func key(argument []byte) (uint64, bool) {
	if len(argument) != service.KeyBytes {
		return 0, false
	}
	return binary.BigEndian.Uint64(argument), true
}

// appendKeyOps appends a read or a deletion of each key. Keys of other sizes are absent: it leaves
// them out.
func appendKeyOps(ops []service.Op, named [][]byte, read bool) []service.Op {
	for _, argument := range named {
		if number, isKey := key(argument); isKey {
			ops = append(ops, service.Op{Key: number, Read: read})
		}
	}
	return ops
}
