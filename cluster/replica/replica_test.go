package replica

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/service"
)

func configIn(directory string) Config {
	return Config{
		Directory: directory, Lower: 0, Upper: ^uint64(0), ValueBytes: service.DefaultValueBytes,
		Options: map[string]string{"bucket_count": "4", "file_count": "2",
			"bucket_capacity_records": "4096", "memory_budget_bytes": "64m"},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func openIn(t *testing.T, directory string) (*Replica, uint64) {
	t.Helper()
	r := New(configIn(directory))
	index, err := r.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, index
}

func valueOf(key, version uint64) []byte {
	value := make([]byte, service.DefaultValueBytes)
	binary.BigEndian.PutUint64(value, key)
	binary.BigEndian.PutUint64(value[8:], version)
	value[service.DefaultValueBytes-1] = byte(version)
	return value
}

func put(key, version uint64) service.Op {
	return service.Op{Key: key, Value: valueOf(key, version)}
}

func remove(key uint64) service.Op { return service.Op{Key: key} }

func commandOf(t *testing.T, counted bool, ops ...service.Op) []byte {
	t.Helper()
	return withHeader(Header{Version: firstVersion, Counted: counted}, ops...)
}

func withHeader(h Header, ops ...service.Op) []byte {
	command := NewCommand(nil, h)
	for _, op := range ops {
		command = AppendOp(command, op)
	}
	return command
}

func update(t *testing.T, r *Replica, index uint64, command []byte) statemachine.Result {
	t.Helper()
	entries, err := r.Update([]statemachine.Entry{{Index: index, Cmd: command}})
	if err != nil {
		t.Fatal(err)
	}
	return entries[0].Result
}

// state gives the versions of all keys.
func state(t *testing.T, r *Replica) map[uint64]uint64 {
	t.Helper()
	q := &ScanQuery{Last: ^uint64(0), Limit: 1 << 12, WithValues: true}
	if _, err := r.Lookup(q); err != nil {
		t.Fatal(err)
	}
	versions := map[uint64]uint64{}
	for i, key := range q.Keys {
		value := q.Values[i*service.DefaultValueBytes : (i+1)*service.DefaultValueBytes]
		version := binary.BigEndian.Uint64(value[8:])
		if !bytes.Equal(value, valueOf(key, version)) {
			t.Fatalf("key %d has a wrong value", key)
		}
		versions[key] = version
	}
	return versions
}

func expectState(t *testing.T, r *Replica, want map[uint64]uint64) {
	t.Helper()
	got := state(t, r)
	if len(got) != len(want) {
		t.Fatalf("%d keys, not %d", len(got), len(want))
	}
	for key, version := range want {
		if got[key] != version {
			t.Fatalf("key %d has version %d, not %d", key, got[key], version)
		}
	}
}

func TestOnlySyncStoresTheIndex(t *testing.T) {
	directory := t.TempDir()
	r, index := openIn(t, directory)
	if index != 0 {
		t.Fatalf("a new replica begins with %d", index)
	}
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	update(t, r, 2, commandOf(t, false, put(2, 2)))
	if r.Applied() != 2 || r.Synced() != 1 {
		t.Fatalf("applied %d, synced %d", r.Applied(), r.Synced())
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r, index = openIn(t, directory)
	defer r.Close()
	if index != 1 {
		t.Fatalf("reopened with %d", index)
	}
	// The record behind the index may be there. Applied again, it leads to the same state.
	update(t, r, 2, commandOf(t, false, put(2, 2)))
	expectState(t, r, map[uint64]uint64{1: 1, 2: 2})
}

func TestReplayedEntriesLeadToTheSameState(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	directory := t.TempDir()
	r, _ := openIn(t, directory)
	var log [][]byte
	want := map[uint64]uint64{}
	for i := range uint64(300) {
		var ops []service.Op
		for range 1 + random.IntN(5) {
			key := random.Uint64N(40)
			if random.IntN(4) == 0 {
				ops = append(ops, remove(key))
				delete(want, key)
			} else {
				ops = append(ops, put(key, i+1))
				want[key] = i + 1
			}
		}
		log = append(log, commandOf(t, false, ops...))
		update(t, r, i+1, log[i])
		if i == 100 {
			if err := r.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	expectState(t, r, want)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r, index := openIn(t, directory)
	defer r.Close()
	if index != 101 {
		t.Fatalf("reopened with %d", index)
	}
	var entries []statemachine.Entry
	for i := index; i < uint64(len(log)); i++ {
		entries = append(entries, statemachine.Entry{Index: i + 1, Cmd: log[i]})
	}
	if _, err := r.Update(entries); err != nil {
		t.Fatal(err)
	}
	expectState(t, r, want)
}

// TestDeletesOfAbsentKeysTakeLittle counts the memory that many deletes in one command take.
func TestDeletesOfAbsentKeysTakeLittle(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	const count, different = 2000, 500
	ops := make([]service.Op, count)
	for i := range ops {
		ops[i] = remove(uint64(i % different))
	}
	command := commandOf(t, true, ops...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	existed := update(t, r, 1, command).Data
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / count; each > 256 {
		t.Errorf("a delete allocates %d bytes", each)
	}
	if len(existed) != count || slices.Contains(existed, 1) {
		t.Errorf("%d answers", len(existed))
	}
	// The answers of all pieces are in their order.
	there := map[int]bool{0: true, r.stepValues() - 1: true, r.stepValues(): true,
		different - 1: true}
	for key := range there {
		update(t, r, 2, commandOf(t, false, put(uint64(key), 1)))
	}
	existed = update(t, r, 3, command).Data
	for i, was := range existed {
		if (was != 0) != there[i] {
			t.Errorf("delete %d: %d", i, was)
		}
	}
}

func TestCountedCommandsTellWhatWasThere(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	// The put of 3 waits in the same call of Update.
	entries, err := r.Update([]statemachine.Entry{
		{Index: 2, Cmd: commandOf(t, false, put(3, 1))},
		{Index: 3, Cmd: commandOf(t, true, remove(1), remove(1), remove(2), put(2, 3), remove(2),
			remove(3))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := entries[1].Result.Data, []byte{1, 0, 0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Fatalf("%v, not %v", got, want)
	}
	expectState(t, r, map[uint64]uint64{})
}

func TestMalformedCommandsChangeNothing(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	good := commandOf(t, false, put(1, 1), remove(2))
	for name, command := range map[string][]byte{
		"empty": {}, "a later version": append([]byte{2}, good[1:]...),
		"an unknown flag": append([]byte{1, 8}, good[2:]...), "cut short": good[:len(good)-1],
		"an unknown op": append(slices.Clone(good), 7, 0, 0, 0, 0, 0, 0, 0, 0),
	} {
		if result := update(t, r, 1, command); result.Value != ResultMalformed {
			t.Errorf("%s: result %d", name, result.Value)
		}
	}
	expectState(t, r, map[uint64]uint64{})
	if result := update(t, r, 2, good); result.Value != ResultApplied {
		t.Fatalf("a good command: result %d", result.Value)
	}
}

func TestScansAreBounded(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	for i := range uint64(20) {
		update(t, r, i+1, commandOf(t, false, put(10*i, 1)))
	}
	upper := uint64(100)
	for _, c := range []struct {
		lower uint64
		limit int
		want  []uint64
		more  bool
	}{
		{35, 3, []uint64{40, 50, 60}, true},
		{70, 3, []uint64{70, 80, 90}, false},
		{80, 3, []uint64{80, 90}, false},
		{100, 3, nil, false},
	} {
		q := &ScanQuery{Lower: c.lower, Last: ^uint64(0), Upper: &upper, Limit: c.limit}
		if _, err := r.Lookup(q); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(q.Keys, c.want) || q.More != c.more {
			t.Errorf("from %d, %d keys: %v, more %v", c.lower, c.limit, q.Keys, q.More)
		}
	}
}

func TestCountsFollowTheEntries(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	for i, step := range []struct {
		op   service.Op
		want uint64
	}{{put(1, 1), 1}, {put(1, 2), 1}, {put(2, 1), 2}, {remove(1), 1}, {remove(9), 1}} {
		update(t, r, uint64(i+1), commandOf(t, false, step.op))
		for range 2 {
			q := &CountQuery{Last: ^uint64(0)}
			if _, err := r.Lookup(q); err != nil || q.Count != step.want {
				t.Fatalf("step %d: %d keys, %v", i, q.Count, err)
			}
		}
	}
}

func TestReadsOfManyKeys(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 5), put(3, 6)))
	for _, atomic := range []bool{false, true} {
		q := &ReadQuery{Keys: []uint64{3, 2, 1}, Values: make([]byte, 3*service.DefaultValueBytes),
			Results: make(engine.Results, 3), Atomic: atomic}
		if _, err := r.Lookup(q); err != nil {
			t.Fatal(err)
		}
		if q.Results.Err(0) != nil || q.Results.Err(1) == nil || q.Results.Err(2) != nil ||
			!bytes.Equal(q.Values[:service.DefaultValueBytes], valueOf(3, 6)) {
			t.Fatalf("atomic %v: %v", atomic, q.Results)
		}
	}
}

func TestLostFilesAreNoticed(t *testing.T) {
	directory := t.TempDir()
	r, _ := openIn(t, directory)
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(directory); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(directory, storeName)); err != nil {
		t.Fatal(err)
	}
	if err := Check(directory); err == nil {
		t.Error("a lost store is not noticed")
	}
	if _, err := New(configIn(directory)).open(); err == nil {
		t.Error("a replica opens without its store")
	}
	if err := os.WriteFile(filepath.Join(directory, appliedName), []byte("nonsense"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(directory); err == nil {
		t.Error("a damaged index is not noticed")
	}
}
