package replica

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/keyspace"
	"engine_race/cluster/service"
)

// bounded is a replica whose store takes the keys from 100 to 999.
func bounded(t *testing.T, directory string, closed bool) *Replica {
	t.Helper()
	config := configIn(directory)
	config.Lower, config.Upper, config.Closed = 100, 999, closed
	r := New(config)
	if _, err := r.Open(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func outsideCommand(token uint64, ops ...service.Op) []byte {
	return withHeader(Header{Version: Version, Outside: true, Token: token}, ops...)
}

func bounds(first, last, version uint64) keyspace.Entry {
	return keyspace.Entry{First: first, Last: last, Version: version}
}

// entries applies commands with consecutive indexes and gives their results.
func entries(t *testing.T, r *Replica, first uint64, commands ...[]byte) []uint64 {
	t.Helper()
	var all []statemachine.Entry
	for i, command := range commands {
		all = append(all, statemachine.Entry{Index: first + uint64(i), Cmd: command})
	}
	applied, err := r.Update(all)
	if err != nil {
		t.Fatal(err)
	}
	var results []uint64
	for _, entry := range applied {
		results = append(results, entry.Result.Value)
	}
	return results
}

func expectResults(t *testing.T, got []uint64, want ...uint64) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("entry %d of %d: result %d, not %d", i, len(want), got[i], want[i])
		}
	}
}

func scanOf(r *Replica, lower, last uint64, outside bool) ([]uint64, error) {
	q := &ScanQuery{Lower: lower, Last: last, Limit: 100, Outside: outside}
	_, err := r.Lookup(q)
	return q.Keys, err
}

// A write whose node believed in an older map is refused by the shard itself, whatever came before
// it in one Update.
func TestACommandForKeysThatHaveMovedChangesNothing(t *testing.T) {
	r := bounded(t, t.TempDir(), false)
	expectResults(t, entries(t, r, 1,
		withToken(1, 100, 1), withToken(1, 600, 1), NewBounds(1, 1, bounds(100, 499, 2)),
		withToken(1, 499, 2), withToken(1, 600, 2),
		withHeader(Header{Version: Version, Token: 1}, put(100, 3), put(500, 3)),
		withToken(2, 700, 4)),
		ResultApplied, ResultApplied, ResultApplied, ResultApplied, ResultMoved, ResultMoved,
		ResultMoved)
	// The records stay for the shard that copies them.
	if keys, err := scanOf(r, 500, 999, true); err != nil || len(keys) != 1 || keys[0] != 600 {
		t.Errorf("%v, %v", keys, err)
	}
	if keys, err := scanOf(r, 100, 499, false); err != nil || len(keys) != 2 {
		t.Errorf("%v, %v", keys, err)
	}
	for name, wrong := range map[string]*ScanQuery{
		"all":     {Lower: 100, Last: 999, Limit: 1},
		"moved":   {Lower: 500, Last: 999, Limit: 1},
		"present": {Lower: 499, Last: 999, Limit: 1, Outside: true},
	} {
		if _, err := r.Lookup(wrong); !errors.Is(err, ErrMoved) {
			t.Errorf("a scan of %s: %v", name, err)
		}
	}
	count := &CountQuery{First: 100, Last: 499}
	if _, err := r.Lookup(count); err != nil || count.Count != 2 {
		t.Errorf("%d keys, %v", count.Count, err)
	}
	for _, wrong := range []*CountQuery{{First: 100, Last: 999}, {First: 100, Last: 498}} {
		if _, err := r.Lookup(wrong); !errors.Is(err, ErrMoved) {
			t.Errorf("a count of %+v: %v", wrong, err)
		}
	}
	read := &ReadQuery{Keys: []uint64{100, 600}, Values: make([]byte, 2*service.DefaultValueBytes),
		Results: make(engine.Results, 2)}
	if _, err := r.Lookup(read); err != nil || !read.Has(0) || read.Has(1) {
		t.Errorf("reads: %v, %t, %t", err, read.Has(0), read.Has(1))
	}
	// A node does not even propose it.
	for command, want := range map[string]error{
		string(withToken(3, 499, 1)): nil, string(withToken(3, 500, 1)): ErrMoved,
		string(outsideCommand(3, put(500, 1))):                errMalformed,
		string(NewBounds(3, 2, bounds(100, 999, 3))):          errMalformed,
		string(NewBounds(3, 2, bounds(100, 999, 3))[:20]):     errMalformed,
		string(append(NewBounds(3, 2, bounds(1, 9, 3)), '.')): errMalformed,
	} {
		if _, _, _, _, err := r.CheckCommand([]byte(command)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, not %v", len(command), err, want)
		}
	}
}

