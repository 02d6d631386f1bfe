package node

import (
	"errors"
	"fmt"
	"testing"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// A node that has heard nothing of a split sends a write to the shard that had the key. That shard
// refuses it, and it is routed again: it must not be acknowledged there.
func TestAWriteByAnOlderMapIsRefusedAndRoutedAgain(t *testing.T) {
	c := readyCluster(t, 3, 1, 3)
	put(t, c.nodes[1], half+5, 1)
	before := c.nodes[1].directory.Load()
	created := c.splitAt(1, half)
	for id := uint64(1); id <= 3; id++ {
		n := c.nodes[id]
		op := []service.Op{{Key: half + 5, Value: valueOf(half+5, 7)}}
		for _, counted := range []bool{false, true} {
			if _, err := n.writeShard(soon(t), firstDataShard, op, counted); !errors.Is(err, errMoved) {
				t.Errorf("node %d writes outside of the shard: %v", id, err)
			}
		}
		if _, _, err := n.readShard(soon(t), firstDataShard, []uint64{half + 5},
			service.Linearizable); !errors.Is(err, errMoved) {
			t.Errorf("node %d reads outside of the shard: %v", id, err)
		}
		// The log itself refuses what a leader has proposed by an older map.
		s := n.shard(firstDataShard)
		if s.leads() {
			command := replica.NewCommand(nil,
				replica.Header{Version: replica.Version, Token: s.ledTerm()})
			err := n.proposeHere(soon(t), s, replica.AppendOp(command, op[0]))
			if !errors.Is(err, errMoved) {
				t.Errorf("the log takes it: %v", err)
			}
		}
	}
	for i, call := range []func(n *testNode, key uint64) error{
		func(n *testNode, key uint64) error {
			_, err := n.Write(soon(t), []service.Op{{Key: key, Value: valueOf(key, 2)}}, false)
			return err
		},
		func(n *testNode, key uint64) error {
			existed, err := n.Write(soon(t), []service.Op{{Key: 5}, {Key: key,
				Value: valueOf(key, 2)}}, true)
			if err == nil && (existed[0] || !existed[1]) {
				err = fmt.Errorf("existed: %v", existed)
			}
			return err
		},
		func(n *testNode, key uint64) error {
			found, err := n.Transact(soon(t), []service.Op{{Key: key, Read: true}})
			if err == nil && found[0].Value == nil {
				err = errors.New("the record is missing")
			}
			return err
		},
		func(n *testNode, key uint64) error {
			values, release, err := n.Read(soon(t), []uint64{key}, service.Linearizable)
			if err == nil {
				if values[0] == nil {
					err = errors.New("the record is missing")
				}
				release()
			}
			return err
		},
		func(n *testNode, key uint64) error {
			records, _, err := n.Scan(soon(t), half, nil, 10, true, service.Linearizable)
			if err == nil && (len(records) != 1 || records[0].Key != key) {
				err = fmt.Errorf("%d records", len(records))
			}
			return err
		},
		func(n *testNode, _ uint64) error {
			count, err := n.Count(soon(t))
			if err == nil && count == 0 {
				err = errors.New("no keys")
			}
			return err
		},
	} {
		for id := uint64(1); id <= 3; id++ {
			n := c.nodes[id]
			// The reconciler takes the newer one when it is asked to.
			n.directory.Store(before)
			if err := call(n, half+5); err != nil {
				t.Errorf("call %d of node %d: %v", i, id, err)
			}
			if n.directory.Load().Version == before.Version {
				t.Errorf("call %d of node %d was made by the older map", i, id)
			}
		}
	}
	expect(t, c.nodes[1], half+5, 2, service.Local)
	values, release, err := c.nodes[2].readShard(soon(t), created, []uint64{half + 5},
		service.Linearizable)
	if err != nil || values[0] == nil {
		t.Fatal(err)
	}
	release()
}

// The only node of a cluster has no others that it could ask.
func TestAnOlderMapIsNoHindranceForASingleNode(t *testing.T) {
	c := readyCluster(t, 1, 1, 1)
	n := c.nodes[1]
	put(t, n, half+5, 1)
	before := n.directory.Load()
	c.splitAt(1, half)
	n.directory.Store(before)
	expect(t, n, half+5, 1, service.Linearizable)
	n.directory.Store(before)
	expect(t, n, half+5, 1, service.Local)
	n.directory.Store(before)
	put(t, n, half+5, 2)
	n.directory.Store(before)
	if got := scanAll(t, n, 10, true); len(got) != 1 {
		t.Errorf("a scan finds %x", got)
	}
	n.directory.Store(before)
	if count, err := n.Count(soon(t)); err != nil || count != 1 {
		t.Errorf("%d keys, %v", count, err)
	}
}
