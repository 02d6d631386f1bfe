package model

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"engine_race/cluster/check/history"
	"engine_race/cluster/check/wire"
)

func put(call, done int64, id uint64, outcome wire.Outcome) *history.Operation {
	return &history.Operation{Kind: history.Set, Keys: []int{0}, Written: []uint64{id},
		CallNS: call, DoneNS: done, Outcome: outcome}
}

func get(call, done int64, id uint64) *history.Operation {
	return &history.Operation{Kind: history.Get, Keys: []int{0}, Read: []uint64{id},
		CallNS: call, DoneNS: done}
}

func del(call, done int64, deleted int, outcome wire.Outcome) *history.Operation {
	return &history.Operation{Kind: history.Del, Keys: []int{0}, Deleted: deleted,
		CallNS: call, DoneNS: done, Outcome: outcome}
}

func mset(call, done int64, first, second uint64) *history.Operation {
	return &history.Operation{Kind: history.MSet, Keys: []int{0, 1},
		Written: []uint64{first, second}, CallNS: call, DoneNS: done}
}

func mget(call, done int64, first, second uint64) *history.Operation {
	return &history.Operation{Kind: history.MGet, Keys: []int{0, 1},
		Read: []uint64{first, second}, CallNS: call, DoneNS: done}
}

func TestVerdicts(t *testing.T) {
	const done, refused, unknown = wire.Done, wire.Refused, wire.Unknown
	tests := []struct {
		name       string
		valid      bool
		operations []*history.Operation
	}{
		{"nothing", true, nil},
		{"a read of an absent key", true, []*history.Operation{get(0, 1, 0)}},
		{"a read after a write", true, []*history.Operation{put(0, 1, 7, done), get(2, 3, 7)}},
		{"a stale read", false,
			[]*history.Operation{put(0, 1, 7, done), put(2, 3, 8, done), get(4, 5, 7)}},
		{"a read during two writes", true,
			[]*history.Operation{put(0, 1, 7, done), put(2, 9, 8, done), get(4, 5, 7)}},
		{"a read goes back", false,
			[]*history.Operation{put(0, 1, 7, done), put(2, 9, 8, done), get(4, 5, 8), get(6, 7, 7)}},
		{"a lost write", false, []*history.Operation{put(0, 1, 7, done), get(2, 3, 0)}},
		{"a refused write is not seen", true,
			[]*history.Operation{put(0, 1, 7, refused), get(2, 3, 0)}},
		{"a refused write is seen", false,
			[]*history.Operation{put(0, 1, 7, refused), get(2, 3, 7)}},
		{"an unknown write is seen late", true,
			[]*history.Operation{put(0, 1, 7, unknown), get(2, 3, 0), get(4, 5, 7)}},
		{"an unknown write is never seen", true,
			[]*history.Operation{put(0, 1, 7, unknown), get(2, 3, 0), get(4, 5, 0)}},
		{"an unknown write is seen and lost", false,
			[]*history.Operation{put(0, 1, 7, unknown), get(2, 3, 7), get(4, 5, 0)}},
		{"an unknown write is seen before its call", false,
			[]*history.Operation{get(0, 1, 7), put(2, 3, 7, unknown)}},
		{"an unknown write is done twice", false,
			[]*history.Operation{put(0, 1, 7, unknown), get(2, 3, 7), put(4, 5, 8, done),
				get(6, 7, 8), get(8, 9, 7)}},
		{"an unknown write late, over an acknowledged one", true,
			[]*history.Operation{put(0, 1, 7, unknown), put(2, 3, 8, done), get(4, 5, 7)}},
		{"DEL counts a write that no read has seen", true,
			[]*history.Operation{put(0, 1, 7, unknown), del(2, 3, 1, done), get(4, 5, 0)}},
		{"DEL counts what was never written", false,
			[]*history.Operation{del(2, 3, 1, done), get(4, 5, 0)}},
		{"DEL does not count a written key", false,
			[]*history.Operation{put(0, 1, 7, done), del(2, 3, 0, done)}},
		{"an unknown DEL is done late", true,
			[]*history.Operation{put(0, 1, 7, done), del(2, 3, 0, unknown), get(4, 5, 7),
				get(6, 7, 0)}},
		{"MSET is seen whole", true,
			[]*history.Operation{mset(0, 1, 7, 8), mget(2, 3, 7, 8)}},
		{"MSET is torn", false,
			[]*history.Operation{mset(0, 9, 7, 8), mget(2, 3, 7, 0)}},
	}
	for _, test := range tests {
		h := &history.History{Groups: [][]uint64{{1, 2}}, Operations: test.operations}
		verdict, err := Check(h, Options{})
		if err != nil || (len(verdict.Violations) == 0) != test.valid {
			t.Errorf("%s: %v, %v, want valid: %v", test.name, verdict, err, test.valid)
		}
	}
}

func TestGroupsAreJudgedByThemselves(t *testing.T) {
	stale := get(4, 5, 0)
	stale.Group = 1
	other := put(0, 1, 7, wire.Done)
	other.Group = 1
	directory := filepath.Join(t.TempDir(), "violation")
	h := &history.History{Groups: [][]uint64{{1}, {2}, {3}},
		Operations: []*history.Operation{put(0, 1, 5, wire.Done), get(2, 3, 5), other, stale}}
	verdict, err := Check(h, Options{Directory: directory})
	if err != nil || len(verdict.Violations) != 1 {
		t.Fatalf("%v, %v", verdict, err)
	}
	for _, name := range []string{"group-1.html", "history.json"} {
		if info, err := os.Stat(filepath.Join(directory, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMixedValuesAndOddRepliesAreViolations(t *testing.T) {
	odd := get(0, 1, 0)
	odd.Outcome, odd.Error, odd.Read = wire.Unexpected, "ERR what", nil
	h := &history.History{Groups: [][]uint64{{1}}, Mixed: []string{"bad"},
		Operations: []*history.Operation{odd}}
	verdict, err := Check(h, Options{})
	if err != nil || len(verdict.Violations) != 2 {
		t.Fatalf("%v, %v", verdict, err)
	}
}

func TestSearchOutOfTimeIsReportedApart(t *testing.T) {
	var operations []*history.Operation
	for id := range uint64(40) {
		operations = append(operations, put(0, 1000, id+1, wire.Done))
	}
	for id := range uint64(40) { // each id is read twice, with others between: no order fits
		operations = append(operations, get(0, 1000, id+1), get(2000+int64(id), 3000, id+1))
	}
	h := &history.History{Groups: [][]uint64{{1}}, Operations: operations}
	verdict, err := Check(h, Options{GroupTime: time.Millisecond})
	if err != nil || len(verdict.Unchecked) != 1 || len(verdict.Violations) != 0 {
		t.Fatalf("%v, %v", verdict, err)
	}
}
