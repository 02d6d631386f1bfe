package replica

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/lni/dragonboat/v4/statemachine"
)

func streamOf(t *testing.T, r *Replica, context any) []byte {
	t.Helper()
	var stream bytes.Buffer
	if err := r.SaveSnapshot(context, &stream, nil); err != nil {
		t.Fatal(err)
	}
	return stream.Bytes()
}

func TestASnapshotIsOfItsMoment(t *testing.T) {
	from, _ := openIn(t, t.TempDir())
	defer from.Close()
	want := map[uint64]uint64{}
	for i := range uint64(200) {
		update(t, from, i+1, commandOf(t, false, put(i, i+1)))
		want[i] = i + 1
	}
	context, err := from.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	update(t, from, 201, commandOf(t, false, put(5, 999), remove(6), put(1000, 1)))
	stream := streamOf(t, from, context)

	directory := t.TempDir()
	to, _ := openIn(t, directory)
	update(t, to, 1, commandOf(t, false, put(7777, 1)))
	if err := to.RecoverFromSnapshot(bytes.NewReader(stream), nil); err != nil {
		t.Fatal(err)
	}
	expectState(t, to, want)
	if to.Applied() != 200 || to.Synced() != 200 {
		t.Fatalf("applied %d, synced %d", to.Applied(), to.Synced())
	}
	update(t, to, 201, commandOf(t, false, put(5, 999), remove(6), put(1000, 1)))
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	to, index := openIn(t, directory)
	defer to.Close()
	if index != 200 {
		t.Fatalf("reopened with %d", index)
	}
}

// snapshotOf gives the stream of a snapshot with `count` records.
func snapshotOf(t *testing.T, count uint64) []byte {
	t.Helper()
	from, _ := openIn(t, t.TempDir())
	defer from.Close()
	for i := range count {
		update(t, from, i+1, commandOf(t, false, put(i, 1)))
	}
	context, err := from.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	return streamOf(t, from, context)
}

func TestADamagedStreamIsRefusedAndLeavesNothing(t *testing.T) {
	stream := snapshotOf(t, 100)
	flipped := slices.Clone(stream)
	flipped[len(flipped)/2] ^= 1
	for name, damaged := range map[string][]byte{
		"empty": {}, "cut in a block": stream[:len(stream)/2], "a flipped bit": flipped,
		"without its end": stream[:len(stream)-16],
		"not a stream":    bytes.Repeat([]byte{255}, 10000),
	} {
		directory := t.TempDir()
		to, _ := openIn(t, directory)
		update(t, to, 1, commandOf(t, false, put(1, 1)))
		if err := to.Sync(); err != nil {
			t.Fatal(err)
		}
		err := to.recover(bytes.NewReader(damaged), nil)
		if !errors.Is(err, errDamagedStream) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := to.Lookup(&CountQuery{Last: ^uint64(0)}); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: a lookup afterwards: %v", name, err)
		}
		// As after a kill in the middle.
		to, index := openIn(t, directory)
		if index != 0 {
			t.Errorf("%s: reopened with %d", name, index)
		}
		expectState(t, to, map[uint64]uint64{})
		to.Close()
	}
}

func TestAStopEndsSnapshots(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	context, err := r.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	close(stopped)
	if err := r.SaveSnapshot(context, io.Discard, stopped); !errors.Is(err,
		statemachine.ErrSnapshotStopped) {
		t.Fatal(err)
	}
}
