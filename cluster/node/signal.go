package node

import "sync"

// signal wakes all that wait for the next change of something. Its zero value is ready for use.
type signal struct {
	mu   sync.Mutex
	next chan struct{} // nil: nobody waits
}

// wait gives a channel that is closed at the next change. It is to be called before a look at what
// changes, so that no change is missed.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
