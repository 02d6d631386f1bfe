package keyspace

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

func TestRangesCoverEveryKeyOnce(t *testing.T) {
	var maps []Map
	for shards := uint64(1); shards <= 1024; shards++ {
		maps = append(maps, NewMap(2, EqualWidths(shards)))
		for _, kind := range []string{"digits", "text"} {
			lowers, err := Like(kind, shards)
			if err != nil || uint64(len(lowers)) != shards-1 {
				t.Fatalf("%d shards like %s: %d bounds, %v", shards, kind, len(lowers), err)
			}
			maps = append(maps, NewMap(2, lowers))
		}
	}
	for _, m := range maps {
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		for i, e := range m {
			if m.Find(e.First) != i || m.Find(e.Last) != i || m.ShardOf(e.First) != uint64(i)+2 {
				t.Fatalf("%d shards: the bounds of range %d lie in ranges %d and %d", len(m), i,
					m.Find(e.First), m.Find(e.Last))
			}
			// Map.Of looks at one range after the other: all numbers of large maps would take half a minute.
			if i > 100 && i%50 != 0 {
				continue
			}
			if of, has := m.Of(uint64(i) + 2); !has || of != e || !e.Has(e.First) || !e.Has(e.Last) ||
				i > 0 && e.Has(e.First-1) {
				t.Fatalf("%d shards: range %d is %+v", len(m), i, of)
			}
		}
	}
}

func TestRangesHaveEqualWidths(t *testing.T) {
	for _, shards := range []uint64{3, 7, 64, 1000} {
		least, most := ^uint64(0), uint64(0)
		for _, e := range NewMap(2, EqualWidths(shards)) {
			least, most = min(least, e.Last-e.First), max(most, e.Last-e.First)
		}
		if most-least > 1 {
			t.Errorf("%d shards: widths from %d to %d", shards, least, most)
		}
	}
}

func TestASplitChangesOneRangeOfTheVersionThatWasSeen(t *testing.T) {
	m := NewMap(2, []uint64{100, 200})
	next, err := m.Split(3, 1, 150, 5)
	want := Map{{2, 0, 99, 1}, {3, 100, 149, 2}, {5, 150, 199, 1}, {4, 200, ^uint64(0), 1}}
	if err != nil || !slices.Equal(next, want) || next.Check() != nil {
		t.Fatalf("%+v, %v", next, err)
	}
	if !slices.Equal(m, NewMap(2, []uint64{100, 200})) {
		t.Errorf("the map before is changed: %+v", m)
	}
	for name, wrong := range map[string][4]uint64{
		"an old version": {3, 1, 120, 6}, "a later version": {3, 3, 120, 6},
		"no such shard": {9, 1, 120, 6}, "the first key": {3, 2, 100, 6},
		"a key of another shard": {3, 2, 150, 6}, "a key below": {4, 1, 199, 6},
	} {
		if got, err := next.Split(wrong[0], wrong[1], wrong[2], wrong[3]); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAWrongMapIsFound(t *testing.T) {
	last := ^uint64(0)
	for name, wrong := range map[string]Map{
		"empty": {}, "a gap": {{2, 0, 9, 1}, {3, 11, last, 1}}, "no end": {{2, 0, 9, 1}},
		"an overlap": {{2, 0, 9, 1}, {3, 9, last, 1}}, "no version": {{2, 0, last, 0}},
		"a shard twice": {{2, 0, 9, 1}, {2, 10, last, 1}}, "no begin": {{2, 1, last, 1}},
		"behind the end": {{2, 0, last, 1}, {3, 0, last, 1}},
	} {
		if wrong.Check() == nil {
			t.Errorf("%s: %+v passes", name, wrong)
		}
	}
}

func text(key uint64) string { return string(binary.BigEndian.AppendUint64(nil, key)) }

func TestKeysLikeThoseNamedHaveEqualParts(t *testing.T) {
	lowers, err := Like("digits", 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"25000000", "50000000", "75000000"} {
		if text(lowers[i]) != want {
			t.Errorf("bound %d is %q, not %q", i, text(lowers[i]), want)
		}
	}
	if lowers, _ = Like("text", 4); text(lowers[0]) != "90000000" || text(lowers[2]) != "r0000000" {
		t.Errorf("text: %q", text(lowers[0]))
	}
	if _, err := Like("nix", 4); err == nil {
		t.Error("keys like nix")
	}
}

func TestASampleSplitsTheKeySpace(t *testing.T) {
	var sample []uint64
	for i := range uint64(1000) {
		sample = append(sample, binary.BigEndian.Uint64(fmt.Appendf(nil, "user%04d", (i*7)%1000)))
	}
	for _, shards := range []uint64{1, 2, 3, 4, 64, 1000} {
		lowers, err := SplitAt(sample, shards)
		if err != nil {
			t.Fatal(err)
		}
		m, counts := NewMap(2, lowers), make([]int, shards)
		for _, key := range sample {
			counts[m.Find(key)]++
		}
		if slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("%d shards have from %d to %d keys", shards, slices.Min(counts),
				slices.Max(counts))
		}
	}
	bounds := []uint64{5, 1 << 40, 1 << 60}
	if lowers, err := SplitAt([]uint64{1 << 60, 0, 5, 5, 1 << 40}, 4); err != nil ||
		!slices.Equal(lowers, bounds) {
		t.Errorf("bounds %v, %v", lowers, err)
	}
	if _, err := SplitAt([]uint64{0, 5, 5, 7}, 4); err == nil {
		t.Error("two keys split the key space into 4 shards")
	}
}

func TestParseKeys(t *testing.T) {
	keys, err := ParseKeys("k0000001\r\n\n0x00000000000000ff\n0xabcdef")
	want := []uint64{binary.BigEndian.Uint64([]byte("k0000001")), 255,
		binary.BigEndian.Uint64([]byte("0xabcdef"))}
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("%x, %v", keys, err)
	}
	for _, wrong := range []string{"k\n", "k00000001", "0x00000000000000fg", "0x0000000000000000f"} {
		if keys, err := ParseKeys(wrong); err == nil {
			t.Errorf("%q: %x", wrong, keys)
		}
	}
}
