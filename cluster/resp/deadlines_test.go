package resp

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlinesAreNeverEarlyAndSeldomNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Hour
		first := later(time.Time{}, wait)
		if left := time.Until(first); left < wait || left > wait+lateness(wait) {
			t.Fatalf("in %v", left)
		}
		if later(first, wait) != first {
			t.Error("a good deadline was replaced")
		}
		for _, present := range []time.Time{time.Now().Add(wait - time.Second),
			time.Now().Add(2 * wait)} {
			if next := later(present, wait); next == present || time.Until(next) < wait {
				t.Errorf("%v remains", time.Until(present))
			}
		}
	})
}

func TestCallsShareAContextForAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 160 * time.Millisecond
		server, err := New(Options{Service: newFake(), Limits: Limits{RequestTimeout: wait}})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		first := server.callContext()
		if server.callContext() != first {
			t.Error("the next call has another one")
		}
		time.Sleep(wait / 8)
		second := server.callContext()
		deadline, _ := second.Deadline()
		if second == first || time.Until(deadline) < wait {
			t.Errorf("%v are left", time.Until(deadline))
		}
		<-first.Done()
		server.cancel()
		<-second.Done()
	})
}
