package check

import "math"

// Places of keys within a shard's range. Histories, the ledger and failovers share no key.
const (
	historyKeys  = uint64(1) << 32
	ledgerBase   = uint64(1) << 40
	failoverBase = uint64(1) << 41
)

// shardBase gives a key near the lower end of the shard's range.
func (c *checker) shardBase(shard int) uint64 {
	return uint64(shard) * (math.MaxUint64/uint64(c.options.Shards) + 1)
}

// groups gives each history fresh keys. Each shard has two groups of one key and two of three keys,
// or fewer if there are many shards.
func (c *checker) groups(number int) [][]uint64 {
	var groups [][]uint64
	count := min(4*c.options.Shards, maxGroups)
	for i := range count {
		shard := i % c.options.Shards
		base := c.shardBase(shard) + historyKeys + uint64(number)*1000 + uint64(i)*10
		keys := []uint64{base}
		if i/c.options.Shards%2 == 1 || c.options.Shards > 4 && i%2 == 1 {
			keys = []uint64{base, base + 1, base + 2}
		}
		groups = append(groups, keys)
	}
	return groups
}

func firstKeys(groups [][]uint64) []uint64 {
	var keys []uint64
	for _, group := range groups {
		keys = append(keys, group[0])
	}
	return keys
}

// ledgerKeys gives the keys from number `first` on.
func (c *checker) ledgerKeys(first, count int) []uint64 {
	var keys []uint64
	for i := first; i < first+count; i++ {
		keys = append(keys, c.shardBase(i%c.options.Shards)+ledgerBase+uint64(i))
	}
	return keys
}
