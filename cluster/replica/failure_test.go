package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/service"
)

// ended is the signal of a replica that dragonboat has stopped.
func ended() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// rotten gives an open replica whose values on the disk were changed.
func rotten(t *testing.T, count uint64) *Replica {
	t.Helper()
	directory := t.TempDir()
	r, _ := openIn(t, directory)
	for i := range count {
		update(t, r, i+1, commandOf(t, false, put(i, 1)))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	changed := 0
	err := filepath.Walk(filepath.Join(directory, storeName),
		func(path string, info os.FileInfo, err error) error {
			if err != nil || !info.Mode().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			const size = service.DefaultValueBytes
			for at := 0; err == nil && at+size <= len(data); at += size {
				if value := put(0, 1).Value; bytes.Equal(data[at+8:at+size], value[8:]) {
					data[at+2000] ^= 0xff
					changed++
				}
			}
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		})
	if err != nil || changed == 0 {
		t.Fatalf("%d values were changed: %v", changed, err)
	}
	// Without a stored index the replica would begin anew.
	if err := writeApplied(directory, position{index: count}); err != nil {
		t.Fatal(err)
	}
	r, _ = openIn(t, directory)
	return r
}

// isNoSnapshot tells whether dragonboat gives a snapshot up for this error before it has begun.
func isNoSnapshot(err error) bool {
	var refused *noSnapshotError
	return errors.As(err, &refused) && refused.Is(errors.New("snapshot out of date")) &&
		errors.Is(err, statemachine.ErrSnapshotStreaming) &&
		!errors.Is(err, statemachine.ErrSnapshotStopped)
}

// Dragonboat ends the process, with the replicas of all shards, for an error that is not its own.
func TestARottenRecordEndsASnapshotAlone(t *testing.T) {
	r := rotten(t, 200)
	defer r.Close()
	context, err := r.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	err = r.SaveSnapshot(context, io.Discard, nil)
	if !errors.Is(err, statemachine.ErrSnapshotStopped) {
		t.Errorf("a snapshot: %v", err)
	}
	failure := r.Failure()
	if failure == nil || failure.Stopped || !failure.IsDamage() {
		t.Fatalf("its failure is %+v", failure)
	}
	// It still takes entries.
	update(t, r, 201, commandOf(t, false, put(1, 2)))
}

func TestAReadFindsARottenRecord(t *testing.T) {
	r := rotten(t, 200)
	defer r.Close()
	q := &ReadQuery{Keys: []uint64{7}, Values: make([]byte, service.DefaultValueBytes),
		Results: make(engine.Results, 1)}
	if _, err := r.Lookup(q); err != nil || !errors.Is(q.Results.Err(0), engine.ErrCorruption) {
		t.Fatalf("a read: %v, %v", err, q.Results.Err(0))
	}
	if failure := r.Failure(); failure == nil || failure.Stopped {
		t.Errorf("its failure is %+v", failure)
	}
}

func TestAComparisonFindsARottenRecord(t *testing.T) {
	r := rotten(t, 200)
	defer r.Close()
	markOf(t, r, 201)
	if _, err := r.Hash(t.Context(), 201, 0); !errors.Is(err, engine.ErrCorruption) {
		t.Fatalf("a hash: %v", err)
	}
	if failure := r.Failure(); failure == nil || failure.Stopped {
		t.Errorf("its failure is %+v", failure)
	}
}

func TestAStoreThatDoesNotOpenIsAFailure(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, appliedName), []byte("nonsense"),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := New(configIn(directory))
	if _, err := r.Open(ended()); err != statemachine.ErrOpenStopped {
		t.Errorf("open: %v", err)
	}
	if failure := r.Failure(); failure == nil || !failure.Stopped || !failure.IsDamage() {
		t.Errorf("its failure is %+v", failure)
	}
	wrong := configIn(t.TempDir())
	wrong.Options = map[string]string{"bucket_count": "nonsense"}
	r = New(wrong)
	if _, err := r.Open(ended()); err != statemachine.ErrOpenStopped {
		t.Errorf("open: %v", err)
	}
	if failure := r.Failure(); failure == nil || failure.IsDamage() || !failure.MayPass() {
		t.Errorf("a wrong option is taken for damage: %+v", failure)
	}
}

func TestADamagedStreamIsAFailure(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	err := r.RecoverFromSnapshot(bytes.NewReader([]byte("nonsense")), ended())
	if err != statemachine.ErrSnapshotStopped {
		t.Errorf("loading: %v", err)
	}
	if failure := r.Failure(); failure == nil || !failure.Stopped {
		t.Errorf("its failure is %+v", failure)
	}
}

