package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// sizedCluster begins with the newest version of commands, and with values of a size. Nodes 3 and 4
// have no replica of one shard each.
func sizedCluster(t *testing.T, valueBytes int, nodes, shards, replicas uint64) *testCluster {
	t.Helper()
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: shards, Replicas: replicas,
		Commands: replica.Version, TickMs: 10, ValueBytes: valueBytes}, nodes)
	for id := uint64(1); id <= nodes; id++ {
		c.nodes[id].config.Engine["memory_budget_bytes"] = "128m"
		c.start(id)
	}
	c.awaitReady()
	return c
}

// sizedValue differs in all its parts from those of other keys and versions.
func sizedValue(key, version uint64, valueBytes int) []byte {
	word := binary.BigEndian.AppendUint64(nil, key*31+version)
	return bytes.Repeat(word, valueBytes/len(word)+1)[:valueBytes]
}

func putSized(t *testing.T, n *testNode, key, version uint64) {
	t.Helper()
	value := sizedValue(key, version, n.ValueBytes())
	testkit.Succeeds(t, "a write", func() error {
		_, err := n.Write(soon(t), []service.Op{{Key: key, Value: value}}, false)
		return err
	})
}

// expectSized reads all keys in one call, and by a scan.
func expectSized(t *testing.T, n *testNode, keys []uint64, version uint64) {
	t.Helper()
	values, release, err := n.Read(soon(t), keys, service.Linearizable)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for i, key := range keys {
		if !bytes.Equal(values[i], sizedValue(key, version, n.ValueBytes())) {
			t.Fatalf("key %x has a wrong value of %d bytes", key, len(values[i]))
		}
	}
	records, more, err := n.Scan(soon(t), 0, nil, len(keys)+1, true, service.Linearizable)
	if err != nil || more || len(records) != len(keys) {
		t.Fatalf("%d records were scanned, %v", len(records), err)
	}
	for _, record := range records {
		if !bytes.Equal(record.Value, sizedValue(record.Key, version, n.ValueBytes())) {
			t.Fatalf("key %x was scanned with a wrong value of %d bytes", record.Key,
				len(record.Value))
		}
	}
}

var testedSizes = []int{24, 509, 65536, service.MaxValueBytes}

// TestValuesOfOtherSizes takes values all ways between nodes: proposals and reads of nodes without
// the shard, snapshots, splits, comparisons, backups.
func TestValuesOfOtherSizes(t *testing.T) {
	for _, size := range testedSizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			c := sizedCluster(t, size, 4, 2, 3)
			var keys []uint64
			for i := range 8 {
				keys = append(keys, keyAt(i))
				putSized(t, c.nodes[uint64(i%4+1)], keyAt(i), 1)
			}
			for id := range c.nodes {
				expectSized(t, c.nodes[id], keys, 1)
			}
			transactSized(t, c, keys)
			for i, key := range keys {
				putSized(t, c.nodes[uint64(i%4+1)], key, 2)
			}
			if _, err := c.nodes[1].SplitShard(soon(t), firstDataShard, 1<<62); err != nil {
				t.Fatal(err)
			}
			expectSized(t, c.nodes[2], keys, 2)
			addFromSnapshot(t, c)
			comparison, err := c.nodes[1].Compare(soon(t), firstDataShard)
			if err != nil || len(comparison.Differences) > 0 || len(comparison.Nodes) != 4 {
				t.Fatalf("%+v, %v", comparison, err)
			}
			restoreSized(t, c, keys)
		})
	}
}

// transactSized writes one key and reads two of a shard in one step.
func transactSized(t *testing.T, c *testCluster, keys []uint64) {
	t.Helper()
	n := c.nodes[4]
	same := slices.DeleteFunc(slices.Clone(keys), func(key uint64) bool {
		return n.ShardOf(key) != n.ShardOf(keys[0])
	})
	size := n.ValueBytes()
	found, err := n.Transact(soon(t), []service.Op{{Key: same[0], Value: sizedValue(same[0], 3, size)},
		{Key: same[0], Read: true}, {Key: same[1], Read: true}})
	if err != nil || !bytes.Equal(found[1].Value, sizedValue(same[0], 3, size)) ||
		!bytes.Equal(found[2].Value, sizedValue(same[1], 1, size)) {
		t.Fatalf("%d answers, %v", len(found), err)
	}
}

