package replica

import (
	"bytes"
	"testing"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/service"
)

func get(key uint64) service.Op { return service.Op{Key: key, Read: true} }

// readsHeader is that of a command with reads that the replica proposed.
func readsHeader(r *Replica) Header {
	return Header{Version: ReadsVersion, Counted: true, Reads: true, Reader: r.Reader()}
}

// A read of a command sees the entries before it, of the same Update too, and the ops before it.
func TestReadsOfACommandSeeWhatCameBefore(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1), put(5, 5)))
	ops := []service.Op{get(1), put(1, 3), get(1), remove(1), get(1), get(2), put(2, 1), remove(9),
		get(5), get(5)}
	entries, err := r.Update([]statemachine.Entry{
		{Index: 2, Cmd: commandOf(t, false, put(1, 2))},
		{Index: 3, Cmd: withHeader(readsHeader(r), ops...)},
		{Index: 4, Cmd: commandOf(t, false, put(5, 6))},
	})
	if err != nil || entries[1].Result.Value != ResultApplied {
		t.Fatalf("%v, %v", entries[1].Result.Value, err)
	}
	found, err := ParseFound(ops, entries[1].Result.Data, service.DefaultValueBytes)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		existed bool
		value   []byte
	}{
		{true, valueOf(1, 2)}, {true, nil}, {true, valueOf(1, 3)}, {true, nil}, {false, nil},
		{false, nil}, {false, nil}, {false, nil}, {true, valueOf(5, 5)}, {true, valueOf(5, 5)},
	} {
		if got := found[i]; got.Existed != want.existed || got.Damaged ||
			!bytes.Equal(got.Value, want.value) {
			t.Errorf("op %d: existed %v, %d bytes", i, got.Existed, len(got.Value))
		}
	}
	expectState(t, r, map[uint64]uint64{2: 1, 5: 6})
	for _, short := range []int{0, 1, 500, len(entries[1].Result.Data) - 1} {
		cut := entries[1].Result.Data[:short]
		if _, err := ParseFound(ops, cut, service.DefaultValueBytes); err == nil {
			t.Errorf("%d bytes of a result are parsed", short)
		}
	}
}

func TestMalformedReadsChangeNothing(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	for i, h := range []Header{
		{Version: ReadsVersion, Counted: true}, {Version: ReadsVersion, Reads: true},
		{Version: ReadsVersion - 1, Counted: true, Reads: true}, {Version: firstVersion, Counted: true},
	} {
		command := withHeader(h, put(1, 1), get(1))
		if got := update(t, r, uint64(i+1), command); got.Value != ResultMalformed {
			t.Errorf("%+v: %d", h, got.Value)
		}
	}
	expectState(t, r, map[uint64]uint64{})
}

func TestAReadOfACommandFindsARottenRecord(t *testing.T) {
	r := rotten(t, 200)
	defer r.Close()
	ops := []service.Op{get(7), get(777)}
	result := update(t, r, 201, withHeader(readsHeader(r), ops...))
	found, err := ParseFound(ops, result.Data, service.DefaultValueBytes)
	if err != nil || result.Value != ResultApplied {
		t.Fatal(err, result.Value)
	}
	if !found[0].Damaged || found[0].Value != nil || found[1].Damaged || found[1].Existed {
		t.Errorf("found %v", found)
	}
	if failure := r.Failure(); failure == nil || !failure.IsDamage() {
		t.Errorf("the replica is not healed: %v", failure)
	}
}

// The other replicas, and this one after a restart, make no results: nobody waits for them.
func TestOnlyTheProposingReplicaReads(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	h := readsHeader(r)
	h.Reader++
	result := update(t, r, 1, withHeader(h, put(1, 1), get(1), put(2, 1), remove(2)))
	if result.Value != ResultApplied || result.Data != nil {
		t.Errorf("%d, %d bytes", result.Value, len(result.Data))
	}
	expectState(t, r, map[uint64]uint64{1: 1})
	result = update(t, r, 2, withHeader(readsHeader(r), get(1), get(2)))
	if len(result.Data) != r.FoundBytes()+1 ||
		!bytes.Equal(result.Data[1:r.FoundBytes()], valueOf(1, 1)) {
		t.Errorf("%d bytes", len(result.Data))
	}
}
