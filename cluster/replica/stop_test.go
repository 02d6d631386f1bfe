package replica

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// openSmallIn opens a replica whose store is full after a few hundred records.
func openSmallIn(t *testing.T, directory string) *Replica {
	t.Helper()
	config := configIn(directory)
	config.Options = map[string]string{"bucket_count": "1", "file_count": "1",
		"bucket_capacity_records": "256", "memory_budget_bytes": "64m"}
	r := New(config)
	if _, err := r.Open(nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func awaitFull(t *testing.T, r *Replica) {
	t.Helper()
	testkit.Eventually(t, "the store becomes full", r.Full)
}

// Dragonboat compares errors: it ends the process for one that only contains ErrSnapshotStopped.
func TestAStopEndsTheLoadingOfASnapshot(t *testing.T) {
	stream := snapshotOf(t, 1000)
	stopped := make(chan struct{})
	close(stopped)
	to, _ := openIn(t, t.TempDir())
	err := to.RecoverFromSnapshot(bytes.NewReader(stream), stopped)
	if err != statemachine.ErrSnapshotStopped {
		t.Errorf("loading: %v", err)
	}

	small := openSmallIn(t, t.TempDir())
	stopped = make(chan struct{})
	loaded := make(chan error, 1)
	go func() { loaded <- small.RecoverFromSnapshot(bytes.NewReader(stream), stopped) }()
	awaitFull(t, small)
	small.Stop()
	// It looks for room again and again. The first look may have begun before the stop.
	for range 3 {
		small.full.Store(false)
		awaitFull(t, small)
	}
	select {
	case err := <-loaded:
		t.Fatalf("it ends without dragonboat's signal: %v", err)
	default:
	}
	close(stopped)
	if err := <-loaded; err != statemachine.ErrSnapshotStopped {
		t.Errorf("waiting for room: %v", err)
	}
}

func TestAReplicaThatLeftOutEntriesAnswersNothing(t *testing.T) {
	directory := t.TempDir()
	r := openSmallIn(t, directory)
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	var ops []service.Op
	for i := range uint64(1000) {
		ops = append(ops, put(i, 2))
	}
	var entries []statemachine.Entry
	for i, op := range ops {
		entries = append(entries, statemachine.Entry{Index: uint64(i + 2),
			Cmd: commandOf(t, false, op)})
	}
	updated := make(chan error, 1)
	go func() {
		_, err := r.Update(entries)
		updated <- err
	}()
	awaitFull(t, r)
	r.Stop()
	if err := <-updated; err != nil {
		t.Fatal(err)
	}
	if entries[999].Result.Value != ResultStopped {
		t.Fatalf("result %d", entries[999].Result.Value)
	}
	if _, err := r.Lookup(&CountQuery{Last: ^uint64(0)}); !errors.Is(err, ErrClosed) {
		t.Errorf("a lookup: %v", err)
	}
	if err := r.Sync(); !isNoSnapshot(err) {
		t.Errorf("a sync: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if index, _, err := readApplied(directory); err != nil || index != (position{index: 1}) {
		t.Errorf("the stored index is %d, %v", index, err)
	}
}

// blocked is a receiver that takes nothing until it is closed.
type blocked struct{ entered, open chan struct{} }

func (b *blocked) Write(data []byte) (int, error) {
	select {
	case b.entered <- struct{}{}:
	default:
	}
	<-b.open
	return len(data), nil
}

func TestASlowReceiverDoesNotHoldUpTheReplica(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	context, err := r.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	stream := streamOf(t, r, context)
	slow := &blocked{entered: make(chan struct{}, 1), open: make(chan struct{})}
	sent := make(chan error, 1)
	go func() { sent <- r.Stream(slow, 1, nil) }()
	<-slow.entered
	recovered := make(chan error, 1)
	go func() { recovered <- r.RecoverFromSnapshot(bytes.NewReader(stream), nil) }()
	select {
	case err := <-recovered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the replica waits for the receiver")
	}
	close(slow.open)
	if err := <-sent; err != statemachine.ErrSnapshotStopped {
		t.Errorf("the stream: %v", err)
	}
}

// What was read from a replica at an index holds for later ones if no entry came in between, not
// even one that the replica has left out.
func TestAReplicaIsStillAtItsIndexUntilEntriesCome(t *testing.T) {
	r := openSmallIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	if !r.IsStillAt(1) || r.IsStillAt(0) {
		t.Error("it has applied entry 1")
	}
	var ops []service.Op
	for i := range uint64(1000) {
		ops = append(ops, put(i, 2))
	}
	ended := make(chan statemachine.Result, 1)
	go func() { ended <- update(t, r, 2, commandOf(t, false, ops...)) }()
	awaitFull(t, r)
	if r.Applied() != 1 || r.IsStillAt(1) {
		t.Error("it has begun with entry 2")
	}
	r.Stop()
	if result := <-ended; result.Value != ResultStopped || r.IsStillAt(1) || r.IsStillAt(2) {
		t.Errorf("it has left out entry 2: %d", result.Value)
	}
}

func TestAFailedReplicaIsStillAtNoIndex(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	r.fail(errDamaged, true)
	if r.IsStillAt(1) {
		t.Error("its next entries may be left out")
	}
	closed, _ := openIn(t, t.TempDir())
	for _, replica := range []*Replica{r, closed} {
		if err := replica.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if closed.IsStillAt(0) {
		t.Error("it is closed")
	}
}
