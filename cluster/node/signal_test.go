package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestASignalWakesThoseThatWaitedBefore(t *testing.T) {
	var s signal
	s.raise()
	first := s.wait()
	if isClosed(first) || first != s.wait() {
		t.Fatal("a change before the call wakes it")
	}
	s.raise()
	if !isClosed(first) || isClosed(s.wait()) {
		t.Fatal("the next change wakes others than those that wait")
	}
}

// No time passes between a leader's coming and the proposal: nothing polls.
func TestAProposalWaitsForALeaderAndNotForAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shard{replicaID: 1}
		s.proposer = &proposer{shard: s, stopped: make(chan struct{})}
		began := time.Now()
		deadline := began.Add(time.Minute)
		await := func() <-chan uint64 {
			found := make(chan uint64, 1)
			go func() {
				leader, err := s.proposer.awaitLeader(deadline)
				if err != nil {
					leader = 99
				}
				found <- leader
			}()
			synctest.Wait()
			return found
		}
		found := await()
		s.noteLeader(2, 5)
		if leader := <-found; leader != 2 || !time.Now().Equal(began) {
			t.Fatalf("leader %d after %v", leader, time.Since(began))
		}
		// While the leadership is handed over, and then is not.
		s.noteLeader(1, 6)
		s.proposer.hold(true)
		found = await()
		s.proposer.hold(false)
		if leader := <-found; leader != 1 || !time.Now().Equal(began) {
			t.Fatalf("leader %d after %v", leader, time.Since(began))
		}
		s.noteLeader(0, 7)
		if leader := <-await(); leader != 99 || time.Since(began) != time.Minute {
			t.Fatalf("leader %d after %v", leader, time.Since(began))
		}
	})
}

// Handing over waits for proposals that are under way.
func TestWaitingEndsWithTheLastProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &proposer{stopped: make(chan struct{})}
		p.proposed.Store(2)
		idle := func() bool { return p.proposed.Load() == 0 }
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			p.until(time.Hour, idle)
			cancel()
		}()
		began := time.Now()
		for range 2 {
			synctest.Wait()
			if ctx.Err() != nil {
				t.Fatal("it ends too early")
			}
			p.proposalEnded()
		}
		<-ctx.Done()
		p.proposed.Store(1)
		p.until(time.Second, idle)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
