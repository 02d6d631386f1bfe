package raftlog

import (
	"sync"
	"time"
)

// pace bounds how fast followers are sent what they have missed. A follower that catches up as fast
// as it can takes the leader's CPUs, disk and network from clients.
type pace struct {
	rate uint64 // bytes a second; 0: no bound
	now  func() time.Time

	mu     sync.Mutex
	budget int64
	filled time.Time
}

func newPace(rate uint64, now func() time.Time) *pace {
	return &pace{rate: rate, now: now, budget: messageBytes, filled: now()}
}

// allow adds to what may be sent. A follower must come closer to a log that grows.
func (p *pace) allow(bytes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = min(p.budget+int64(bytes), p.most())
}

// most is what may be sent at once after a pause: that of a quarter of a second.
func (p *pace) most() int64 { return max(messageBytes, int64(p.rate/4)) }

// take gives how much may be sent now. 0 permits one entry: a follower must hear something.
func (p *pace) take() uint64 {
	if p.rate == 0 {
		return messageBytes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	// In steps, so that many calls do not each lose a fraction.
	if passed := now.Sub(p.filled); passed >= time.Millisecond {
		p.filled = now
		passed = min(passed, time.Second)
		p.budget = min(p.budget+int64(float64(p.rate)*passed.Seconds()), p.most())
	}
	return uint64(max(0, p.budget))
}

func (p *pace) spend(bytes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A debt of more than a second would silence the link for long.
	p.budget = max(p.budget-int64(bytes), -int64(p.rate))
}

// saves knows how long the log's writes take.
type saves struct {
	mu    sync.Mutex
	since map[uint64]time.Time // by worker: when a write began that is under way
	mean  time.Duration
	ended time.Time
}

// begin notes the beginning of a write. Call what it gives at its end.
func (s *saves) begin(workerID uint64) func() {
	began := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == nil {
		s.since = map[uint64]time.Time{}
	}
	s.since[workerID] = began
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.since, workerID)
		s.ended = time.Now()
		s.mean += (s.ended.Sub(began) - s.mean) / 16
	}
}

// meanTime is how long the mean time of writes is believed after the last of them.
const meanTime = 10 * time.Second

// latency is the mean time of the last writes, or the time that one under way has taken already if
// that is longer. 0: unknown.
func (s *saves) latency() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	worst := time.Duration(0)
	if time.Since(s.ended) < meanTime {
		worst = s.mean
	}
	for _, began := range s.since {
		worst = max(worst, time.Since(began))
	}
	return worst
}

// Latency says how long the log's disk takes for a write at present.
func (l *Log) Latency() time.Duration { return l.saves.latency() }
