package resp

import (
	"container/list"
	"sync"
	"time"
)

// budget counts bytes in flight of all clients. Clients that wait for room are served in FIFO
// order. All methods may be called from any goroutine.
type budget struct {
	mutex   sync.Mutex
	limit   int64
	used    int64
	waiters list.List // of *budgetWaiter
}

type budgetWaiter struct {
	bytes int64
	ready chan struct{} // closed when the bytes were given
}

// acquire takes bytes, and waits for them at most `wait`. Without a wait it takes them only if they
// are free and no other client waits.
func (b *budget) acquire(bytes int64, wait time.Duration) bool {
	b.mutex.Lock()
	if b.waiters.Len() == 0 && b.used+bytes <= b.limit {
		b.used += bytes
		b.mutex.Unlock()
		return true
	}
	if bytes > b.limit || wait <= 0 {
		b.mutex.Unlock()
		return false
	}
	waiter := &budgetWaiter{bytes: bytes, ready: make(chan struct{})}
	element := b.waiters.PushBack(waiter)
	b.mutex.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-waiter.ready:
		return true
	case <-timer.C:
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	select {
	case <-waiter.ready: // The bytes came between the time-out and the lock.
		return true
	default:
	}
	b.waiters.Remove(element)
	b.serve() // A smaller request behind this one may fit.
	return false
}

// force takes bytes even beyond the limit. Callers use it for amounts that are small and bounded.
func (b *budget) force(bytes int64) {
	b.mutex.Lock()
	b.used += bytes
	b.mutex.Unlock()
}

// release gives bytes back.
func (b *budget) release(bytes int64) {
	if bytes == 0 {
		return
	}
	b.mutex.Lock()
	b.used -= bytes
	b.serve()
	b.mutex.Unlock()
}

// inUse tells how many bytes are taken.
func (b *budget) inUse() int64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.used
}

// serve gives bytes to waiters, oldest first. The caller holds the mutex.
func (b *budget) serve() {
	for element := b.waiters.Front(); element != nil; element = b.waiters.Front() {
		waiter := element.Value.(*budgetWaiter)
		if b.used+waiter.bytes > b.limit {
			return
		}
		b.used += waiter.bytes
		b.waiters.Remove(element)
		close(waiter.ready)
	}
}
