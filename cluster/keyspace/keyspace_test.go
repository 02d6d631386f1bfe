package keyspace

import "testing"

func TestRangesCoverEveryKeyOnce(t *testing.T) {
	for shards := uint64(1); shards <= 1024; shards++ {
		d := Division{shards}
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
		d := Division{shards}
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