// addFromSnapshot gives node 4 a replica of a shard whose log is shortened.
func addFromSnapshot(t *testing.T, c *testCluster) {
	t.Helper()
	for id := uint64(1); id <= 3; id++ {
		if _, err := c.nodes[id].snapshotHere(soon(t), c.nodes[id].shard(firstDataShard)); err != nil {
			t.Log(err) // Nothing has come since the last one.
		}
	}
	if err := c.nodes[1].AddReplica(soon(t), firstDataShard, 4); err != nil {
		t.Fatal(err)
	}
	n := c.nodes[4]
	loaded, err := n.log.GetSnapshot(firstDataShard, n.shard(firstDataShard).replicaID)
	if err != nil || loaded.Index == 0 {
		t.Fatalf("the replica came without a snapshot: %v", err)
	}
}

// restoreSized restores a backup of node 4, which fetches one shard, into clusters of the same size
// and of another.
func restoreSized(t *testing.T, c *testCluster, keys []uint64) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "backup")
	report, err := c.nodes[4].Backup(soon(t), directory, "")
	if err != nil || report.Records != uint64(len(keys)) {
		t.Fatalf("%+v, %v", report, err)
	}
	size := c.nodes[1].ValueBytes()
	other := sizedCluster(t, size/2, 1, 1, 1)
	_, err = other.nodes[1].Restore(soon(t), directory)
	want := fmt.Sprintf("the backup has values of %d bytes, and this cluster has values of %d", size,
		size/2)
	if !errors.Is(err, service.ErrConflict) || !strings.Contains(err.Error(), want) {
		t.Fatalf("a restore into another size: %v", err)
	}
	to := sizedCluster(t, size, 1, 3, 1)
	report, err = to.nodes[1].Restore(soon(t), directory)
	if err != nil || report.Bytes != uint64(len(keys)*(8+size)) {
		t.Fatalf("%+v, %v", report, err)
	}
	expectSized(t, to.nodes[1], keys, 2)
}

// The changes at the end of a split are copied while nobody can use the keys. Records of a few
// bytes are as much work as a quarter of 4096 bytes each.
func TestRecordsOfAllSizesAreCopiedByTheSameWork(t *testing.T) {
	for _, test := range []struct {
		size, few, copied int
		time              time.Duration // of 32768 records at 32 MiB a second
	}{
		{8, 1024, 512, time.Second}, {1024, 1024, 512, time.Second + time.Second/128},
		{4096, 256, 128, 4*time.Second + time.Second/128},
		{65536, 16, 8, 64*time.Second + time.Second/128},
		{1 << 20, 1, 1, 1024*time.Second + time.Second/128},
	} {
		if got := fewChangesOf(test.size); got != test.few {
			t.Errorf("%d bytes: %d changes are few, expected %d", test.size, got, test.few)
		}
		if got := copiedRecordsOf(test.size); got != test.copied {
			t.Errorf("%d bytes: %d records are copied together, expected %d", test.size, got, test.copied)
		}
		if got := copyTime(32768, test.size, 32<<20); got != test.time {
			t.Errorf("%d bytes: 32768 records take %v, expected %v", test.size, got, test.time)
		}
	}
}

// TestSmallRecordsShareProposals counts the entries of a new shard's log, and those that a restore
// makes. Each costs a round of messages and syncs.
func TestSmallRecordsShareProposals(t *testing.T) {
	const records = 2048
	c := sizedCluster(t, 24, 1, 1, 1)
	n := c.nodes[1]
	var ops []service.Op
	for key := range uint64(records) {
		ops = append(ops, service.Op{Key: 1<<63 | key, Value: sizedValue(key, 1, 24)})
	}
	if _, err := n.Write(soon(t), ops, false); err != nil {
		t.Fatal(err)
	}
	to, err := n.SplitShard(soon(t), firstDataShard, 1<<63)
	if err != nil {
		t.Fatal(err)
	}
	// The others are of an election, the beginning of the copy and the bounds.
	if applied := n.shard(to).replica.Applied(); applied < records/512 ||
		applied > records/512+6 {
		t.Errorf("a copy of %d records has %d entries", records, applied)
	}
	r := newRestorer(soon(t), n.Node)
	if err := r.finish(); err != nil || r.most != 512 {
		t.Errorf("a restore writes %d records together, %v", r.most, err)
	}
}

