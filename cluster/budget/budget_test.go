package budget

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// most is how many bytes an account may hold if there is no other.
func (b *Budget) most() int64 { return b.limit / (shareOfFree + 1) * shareOfFree }

// TestGreedyAccountsLeaveRoom has more and more accounts that take all they can get, in steps.
func TestGreedyAccountsLeaveRoom(t *testing.T) {
	const limit, step = 1 << 20, 64
	for _, count := range []int{1, 20, 1000} {
		b := New(limit)
		var accounts []*Account
		for range count {
			accounts = append(accounts, b.Open())
		}
		for taken := true; taken; {
			taken = false
			for _, a := range accounts {
				taken = a.Acquire(step, 0) || taken
			}
		}
		small := b.Open()
		for range 4 { // a small request is a few steps
			if !small.Acquire(step, 0) {
				t.Errorf("beside %d greedy accounts there is no room; %d bytes are in use", count,
					b.InUse())
			}
		}
		if count == 1 && accounts[0].held > b.most() {
			t.Errorf("one account holds %d bytes, more than %d", accounts[0].held, b.most())
		}
		if b.InUse() > limit {
			t.Errorf("%d bytes are in use", b.InUse())
		}
		for _, a := range append(accounts, small) {
			a.Close()
		}
		if b.InUse() != 0 {
			t.Errorf("%d bytes are in use at the end", b.InUse())
		}
	}
}

func TestLeastAndMostFit(t *testing.T) {
	for most := int64(1); most < 1000; most++ {
		b := New(Least(most))
		if !b.Open().Acquire(most, 0) || b.most() < most {
			t.Errorf("an account gets no %d of %d bytes", most, Least(most))
		}
		if a := New(Least(most) - shareOfFree - 1).Open(); a.Acquire(most, 0) {
			t.Errorf("an account gets %d bytes of fewer than %d", most, Least(most))
		}
	}
}

// TestWhoNeedsLeastIsServedFirst has accounts that wait while another holds all.
func TestWhoNeedsLeastIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(300)
		all := b.Open()
		all.Force(300)
		var mutex sync.Mutex
		var served []int64
		ask := func(bytes int64, wait time.Duration) {
			go func() {
				a := b.Open()
				if a.Acquire(bytes, wait) {
					mutex.Lock()
					served = append(served, bytes)
					mutex.Unlock()
				}
			}()
			synctest.Wait()
		}
		ask(150, time.Minute)
		ask(20, time.Minute)
		ask(10, time.Second) // gives up
		ask(30, time.Minute)
		time.Sleep(2 * time.Second)
		all.Release(60)
		synctest.Wait()
		if len(served) != 1 || served[0] != 20 {
			t.Errorf("with 60 of 300 bytes free, served %v", served)
		}
		all.Release(20)
		synctest.Wait()
		if len(served) != 2 || served[1] != 30 {
			t.Errorf("with 60 bytes free again, served %v", served)
		}
		all.Close()
		synctest.Wait()
		if len(served) != 3 || served[2] != 150 {
			t.Errorf("with 250 bytes free, served %v", served)
		}
		time.Sleep(time.Hour)
		if b.InUse() != 200 || len(b.waiters) != 0 {
			t.Errorf("%d bytes in use, %d wait", b.InUse(), len(b.waiters))
		}
		if New(300).Open().Acquire(201, time.Hour) {
			t.Error("more than an account may hold was given")
		}
	})
}

func TestMoveTo(t *testing.T) {
	from, to := New(100), New(100)
	a := from.Open()
	a.Force(30)
	a.MoveTo(to)
	if from.InUse() != 0 || to.InUse() != 30 || a.held != 30 {
		t.Errorf("%d, %d, %d", from.InUse(), to.InUse(), a.held)
	}
	a.Close()
	if to.InUse() != 0 {
		t.Errorf("%d in use", to.InUse())
	}
}

// TestManyAccounts takes and gives bytes at random; all of them must be given back.
func TestManyAccounts(t *testing.T) {
	const limit = 10_000
	b := New(limit)
	var group sync.WaitGroup
	for seed := range uint64(16) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for range 2000 {
				a := b.Open()
				for range random.IntN(4) {
					if a.Acquire(random.Int64N(2000), time.Duration(random.IntN(50))*time.Microsecond) &&
						b.InUse() > limit {
						t.Errorf("%d bytes in use", b.InUse())
					}
				}
				a.Close()
			}
		})
	}
	group.Wait()
	if b.InUse() != 0 || len(b.waiters) != 0 {
		t.Errorf("%d bytes in use, %d wait", b.InUse(), len(b.waiters))
	}
}
