package keyspace

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

func TestRangesCoverEveryKeyOnce(t *testing.T) {
	var divisions []Division
	for shards := uint64(1); shards <= 1024; shards++ {
		divisions = append(divisions, Division{Shards: shards})
		for _, kind := range []string{"digits", "text"} {
			lowers, err := Like(kind, shards)
			if err != nil || uint64(len(lowers)) != shards-1 {
				t.Fatalf("%d shards like %s: %d bounds, %v", shards, kind, len(lowers), err)
			}
			divisions = append(divisions, Division{shards, lowers})
		}
	}
	for _, d := range divisions {
		shards := d.Shards
		if d.Lower(0) != 0 || d.Upper(shards-1) != ^uint64(0) {
			t.Fatalf("%d shards: they begin at %d and end at %d", shards, d.Lower(0),
				d.Upper(shards-1))
		}
		for r := uint64(0); r < shards; r++ {
			if d.Range(d.Lower(r)) != r || d.Range(d.Upper(r)) != r {
				t.Fatalf("%d shards: the bounds of range %d lie in ranges %d and %d", shards, r,
					d.Range(d.Lower(r)), d.Range(d.Upper(r)))
			}
			if r > 0 && d.Upper(r-1)+1 != d.Lower(r) {
				t.Fatalf("%d shards: a gap before range %d", shards, r)
			}
		}
	}
}

func TestRangesHaveEqualWidths(t *testing.T) {
	for _, shards := range []uint64{3, 7, 64, 1000} {
		d := Division{Shards: shards}
		least, most := ^uint64(0), uint64(0)
		for r := uint64(0); r < shards; r++ {
			width := d.Upper(r) - d.Lower(r)
			least, most = min(least, width), max(most, width)
		}
		if most-least > 1 {
			t.Errorf("%d shards: widths from %d to %d", shards, least, most)
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
		d, counts := Division{shards, lowers}, make([]int, shards)
		for _, key := range sample {
			counts[d.Range(key)]++
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