// Changes of the bounds compare the version: of two that have seen one version, one is made.
func TestBoundsChangeFromTheVersionThatWasSeen(t *testing.T) {
	r := bounded(t, t.TempDir(), false)
	expectResults(t, entries(t, r, 1, NewBounds(5, 1, bounds(100, 499, 2)),
		NewBounds(5, 1, bounds(100, 299, 2)), NewBounds(5, 3, bounds(100, 299, 4)),
		NewBounds(4, 2, bounds(100, 299, 3)), NewBounds(5, 2, bounds(99, 299, 3)),
		NewBounds(5, 2, bounds(100, 1000, 3)), NewBounds(5, 2, bounds(100, 299, 2))),
		ResultApplied, ResultMoved, ResultMoved, ResultLate, ResultMalformed, ResultMalformed,
		ResultMalformed)
	if got := r.Bounds(); got != bounds(100, 499, 2) {
		t.Errorf("%+v", got)
	}
}

// A new shard gets its records before its keys. A copy that comes later would hide what clients
// have written.
func TestACopyEndsWhereClientsBegin(t *testing.T) {
	r := bounded(t, t.TempDir(), true)
	expectResults(t, entries(t, r, 1, withToken(1, 500, 9),
		outsideCommand(1, put(500, 1), put(501, 1)), NewBounds(1, 0, bounds(100, 999, 1)),
		withToken(1, 500, 2), outsideCommand(1, put(500, 1)), outsideCommand(2, put(501, 3))),
		ResultMoved, ResultApplied, ResultApplied, ResultApplied, ResultMoved, ResultMoved)
	q := &ScanQuery{Lower: 100, Last: 999, Limit: 10, WithValues: true}
	if _, err := r.Lookup(q); err != nil || len(q.Keys) != 2 ||
		!bytes.Equal(q.Values, append(valueOf(500, 2), valueOf(501, 1)...)) {
		t.Errorf("%v, %v", q.Keys, err)
	}
}

// The bounds come back with the index that Sync has stored, and with a snapshot.
func TestBoundsOutliveRestartsAndSnapshots(t *testing.T) {
	directory := t.TempDir()
	r := bounded(t, directory, true)
	if r.Bounds().Version != 0 {
		t.Fatalf("a closed shard has %+v", r.Bounds())
	}
	entries(t, r, 1, outsideCommand(1, put(500, 1)), NewBounds(1, 0, bounds(100, 999, 1)))
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	entries(t, r, 3, NewBounds(1, 1, bounds(100, 199, 2)), outsideCommand(1, remove(500)))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = bounded(t, directory, true)
	if got := r.Bounds(); got != bounds(100, 999, 1) {
		t.Fatalf("opened with %+v", got)
	}
	expectResults(t, entries(t, r, 3, NewBounds(1, 1, bounds(100, 199, 2)),
		outsideCommand(1, remove(500)), withToken(1, 150, 1)),
		ResultApplied, ResultApplied, ResultApplied)
	context, err := r.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	other := bounded(t, t.TempDir(), true)
	stream := streamOf(t, r, context)
	if err := other.RecoverFromSnapshot(bytes.NewReader(stream), nil); err != nil {
		t.Fatal(err)
	}
	if got := other.Bounds(); got != bounds(100, 199, 2) {
		t.Errorf("loaded %+v", got)
	}
	expectResults(t, entries(t, other, 6, withToken(1, 200, 1), withToken(1, 199, 1)),
		ResultMoved, ResultApplied)
	var sink bytes.Buffer
	if err := r.Stream(&sink, 1, nil); !errors.Is(err, ErrMoved) || sink.Len() != 0 {
		t.Errorf("a backup by an older map: %d bytes, %v", sink.Len(), err)
	}
	if err := r.Stream(&sink, 2, nil); err != nil {
		t.Error(err)
	}
}

// A key that a shard never had is no client's mistake, and not one of an older map.
func TestAKeyOutsideOfTheStoreIsMalformed(t *testing.T) {
	r := bounded(t, t.TempDir(), false)
	expectResults(t, entries(t, r, 1, withToken(1, 99, 1), outsideCommand(1, put(1000, 1))),
		ResultMalformed, ResultMalformed)
}