// A replica that cannot write leaves entries out, and must answer nothing from then on.
func TestAStoreThatFailsStopsItsReplica(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	entries := []statemachine.Entry{{Index: 2, Cmd: commandOf(t, false, []service.Op{put(2, 1)}...)}}
	if _, err := r.Update(entries); err != nil {
		t.Fatalf("dragonboat hears of it: %v", err)
	}
	if entries[0].Result.Value != ResultStopped {
		t.Errorf("result %d", entries[0].Result.Value)
	}
	if failure := r.Failure(); failure == nil || !failure.Stopped {
		t.Errorf("its failure is %+v", failure)
	}
	if _, err := r.Lookup(&CountQuery{Last: ^uint64(0)}); !errors.Is(err, ErrClosed) {
		t.Errorf("a lookup: %v", err)
	}
	if err := r.Sync(); !isNoSnapshot(err) {
		t.Errorf("a sync: %v", err)
	}
}

// Dragonboat gives a snapshot the index of the last entry that it handed to Update. The receiver
// would lack those that a dead replica has left out, for ever.
func TestAReplicaThatLeftOutEntriesGivesNoCopy(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	r.fail(errors.New("a disk that does not answer"), true)
	entries := []statemachine.Entry{{Index: 2, Cmd: commandOf(t, false, []service.Op{put(2, 1)}...)}}
	if _, err := r.Update(entries); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PrepareSnapshot(); !isNoSnapshot(err) {
		t.Errorf("a snapshot: %v", err)
	}
	if err := r.Stream(io.Discard, 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream: %v", err)
	}
	if _, err := r.Backup(filepath.Join(t.TempDir(), "b"), ""); !errors.Is(err, ErrClosed) {
		t.Errorf("a backup: %v", err)
	}
}

// A replica whose files cannot be read at present is not lost: it would be copied anew.
func TestAFileThatCannotBeReadIsNoLoss(t *testing.T) {
	directory := t.TempDir()
	// A link to itself: reading it fails, and it is there.
	applied := filepath.Join(directory, appliedName)
	if err := os.Symlink(applied, applied); err != nil {
		t.Fatal(err)
	}
	if err := Check(directory); err != nil {
		t.Errorf("check: %v", err)
	}
	r := New(configIn(directory))
	if _, err := r.Open(ended()); err != statemachine.ErrOpenStopped {
		t.Errorf("open: %v", err)
	}
	if failure := r.Failure(); failure == nil || !failure.Stopped || failure.IsDamage() {
		t.Errorf("its failure is %+v", failure)
	}
}

func TestAFullDiskMayPass(t *testing.T) {
	err := fmt.Errorf("load a snapshot: %w", &os.PathError{Op: "write", Path: "applied",
		Err: syscall.ENOSPC})
	if failure := (&Failure{Err: err, Stopped: true}); !failure.MayPass() || failure.IsDamage() {
		t.Errorf("a full disk is taken for a lost replica")
	}
}

func TestAStoreOfAnotherProgramMayPass(t *testing.T) {
	err := fmt.Errorf("open a store: %w", engine.ErrNotSupported)
	if failure := (&Failure{Err: err, Stopped: true}); !failure.MayPass() || failure.IsDamage() {
		t.Errorf("a store that this program does not know is taken for a lost replica")
	}
}

func TestAReplicaThatWasGivenUpDoesNotOpen(t *testing.T) {
	directory := t.TempDir()
	r, _ := openIn(t, directory)
	if err := errors.Join(r.Close(), Check(directory)); err != nil {
		t.Fatal(err)
	}
	if err := GiveUp(directory, errors.New("rot")); err != nil {
		t.Fatal(err)
	}
	if err := Check(directory); !errors.Is(err, errDamaged) {
		t.Errorf("check: %v", err)
	}
	if _, err := New(configIn(directory)).open(); !errors.Is(err, errDamaged) {
		t.Errorf("open: %v", err)
	}
}

// Dragonboat ends the process when a store cannot be synced that has just loaded a snapshot.
func TestALoadedSnapshotNeedsNoSync(t *testing.T) {
	stream := snapshotOf(t, 10)
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	if err := r.RecoverFromSnapshot(bytes.NewReader(stream), nil); err != nil {
		t.Fatal(err)
	}
	r.fail(errors.New("a disk that does not answer"), true)
	if err := r.Sync(); err != nil {
		t.Errorf("a sync after the load: %v", err)
	}
	entries := []statemachine.Entry{{Index: r.Applied() + 1,
		Cmd: commandOf(t, false, []service.Op{put(2, 1)}...)}}
	if _, err := r.Update(entries); err != nil {
		t.Fatal(err)
	}
	if err := r.Sync(); !isNoSnapshot(err) {
		t.Errorf("a sync after an entry that was left out: %v", err)
	}
}
