package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

func versionIn(value []byte) uint64 {
	if value == nil {
		return 0
	}
	return binary.BigEndian.Uint64(value[8:])
}

// Transactions of all nodes put a new version of two keys and read the one before. So each version
// comes once, as when the transactions run one by one. An election may lose some: of these either
// the version before or the own one is not seen.
func TestTransactionsRunOneByOne(t *testing.T) {
	const clients, each = 6, 15
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 2, Replicas: 3,
		Commands: replica.Version}, 3)
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	const a, b = uint64(5), uint64(1 << 62)
	var running sync.WaitGroup
	before := make([][]uint64, clients)
	var lost atomic.Int64
	for client := range uint64(clients) {
		running.Go(func() {
			n := c.nodes[client%3+1]
			for i := range uint64(each) {
				version := 1 + client*each + i
				found, err := n.Transact(soon(t), []service.Op{{Key: a, Read: true},
					{Key: a, Value: valueOf(a, version)}, {Key: b, Read: true},
					{Key: b, Value: valueOf(b, version)}, {Key: a, Read: true}})
				if errors.Is(err, service.ErrUnknown) || errors.Is(err, service.ErrUnavailable) {
					lost.Add(1)
					continue
				}
				if err != nil {
					t.Errorf("client %d: %v", client, err)
					return
				}
				if versionIn(found[0].Value) != versionIn(found[2].Value) ||
					versionIn(found[4].Value) != version || !found[1].Existed && found[0].Existed {
					t.Errorf("client %d finds %d and %d, then %d for %d", client,
						versionIn(found[0].Value), versionIn(found[2].Value),
						versionIn(found[4].Value), version)
				}
				before[client] = append(before[client], versionIn(found[0].Value))
			}
		})
	}
	running.Wait()
	values, release, err := c.nodes[2].Read(soon(t), []uint64{a, b}, service.Linearizable)
	if err != nil || versionIn(values[0]) != versionIn(values[1]) {
		t.Fatalf("%v", err)
	}
	seen := map[uint64]bool{versionIn(values[0]): true}
	release()
	for _, versions := range before {
		for _, version := range versions {
			if seen[version] {
				t.Errorf("version %d came before two others", version)
			}
			seen[version] = true
		}
	}
	if all := clients*each + 1; len(seen) != all-int(lost.Load()) || len(seen) < all/2 {
		t.Errorf("%d versions of %d were seen, %d lost", len(seen), all, lost.Load())
	}
}

func TestATransactionHasOneShard(t *testing.T) {
	c := newCluster(t, 3, 2, 3)
	c.awaitReady()
	_, err := c.nodes[1].Transact(soon(t), []service.Op{{Key: 1, Value: valueOf(1, 1)},
		{Key: 1 << 63, Value: valueOf(1<<63, 1)}})
	if !errors.Is(err, service.ErrUnavailable) || errors.Is(err, service.ErrUnknown) {
		t.Fatal(err)
	}
	expect(t, c.nodes[1], 1, 0, service.Linearizable)
	if found, err := c.nodes[1].Transact(soon(t), nil); len(found) != 0 || err != nil {
		t.Fatal(found, err)
	}
}

// An older node would not know the command of a transaction that reads.
func TestTransactionsReadWhenAllNodesKnowIt(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 3}, 3)
	c.nodes[3].config.Commands = replica.ReadsVersion - 1
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.awaitReady()
	reading := []service.Op{{Key: 1, Value: valueOf(1, 2)}, {Key: 1, Read: true}}
	for _, n := range c.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if _, err := n.Transact(ctx, reading); !errors.Is(err, errNoReads) {
			t.Errorf("node %d: %v", n.state.NodeID, err)
		}
		cancel()
		testkit.Succeeds(t, "a transaction without reads", func() error {
			found, err := n.Transact(soon(t), []service.Op{{Key: 1}, {Key: 1, Value: valueOf(1, 1)}})
			if err == nil && len(found) != 2 {
				err = fmt.Errorf("%d are found", len(found))
			}
			return err
		})
	}
	expect(t, c.nodes[1], 1, 1, service.Linearizable)
}
