package node

import (
	"slices"
	"testing"

	"engine_race/cluster/service"
)

// scanAll walks over all keys, `limit` at a time, as SCAN does.
func scanAll(t *testing.T, n *testNode, limit int, withValues bool) []uint64 {
	t.Helper()
	var keys []uint64
	for lower := uint64(0); ; {
		records, more, err := n.Scan(soon(t), lower, nil, limit, withValues, service.Linearizable)
		if err != nil || len(records) > limit {
			t.Fatalf("%d records, %v", len(records), err)
		}
		for _, r := range records {
			keys = append(keys, r.Key)
		}
		if !more {
			return keys
		}
		lower = keys[len(keys)-1] + 1
	}
}

func TestScansOverSparseShards(t *testing.T) {
	c := newCluster(t, 1, 16, 1)
	c.awaitReady()
	n := c.nodes[1]
	// Keys of neighbouring numbers lie in one shard. Most shards have none.
	var want []uint64
	for _, r := range []uint64{0, 5, 6, 13} {
		for i := range uint64(5) {
			want = append(want, r<<60+i)
		}
	}
	for _, key := range want {
		put(t, n, key, 1)
	}
	for _, limit := range []int{1, 2, 5, 7, 19, 20, 21, 100} {
		for _, withValues := range []bool{false, true} {
			if got := scanAll(t, n, limit, withValues); !slices.Equal(got, want) {
				t.Fatalf("limit %d: %x", limit, got)
			}
		}
	}
	upper := want[12]
	records, more, err := n.Scan(soon(t), want[3], &upper, 100, false, service.Linearizable)
	if err != nil || more || len(records) != 9 || records[8].Key != want[11] {
		t.Fatalf("%d records, more %v, %v", len(records), more, err)
	}
	if count, err := n.Count(soon(t)); err != nil || count != uint64(len(want)) {
		t.Fatalf("%d keys, %v", count, err)
	}
}
