package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"engine_race/cluster/service"
)

// readsOf reads keys again and again, and checks each answer until it is released.
func readsOf(t *testing.T, n *testNode, first, keys, rounds int, c service.Consistency) error {
	for round := range rounds {
		wanted := make([]uint64, keys)
		for i := range wanted {
			wanted[i] = keyAt((first + round + i) % 100)
		}
		values, release, err := n.Read(soon(t), wanted, c)
		if err != nil {
			return err
		}
		for i, key := range wanted {
			if !bytes.Equal(values[i], valueOf(key, 1)) {
				return fmt.Errorf("key %x has another value in round %d", key, round)
			}
		}
		release()
	}
	return nil
}

func TestReadsSideBySideKeepTheirValues(t *testing.T) {
	c := newCluster(t, 1, 2, 1)
	c.awaitReady()
	for i := range 100 {
		put(t, c.nodes[1], keyAt(i), 1)
		// Local reads may miss what is acknowledged and not applied yet.
		expect(t, c.nodes[1], keyAt(i), 1, service.Linearizable)
	}
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			consistency := []service.Consistency{service.Linearizable, service.Local}[i%2]
			if err := readsOf(t, c.nodes[1], i, 1+i%3, 100, consistency); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestMemoryOfReadsIsUsedAgainWhenAllHaveReleasedIt(t *testing.T) {
	m := newReadMemory(3, 512)
	m.users.Store(2)
	m.release()
	if other := newReadMemory(3, 512); other == m {
		t.Fatal("one user still has it")
	}
	m.release()
	// The pool drops some of what it gets under the race detector.
	for range 100 {
		if newReadMemory(2, 512) == m {
			return
		}
		m.users.Store(1)
		m.release()
	}
	t.Fatal("nobody gets it")
}

// The answer of a call that gave up may still come: no later call may get it.
func TestAReadThatWasGivenUpIsNotUsedAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	queue := &reader{stopped: make(chan struct{}), wakeup: make(chan struct{}, 1)}
	s := &shard{reader: queue}
	if _, _, err := s.read(ctx, []uint64{3}, service.Linearizable); !errors.Is(err,
		service.ErrUnavailable) {
		t.Fatalf("a call without time: %v", err)
	}
	for range 100 {
		if newKeyRead(t.Context(), 4) == queue.queue[0] {
			t.Fatal("a later call has the read of one that gave up")
		}
	}
}

func TestAReadThatWasAnsweredIsUsedAgain(t *testing.T) {
	// The pool drops some of what it gets under the race detector.
	for range 100 {
		answered, memory := newKeyRead(t.Context(), 1), newReadMemory(2, 512)
		memory.users.Store(2)
		answered.memory, answered.value = memory, memory.Values[:512]
		answered.values[0] = answered.value
		answered.free()
		r := newKeyRead(t.Context(), 2)
		if memory.users.Load() != 1 {
			t.Fatalf("the memory has %d users", memory.users.Load())
		}
		if r != answered {
			continue
		}
		if r.key != 2 || r.value != nil || r.memory != nil || r.values[0] != nil {
			t.Fatalf("the next call begins with %+v", r)
		}
		return
	}
	t.Fatal("no call gets it")
}

// Time-outs shorter than a tick are refused by dragonboat.
func TestReadsWithLongTicks(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.stop(1)
	c.nodes[1].config.TickMs, c.nodes[1].config.ElectionTicks = 300, 3
	c.start(1)
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	expect(t, c.nodes[1], 1, 1, service.Linearizable)
}

// A follower hears late what is committed. It looks keys up before it knows how far it must be.
func TestReadsOfAFollowerSeeWhatItAppliesMeanwhile(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	follower := c.nodes[1]
	for follower.shard(firstDataShard).leads() {
		follower = c.nodes[follower.state.NodeID%3+1]
	}
	leader := c.nodes[1]
	for !leader.shard(firstDataShard).leads() {
		leader = c.nodes[leader.state.NodeID%3+1]
	}
	for version := uint64(1); version <= 30; version++ {
		put(t, leader, 1, version)
		// Nothing is applied beside the second and third read, so the next one looks early again.
		for range 3 {
			expect(t, follower, 1, version, service.Linearizable)
		}
	}
}

// newReads gives reads of keys that wait for an answer.
func newReads(keys ...uint64) []*read {
	reads := make([]*read, len(keys))
	for i, key := range keys {
		reads[i] = &read{key: key, done: make(chan error, 1)}
	}
	return reads
}

func TestEarlyLookUpsWaitForTheirReadIndex(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	put(t, c.nodes[1], 1, 1)
	expect(t, c.nodes[1], 1, 1, service.Linearizable)
	from := c.nodes[1].shard(firstDataShard).replica
	for _, early := range []bool{false, true} {
		for _, index := range []readIndex{{nil, true}, {nil, false}, {errStopping, false}} {
			reads, indexed := newReads(1, 2), make(chan readIndex)
			go lookTogether(from, reads, early, indexed)
			indexed <- index
			for i, want := range [][]byte{valueOf(1, 1), nil} {
				if err := <-reads[i].done; !errors.Is(err, index.err) {
					t.Fatalf("early: %v, %+v: %v", early, index, err)
				}
				if index.err == nil && !bytes.Equal(reads[i].value, want) {
					t.Fatalf("early: %v, %+v: another value of key %d", early, index, i+1)
				}
			}
		}
	}
}
