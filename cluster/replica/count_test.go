package replica

import (
	"sync"
	"testing"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/service"
)

// Many counts at a time must not take the room of all other lookups.
func TestCountsThatWaitShareAWalk(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	r.countMu.Lock()
	var group sync.WaitGroup
	var came sync.WaitGroup
	for range 2 * maxLookups {
		came.Add(1)
		group.Go(func() {
			q := &CountQuery{Last: ^uint64(0)}
			came.Done()
			if _, err := r.Lookup(q); err != nil || q.Count != 2 {
				t.Errorf("%d keys, %v", q.Count, err)
			}
		})
	}
	came.Wait()
	q := &ReadQuery{Keys: []uint64{1}, Values: make([]byte, service.DefaultValueBytes),
		Results: make(engine.Results, 1)}
	if _, err := r.Lookup(q); err != nil || q.Results.Err(0) != nil {
		t.Fatalf("a read beside waiting counts: %v", err)
	}
	update(t, r, 2, commandOf(t, false, put(2, 1)))
	// An Update has begun, so that no walk is the count of an index.
	r.begun.Store(3)
	r.countMu.Unlock()
	group.Wait()
	if walks := r.countsBegun.Load(); walks >= 2*maxLookups {
		t.Errorf("%d walks", walks)
	}
}

func TestACountBesideAnUpdateIsNotKept(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	expect := func(want uint64) {
		t.Helper()
		q := &CountQuery{Last: ^uint64(0)}
		if _, err := r.Lookup(q); err != nil || q.Count != want {
			t.Errorf("%d keys, not %d, %v", q.Count, want, err)
		}
	}
	entries := []statemachine.Entry{{Index: 2, Cmd: commandOf(t, false, put(2, 1))},
		{Index: 3, Cmd: commandOf(t, false, put(3, 1))}}
	// The halves of an Update of two entries.
	r.begun.Store(3)
	for i, want := range []uint64{1, 2, 3} {
		expect(want)
		if i < len(entries) {
			if err := r.applyAll(entries[i:i+1], &position{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
