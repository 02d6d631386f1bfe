package keyspace

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const keyBytes = 8

// SplitAt gives the lowest keys of all ranges but the first, so that ranges have equally many of
// the sample's keys. A sample of shards - 1 keys has these bounds themselves.
func SplitAt(sample []uint64, shards uint64) ([]uint64, error) {
	sample = slices.Clone(sample)
	slices.Sort(sample)
	sample = slices.Compact(sample)
	if len(sample) > 0 && sample[0] == 0 {
		sample = sample[1:] // The first range begins there.
	}
	if uint64(len(sample)) < shards-1 {
		return nil, fmt.Errorf("%d keys above 0 split no key space into %d shards", len(sample), shards)
	}
	var lowers []uint64
	for r := uint64(1); r < shards; r++ {
		lowers = append(lowers, sample[r*uint64(len(sample))/shards])
	}
	return lowers, nil
}

// alphabets are the characters of keys by the names of Like, in ascending order.
var alphabets = map[string]string{
	"digits": "0123456789",
	"text":   "0123456789abcdefghijklmnopqrstuvwxyz",
}

// Like gives the lowest keys of all ranges but the first. Keys have 8 characters, each with equal
// probability: "digits", or "text" of digits and lower-case letters.
func Like(kind string, shards uint64) ([]uint64, error) {
	alphabet, known := alphabets[kind]
	if !known {
		return nil, fmt.Errorf("%q is not one of %s", kind,
			strings.Join(slices.Sorted(maps.Keys(alphabets)), ", "))
	}
	base := uint64(len(alphabet))
	all := uint64(1)
	for range keyBytes {
		all *= base
	}
	var lowers []uint64
	for r := uint64(1); r < shards; r++ {
		var key [keyBytes]byte
		for i, rest := keyBytes-1, r*all/shards; i >= 0; i, rest = i-1, rest/base {
			key[i] = alphabet[rest%base]
		}
		lowers = append(lowers, binary.BigEndian.Uint64(key[:]))
	}
	return lowers, nil
}

// ParseKeys reads keys, one a line: 8 characters, or 16 hexadecimal digits behind 0x.
func ParseKeys(text string) ([]uint64, error) {
	var keys []uint64
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		hexadecimal, isNumber := strings.CutPrefix(line, "0x")
		switch {
		case line == "":
		case len(line) == keyBytes:
			keys = append(keys, binary.BigEndian.Uint64([]byte(line)))
		case isNumber && len(hexadecimal) == 2*keyBytes:
			key, err := strconv.ParseUint(hexadecimal, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %q is no number", number, hexadecimal)
			}
			keys = append(keys, key)
		default:
			return nil, fmt.Errorf("line %d has %d bytes: a key has 8 characters, or 0x and 16"+
				" hexadecimal digits", number, len(line))
		}
	}
	return keys, nil
}
