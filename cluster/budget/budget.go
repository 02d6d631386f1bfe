// Package budget divides the memory of requests under way among clients and nodes.
//
// Purpose: a Budget bounds the bytes of all its accounts together. One account may hold at most
// shareOfFree times what it leaves free. Network switches share their buffers in this way, by
// dynamic thresholds. The more is taken, the less each account may hold. Many accounts that hold as
// much as they may still leave room for one that holds little.
//
// Thread safety: all methods of a Budget may be called from any goroutine. An Account belongs to
// one goroutine.
package budget

import (
	"container/heap"
	"sync"
	"time"
)

// shareOfFree is how many times the free bytes one account may hold.
const shareOfFree = 2

// Budget counts bytes that are taken.
type Budget struct {
	mutex   sync.Mutex
	limit   int64
	used    int64
	waiters waiters
	number  uint64 // of the last waiter
}

// New makes a budget of `limit` bytes.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Least is the least limit of a budget in which one account may hold `most` bytes.
func Least(most int64) int64 {
	return (most + shareOfFree - 1) / shareOfFree * (shareOfFree + 1)
}

// InUse tells how many bytes are taken.
func (b *Budget) InUse() int64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.used
}

// Open makes an account that holds nothing.
func (b *Budget) Open() *Account { return &Account{budget: b} }

// Account holds bytes of a budget for one client or call.
type Account struct {
	budget *Budget
	held   int64
}

// waiter is an account that waits for bytes. It holds nothing more meanwhile, so that its needs
// stay as they are.
type waiter struct {
	bytes int64
	// The bytes may be taken once shareOfFree times the free ones are as many.
	needs  int64
	number uint64        // in the order of arrival
	index  int           // in the heap; -1: the bytes were given
	ready  chan struct{} // closed when the bytes were given
}

// Acquire takes bytes, and waits for them at most `wait`. Those who need least are served first.
func (a *Account) Acquire(bytes int64, wait time.Duration) bool {
	b := a.budget
	b.mutex.Lock()
	needs := a.held + (shareOfFree+1)*bytes
	if b.fits(needs) {
		b.used += bytes
		a.held += bytes
		b.mutex.Unlock()
		return true
	}
	if wait <= 0 || needs > shareOfFree*(b.limit-a.held) {
		b.mutex.Unlock()
		return false
	}
	b.number++
	w := &waiter{bytes: bytes, needs: needs, number: b.number, ready: make(chan struct{})}
	heap.Push(&b.waiters, w)
	b.mutex.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.ready:
	case <-timer.C:
		b.mutex.Lock()
		defer b.mutex.Unlock()
		// The bytes may have come between the time-out and the lock.
		if w.index >= 0 {
			heap.Remove(&b.waiters, w.index)
			return false
		}
	}
	a.held += bytes
	return true
}

// Force takes bytes even if there are none. Callers use it for amounts that are small and bounded.
func (a *Account) Force(bytes int64) {
	a.budget.mutex.Lock()
	a.budget.used += bytes
	a.budget.mutex.Unlock()
	a.held += bytes
}

// Release gives bytes back.
func (a *Account) Release(bytes int64) {
	if bytes == 0 {
		return
	}
	a.held -= bytes
	b := a.budget
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.used -= bytes
	for len(b.waiters) > 0 && b.fits(b.waiters[0].needs) {
		w := heap.Pop(&b.waiters).(*waiter)
		b.used += w.bytes
		close(w.ready)
	}
}

// Close gives everything back.
func (a *Account) Close() { a.Release(a.held) }

// MoveTo takes what the account holds from another budget instead.
func (a *Account) MoveTo(b *Budget) {
	held := a.held
	a.Close()
	a.budget = b
	a.Force(held)
}

// fits tells whether bytes may be taken by an account with these needs. The caller holds the mutex.
func (b *Budget) fits(needs int64) bool { return needs <= shareOfFree*(b.limit-b.used) }

// waiters is a heap: those who need least come first, and among equals those who came first.
type waiters []*waiter

func (w waiters) Len() int { return len(w) }

func (w waiters) Less(i, j int) bool {
	if w[i].needs != w[j].needs {
		return w[i].needs < w[j].needs
	}
	return w[i].number < w[j].number
}

func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push implements heap.Interface.
func (w *waiters) Push(added any) {
	one := added.(*waiter)
	one.index = len(*w)
	*w = append(*w, one)
}

// Pop implements heap.Interface.
func (w *waiters) Pop() any {
	last := len(*w) - 1
	one := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	one.index = -1
	return one
}
