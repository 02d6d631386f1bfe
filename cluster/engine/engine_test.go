package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"engine_race/cluster/service"
)

// Small enough for temporary file systems.
var small = map[string]string{
	"bucket_count": "4", "file_count": "2", "bucket_capacity_records": "4096",
	"memory_budget_bytes": "64m",
}

func open(t *testing.T, directory string) *Store {
	t.Helper()
	store, err := Open(directory, small)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func valueOf(key, version uint64) []byte {
	value := make([]byte, service.DefaultValueBytes)
	for i := 0; i < service.DefaultValueBytes; i += 16 {
		binary.BigEndian.PutUint64(value[i:], key+uint64(i))
		binary.BigEndian.PutUint64(value[i+8:], version)
	}
	return value
}

// Keys in all four buckets.
func keyAt(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }

func TestABatchNeedsASizeThatStoresHave(t *testing.T) {
	for size, fits := range map[int]bool{-1: false, 0: false, 7: false, 8: true, 1 << 20: true,
		1<<20 + 1: false, 1<<32 + 8: false} {
		batch, err := NewBatch(size)
		if fits != (err == nil) || !fits && !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err == nil {
			if err := batch.Put(1, make([]byte, 3)); !errors.Is(err, ErrInvalidArgument) ||
				!strings.Contains(err.Error(), fmt.Sprintf("3 bytes, not %d", size)) {
				t.Errorf("a value of 3 bytes: %v", err)
			}
			batch.Destroy()
		}
	}
}

func put(t *testing.T, store *Store, version uint64, keys ...uint64) {
	t.Helper()
	batch, err := NewBatch(service.DefaultValueBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Destroy()
	for _, key := range keys {
		if err := batch.Put(key, valueOf(key, version)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Write(batch); err != nil {
		t.Fatal(err)
	}
}

func encoded(kind byte, key uint64, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{kind}, key), value...)
}

func read(store *Store, key uint64, value []byte) error {
	results := make(Results, 1)
	if err := store.ReadMany([]uint64{key}, value, results); err != nil {
		return err
	}
	return results.Err(0)
}

func expect(t *testing.T, store *Store, key, version uint64) {
	t.Helper()
	value := make([]byte, service.DefaultValueBytes)
	if err := read(store, key, value); err != nil {
		t.Fatalf("key %d: %v", key, err)
	}
	if !bytes.Equal(value, valueOf(key, version)) {
		t.Fatalf("key %d: not the value of version %d", key, version)
	}
}

func TestRecordsOutliveTheStore(t *testing.T) {
	directory := t.TempDir()
	store := open(t, directory)
	for i := range 100 {
		put(t, store, 1, keyAt(i))
	}
	if err := store.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = open(t, directory)
	defer store.Close()
	for i := range 100 {
		expect(t, store, keyAt(i), 1)
	}
}

func TestABatchDeletesAndItsLaterEntriesWin(t *testing.T) {
	store := open(t, t.TempDir())
	defer store.Close()
	put(t, store, 1, 1, 2)
	batch, _ := NewBatch(service.DefaultValueBytes)
	defer batch.Destroy()
	if err := batch.Put(2, valueOf(2, 2)); err != nil {
		t.Fatal(err)
	}
	ops := slices.Concat(encoded(OpRead, 3, nil), encoded(OpDelete, 1, nil),
		encoded(OpPut, 2, valueOf(2, 3)))
	if err := batch.Append(ops); err != nil {
		t.Fatal(err)
	}
	if batch.Len() != 3 {
		t.Fatalf("%d entries", batch.Len())
	}
	if err := store.Write(batch); err != nil {
		t.Fatal(err)
	}
	if err := read(store, 1, make([]byte, service.DefaultValueBytes)); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a deleted key: %v", err)
	}
	expect(t, store, 2, 3)
	batch.Clear()
	if batch.Len() != 0 {
		t.Fatalf("%d entries after Clear", batch.Len())
	}
}

func TestABatchRefusesOperationsThatAreMalformed(t *testing.T) {
	good := encoded(OpPut, 1, valueOf(1, 1))
	for name, ops := range map[string][]byte{
		"cut in its value": slices.Concat(good, good[:len(good)-1]),
		"cut in its key":   slices.Concat(good, encoded(OpDelete, 1, nil)[:8]),
		"an unknown kind":  slices.Concat(good, encoded(OpRead+1, 1, nil)),
	} {
		batch, _ := NewBatch(service.DefaultValueBytes)
		if err := batch.Append(ops); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
		if batch.Len() != 1 {
			t.Errorf("%s: %d entries", name, batch.Len())
		}
		batch.Destroy()
	}
}

func TestManyReadsTellWhichKeysAreAbsent(t *testing.T) {
	store := open(t, t.TempDir())
	defer store.Close()
	put(t, store, 7, keyAt(0), keyAt(2))
	keys := []uint64{keyAt(0), keyAt(1), keyAt(2)}
	values, results := make([]byte, 3*service.DefaultValueBytes), make(Results, 3)
	if err := store.ReadMany(keys, values, results); err != nil {
		t.Fatal(err)
	}
	if results.Err(0) != nil || !errors.Is(results.Err(1), ErrNotFound) || results.Err(2) != nil {
		t.Fatalf("results %v", results)
	}
	if !bytes.Equal(values[2*service.DefaultValueBytes:], valueOf(keyAt(2), 7)) {
		t.Fatal("a wrong value")
	}
}

func TestASnapshotStaysAsItWas(t *testing.T) {
	store := open(t, t.TempDir())
	defer store.Close()
	put(t, store, 1, 5)
	snapshot, err := store.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Release()
	put(t, store, 2, 5, 6)
	values, results := make([]byte, 2*service.DefaultValueBytes), make(Results, 2)
	if err := snapshot.ReadMany([]uint64{5, 6}, values, results); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(values[:service.DefaultValueBytes], valueOf(5, 1)) || results.Err(1) == nil {
		t.Fatalf("not the state of the snapshot: %v", results)
	}
}

func TestAWalkIsSortedAndBounded(t *testing.T) {
	store := open(t, t.TempDir())
	defer store.Close()
	put(t, store, 1, 9, 3, 1<<63, 7, 5)
	upper := uint64(9)
	it, err := store.Iterate(Walk{Lower: 4, Upper: &upper, Prefetch: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Destroy()
	keys, values := make([]uint64, 8), make([]byte, 8*service.DefaultValueBytes)
	n, err := it.Take(keys, values)
	if err != nil || n != 2 || keys[0] != 5 || keys[1] != 7 {
		t.Fatalf("%d keys %v, %v", n, keys, err)
	}
	if !bytes.Equal(values[service.DefaultValueBytes:2*service.DefaultValueBytes], valueOf(7, 1)) {
		t.Fatal("a wrong value")
	}
	all, err := store.Iterate(Walk{})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Destroy()
	if n, err := all.Take(keys, nil); err != nil || n != 5 || keys[4] != 1<<63 {
		t.Fatalf("%d keys %v, %v", n, keys, err)
	}
}

func TestABackupIsRestored(t *testing.T) {
	store := open(t, t.TempDir())
	defer store.Close()
	put(t, store, 1, 1, 2, 3)
	full, next := t.TempDir(), t.TempDir()
	if report, err := store.Backup(full, ""); err != nil || report.Records != 3 {
		t.Fatalf("%+v, %v", report, err)
	}
	put(t, store, 2, 2)
	if report, err := store.Backup(next, full); err != nil || report.Values != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	to := t.TempDir()
	if err := Restore(next, to, nil); err != nil {
		t.Fatal(err)
	}
	restored := open(t, to)
	defer restored.Close()
	expect(t, restored, 1, 1)
	expect(t, restored, 2, 2)
}

func TestErrorsNameTheirCause(t *testing.T) {
	if _, err := Open(t.TempDir(), map[string]string{"no_such_option": "1"}); !errors.Is(err,
		ErrInvalidArgument) {
		t.Fatalf("an unknown option: %v", err)
	}
	directory := t.TempDir()
	store := open(t, directory)
	if _, err := Open(directory, small); err == nil {
		t.Fatal("two openers of one store")
	}
	if err := read(store, 1, make([]byte, 5)); !errors.Is(err, ErrInvalidArgument) {
		t.Fatalf("a short value: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatalf("a second Close: %v", err)
	}
	if err := store.Sync(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatalf("Sync after Close: %v", err)
	}
}

// Messages are the calling thread's, and must not be mixed up between goroutines.
func TestMessagesBelongToTheirCalls(t *testing.T) {
	var group sync.WaitGroup
	for _, name := range []string{"no_such_a", "no_such_b", "no_such_c", "no_such_d"} {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 200 {
				_, err := newOptions(map[string]string{name: "1"})
				var e *Error
				if !errors.As(err, &e) || !bytes.Contains([]byte(e.Message), []byte(name)) {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		}()
	}
	group.Wait()
}

func TestMetricsHaveNames(t *testing.T) {
	store := open(t, t.TempDir())
	defer store.Close()
	put(t, store, 1, 1, 2)
	text, err := store.Metrics()
	if err != nil || !strings.Contains(text, "\nengine_race_records 2\n") ||
		!strings.Contains(text, "\nengine_race_buckets 4\n") {
		t.Fatalf("%v, %v", text, err)
	}
}
