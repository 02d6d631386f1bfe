package resp

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// scannedSets are sets of keys: far from each other, close to each other, and at both ends.
func scannedSets() [][]uint64 {
	random := rand.New(rand.NewPCG(1, 2))
	var dense, digits, mixed []uint64
	for i := range uint64(3 * scanBlockKeys) {
		dense = append(dense, scanBlockKeys/2+i)
	}
	for i := range uint64(700) {
		digits = append(digits, keyNumber(keyText(i*7)))
	}
	for range 300 {
		base := random.Uint64()
		for range random.IntN(5) {
			mixed = append(mixed, base+random.Uint64N(3000))
		}
	}
	slices.Sort(mixed)
	last := uint64(1<<64 - 1)
	return [][]uint64{
		{}, {0}, {last}, {0, last}, {last - 1, last}, {0, 1, 5, 1 << 40, last - 1, last},
		{last - scanBlockKeys, last - scanBlockKeys + 1, last}, dense, digits,
		slices.Compact(mixed),
	}
}

// TestScanVisitsEveryKeyOnce asks two servers of the same keys in turn.
func TestScanVisitsEveryKeyOnce(t *testing.T) {
	store := newFake()
	_, _, address := start(t, Options{Service: store})
	_, _, other := start(t, Options{Service: store})
	var clients []*redis.Client
	for _, address := range []string{address, other} {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: address}))
		defer clients[len(clients)-1].Close()
	}
	for set, numbers := range scannedSets() {
		store.mutex.Lock()
		clear(store.records)
		for _, number := range numbers {
			store.records[number] = []byte("v")
		}
		store.mutex.Unlock()
		for _, count := range []int64{1, 2, 3, 7, 10, 100, 2047, 2048, 2049, 10000} {
			var found []uint64
			cursor, calls := uint64(0), 0
			for ; calls == 0 || cursor != 0; calls++ {
				if calls > len(numbers)+1 {
					t.Fatalf("set %d, COUNT %d: the loop does not end", set, count)
				}
				keys, next, err := clients[calls%2].Scan(context.Background(), cursor, "",
					count).Result()
				if err != nil {
					t.Fatal(err)
				}
				if next >= 1<<53 || next != 0 && next <= cursor {
					t.Fatalf("set %d, COUNT %d: cursor %d comes after %d", set, count, next, cursor)
				}
				if len(keys) > max(int(count), scanBlockKeys) {
					t.Errorf("set %d, COUNT %d: %d keys", set, count, len(keys))
				}
				for _, text := range keys {
					found = append(found, binary.BigEndian.Uint64([]byte(text)))
				}
				cursor = next
			}
			if !slices.Equal(found, numbers) {
				t.Errorf("set %d, COUNT %d: %d keys of %d were found, or some twice", set, count,
					len(found), len(numbers))
			}
		}
	}
}
