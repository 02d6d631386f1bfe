package check

import (
	"math/bits"
	"testing"
)

// Each group must lie in one shard, and no key may be used twice.
func TestKeysAreFreshAndEachGroupLiesInOneShard(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 4, 5, 12, 64} {
		c := &checker{options: Options{Shards: shards}}
		used := map[uint64]bool{}
		use := func(keys []uint64) {
			first, _ := bits.Mul64(keys[0], uint64(shards)) // the shard, if all are equally large
			for _, key := range keys {
				if shard, _ := bits.Mul64(key, uint64(shards)); shard != first || used[key] {
					t.Errorf("%d shards: key %d of shard %d is bad", shards, key, shard)
				}
				used[key] = true
			}
		}
		single, several := 0, 0
		for number := range 200 {
			for _, keys := range c.groups(number) {
				use(keys)
				if len(keys) == 1 {
					single++
				} else {
					several++
				}
			}
		}
		for _, key := range c.ledgerKeys(0, ledgerKeys+coldKeys) {
			use([]uint64{key})
		}
		if single == 0 || several == 0 {
			t.Errorf("%d shards: %d groups of one key, %d of several", shards, single, several)
		}
	}
}
