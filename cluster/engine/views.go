package engine

// #include "calls.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Snapshot is a state of a store that stays readable while writers go on. It holds the space of all
// that it shows until Release.
type Snapshot struct {
	snapshot   *C.engine_race_snapshot
	valueBytes int
}

// Snapshot takes one.
func (s *Store) Snapshot() (*Snapshot, error) {
	snapshot := &Snapshot{valueBytes: s.valueBytes}
	var out C.outcome
	C.er_snapshot(s.store, &snapshot.snapshot, &out)
	if err := failure(&out); err != nil {
		return nil, err
	}
	return snapshot, nil
}

// Release frees the snapshot, also after its store was closed.
func (s *Snapshot) Release() { C.engine_race_snapshot_release(s.snapshot) }

// ReadMany is Store.ReadMany at the snapshot.
func (s *Snapshot) ReadMany(keys []uint64, values []byte, results Results) error {
	if err := checkMany(keys, values, s.valueBytes, results); err != nil || len(keys) == 0 {
		return err
	}
	var out C.outcome
	C.er_snapshot_read_many(s.snapshot, C.size_t(len(keys)), (*C.uint64_t)(&keys[0]),
		unsafe.Pointer(&values[0]), (*C.int)(&results[0]), &out)
	return failure(&out)
}

// Iterator walks records in ascending order of key, at one state of its store.
type Iterator struct {
	iterator   *C.engine_race_iterator
	valueBytes int
}

// Walk is where an Iterator goes.
type Walk struct {
	Snapshot *Snapshot // nil: the state at the call
	Lower    uint64
	Upper    *uint64 // not included; nil: open
	Prefetch int     // values that are read ahead, at most 64; 0 for walks over keys alone
}

// Iterate makes an iterator that stands at the first record of the walk.
func (s *Store) Iterate(walk Walk) (*Iterator, error) {
	var snapshot *C.engine_race_snapshot
	if walk.Snapshot != nil {
		snapshot = walk.Snapshot.snapshot
	}
	var upper C.uint64_t
	var hasUpper C.int
	if walk.Upper != nil {
		upper, hasUpper = C.uint64_t(*walk.Upper), 1
	}
	it := &Iterator{valueBytes: s.valueBytes}
	var out C.outcome
	C.er_iterator(s.store, snapshot, hasUpper, upper, C.uint64_t(walk.Prefetch), &it.iterator, &out)
	if err := failure(&out); err != nil {
		return nil, err
	}
	C.er_seek(it.iterator, C.uint64_t(walk.Lower), &out)
	if err := failure(&out); err != nil {
		it.Destroy()
		return nil, err
	}
	return it, nil
}

// Take copies up to len(keys) records and moves behind them. Values may be nil. It gives fewer
// records only at the end of the walk.
func (it *Iterator) Take(keys []uint64, values []byte) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	var memory unsafe.Pointer
	if values != nil {
		if len(values) != len(keys)*it.valueBytes {
			return 0, fmt.Errorf("%w: %d bytes for %d values", ErrInvalidArgument, len(values),
				len(keys))
		}
		memory = unsafe.Pointer(&values[0])
	}
	var taken C.size_t
	var out C.outcome
	C.er_take(it.iterator, C.size_t(len(keys)), (*C.uint64_t)(&keys[0]), memory, &taken, &out)
	return int(taken), failure(&out)
}

// Destroy frees the iterator, also after its store was closed.
func (it *Iterator) Destroy() { C.engine_race_iterator_destroy(it.iterator) }

// BackupReport says what a backup has.
type BackupReport struct {
	Records uint64
	Values  uint64 // that the backup has itself; the others are in the backups before it
	Bytes   uint64
}

// Backup writes a backup into a directory that is missing or empty. With an empty `since` it has
// everything, otherwise what has changed since the backup in `since`.
func (s *Store) Backup(directory, since string) (BackupReport, error) {
	name := C.CString(directory)
	defer C.free(unsafe.Pointer(name))
	var parent *C.char
	if since != "" {
		parent = C.CString(since)
		defer C.free(unsafe.Pointer(parent))
	}
	var report C.engine_race_backup_report
	var out C.outcome
	C.er_backup(s.store, name, parent, &report, &out)
	return BackupReport{Records: uint64(report.record_count), Values: uint64(report.value_count),
		Bytes: uint64(report.size_bytes)}, failure(&out)
}

// Restore makes a store of a backup and its parents, in a directory that is missing or empty.
func Restore(backup, directory string, options map[string]string) error {
	o, err := newOptions(options)
	if err != nil {
		return err
	}
	defer C.engine_race_options_destroy(o)
	from, to := C.CString(backup), C.CString(directory)
	defer C.free(unsafe.Pointer(from))
	defer C.free(unsafe.Pointer(to))
	var out C.outcome
	C.er_restore(from, to, o, &out)
	return failure(&out)
}