// A call of another node holds what it takes beside its values, too. With small values that is most
// of it.
func TestCallsOfOtherNodesHoldTheirKeys(t *testing.T) {
	const keys, size = 16384, 8
	memory := newReadMemory(keys, size)
	values := make([][]byte, keys)
	for i := range values {
		values[i] = memory.Values[i*size : (i+1)*size]
	}
	const place, result = int(unsafe.Sizeof(values[0])), int(unsafe.Sizeof(memory.Results[0]))
	takes := keys*(place+service.KeyBytes+result+size) + len(encodeValues(values, size))
	if held := readBytes(keys, size); held < takes || held > 2*takes {
		t.Errorf("a read holds %d bytes, and takes %d", held, takes)
	}
	for _, withValues := range []bool{false, true} {
		q := &replica.ScanQuery{Limit: keys, WithValues: withValues}
		for i := range uint64(keys) {
			q.Keys = append(q.Keys, ^i)
		}
		if withValues {
			q.Values = make([]byte, keys*size)
		}
		answer, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		// The encoder's buffer is as large as the answer.
		takes := keys*service.KeyBytes + len(q.Values) + 2*len(answer)
		if held := scanBytes(q, size); held < takes || held > 2*takes {
			t.Errorf("a scan with values %v holds %d bytes, and takes %d", withValues, held, takes)
		}
	}
}

// A node that believed in another size could not read what others send it.
func TestANodeWithAnotherSizeMayNotJoin(t *testing.T) {
	c := sizedCluster(t, 512, 1, 1, 1)
	c.add(2)
	c.nodes[2].config.Expected.ValueBytes = 4096
	c.expectRefused(2, c.join(2, 1, false), service.ErrConflict,
		"cluster.value_bytes of the node is 4096, but this cluster was made with 512")
	if _, known := c.nodes[1].machine.current.Load().Nodes[2]; known {
		t.Fatal("the cluster knows a node that it has refused")
	}
	// One that names no size takes the cluster's.
	for id, named := range map[uint64]int{2: 0, 3: 512} {
		c.add(id)
		c.nodes[id].config.Expected.ValueBytes = named
		if err := c.join(id, 1, false); err != nil {
			t.Fatal(err)
		}
		c.start(id)
		if got := c.nodes[id].ValueBytes(); got != 512 {
			t.Errorf("node %d has values of %d bytes", id, got)
		}
	}
	c.stop(2)
	c.nodes[2].config.Expected.ValueBytes = 4096
	if _, err := prepareNode(c.nodes[2].config); !errors.Is(err, ErrSettings) ||
		!strings.Contains(err.Error(), "is 4096, but this cluster was made with 512") {
		t.Errorf("a start with another size: %v", err)
	}
}

func TestInitialNodesNeedOneSize(t *testing.T) {
	c := newClusterOf(t, "127.0.0.1", Genesis{Cluster: "test", Shards: 1, Replicas: 1,
		ValueBytes: 512}, 2)
	c.start(1)
	c.wipe(2)
	other := c.genesis
	other.ValueBytes = 1024
	c.expectRefused(2, Init(soon(t), c.nodes[2].config, other), service.ErrConflict,
		"cluster.value_bytes is 1024, but the cluster of node 1 was made with 512")
}

// TestTheDefaultSizeIsThatOfEarlierClusters: their geneses have no size, and must keep their IDs.
func TestTheDefaultSizeIsThatOfEarlierClusters(t *testing.T) {
	ids := map[int]string{}
	for _, size := range []int{0, 4096, 512} {
		genesis := Genesis{Cluster: "test", Shards: 2, Replicas: 3, TickMs: 20, ValueBytes: size}
		id, err := genesis.ID()
		if err != nil {
			t.Fatal(err)
		}
		ids[size] = id
	}
	sum := sha256.Sum256([]byte(
		`{"cluster":"test","shards":2,"replicas":3,"nodes":null,"rtt_ms":20}`))
	want := hex.EncodeToString(sum[:16])
	if ids[0] != want || ids[4096] != want || ids[512] == want {
		t.Errorf("IDs %v, not %s", ids, want)
	}
}

func TestAWriteOfAWrongSizeDoesNothing(t *testing.T) {
	c := sizedCluster(t, 512, 1, 1, 1)
	_, err := c.nodes[1].Write(soon(t), []service.Op{{Key: 1, Value: make([]byte, 512)},
		{Key: 2, Value: make([]byte, 511)}}, false)
	if !errors.Is(err, service.ErrUnavailable) || !strings.Contains(err.Error(),
		"a value of 511 bytes, and not 512") {
		t.Fatal(err)
	}
	if count, err := c.nodes[1].Count(soon(t)); err != nil || count != 0 {
		t.Errorf("%d keys, %v", count, err)
	}
}
