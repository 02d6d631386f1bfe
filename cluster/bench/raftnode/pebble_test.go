package raftnode

import (
	"bytes"
	"testing"

	"engine_race/cluster/bench/load"

	"github.com/lni/dragonboat/v4/statemachine"
)

func open(t *testing.T, directory string, syncs bool) (*pebbleMachine, uint64) {
	t.Helper()
	machine := &pebbleMachine{directory: directory, syncs: syncs}
	index, err := machine.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	return machine, index
}

func entry(index, record uint64) statemachine.Entry {
	value := bytes.Repeat([]byte{byte(index)}, load.DefaultValueBytes)
	return statemachine.Entry{Index: index, Cmd: command(load.Key(record), value)}
}

// firstByte is that of a record's value.
func firstByte(t *testing.T, machine *pebbleMachine, record uint64) byte {
	t.Helper()
	value, err := machine.Lookup(load.KeyText(load.Key(record)))
	if err != nil || missingOf(value, load.DefaultValueBytes) != 0 {
		t.Fatalf("record %d: %v, %v", record, value, err)
	}
	return value.([]byte)[0]
}

func TestARestartedMachineKnowsItsIndexAndRecords(t *testing.T) {
	for _, syncs := range []bool{true, false} {
		directory := t.TempDir()
		machine, index := open(t, directory, syncs)
		if index != 0 {
			t.Errorf("a new machine is at %d", index)
		}
		entries := []statemachine.Entry{entry(5, 1), entry(6, 2), entry(7, 1)}
		if _, err := machine.Update(entries); err != nil {
			t.Fatal(err)
		}
		if err := machine.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := machine.Close(); err != nil {
			t.Fatal(err)
		}
		machine, index = open(t, directory, syncs)
		if index != 7 || firstByte(t, machine, 1) != 7 || firstByte(t, machine, 2) != 6 {
			t.Errorf("index %d, %d, %d", index, firstByte(t, machine, 1), firstByte(t, machine, 2))
		}
		value, err := machine.Lookup(load.KeyText(1))
		if err != nil || missingOf(value, load.DefaultValueBytes) != 1 {
			t.Errorf("%v, %v", value, err)
		}
		if err := machine.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASnapshotHasTheStateOfItsMoment(t *testing.T) {
	source, _ := open(t, t.TempDir(), true)
	defer source.Close()
	if _, err := source.Update([]statemachine.Entry{entry(3, 1)}); err != nil {
		t.Fatal(err)
	}
	view, err := source.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Update([]statemachine.Entry{entry(4, 1)}); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := source.SaveSnapshot(view, &stream, nil); err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	target, _ := open(t, directory, true)
	if err := target.RecoverFromSnapshot(bytes.NewReader(stream.Bytes()), nil); err != nil {
		t.Fatal(err)
	}
	if firstByte(t, target, 1) != 3 {
		t.Error("the snapshot has a later write")
	}
	cut := bytes.NewReader(stream.Bytes()[:stream.Len()-1])
	if target.RecoverFromSnapshot(cut, nil) == nil {
		t.Error("half a snapshot was taken")
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	target, index := open(t, directory, true)
	defer target.Close()
	if index != 3 {
		t.Errorf("index %d", index)
	}
}
