// Package ledger counts what a cluster loses. Each key has one writer, which stores growing
// versions in it and reads it now and then. Verify reads all keys from all nodes at the end, when
// all faults are healed. A Ledger belongs to one goroutine at a time. Its writers are goroutines of
// their own, which end before Run returns.
//
// A write with an unknown outcome may take effect at any later time, even after an acknowledged
// newer version. So such versions stay allowed for their key. Every other version below the last
// acknowledged one is wrong.
package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"engine_race/cluster/check/value"
	"engine_race/cluster/check/wire"
)

// Options describes a ledger.
type Options struct {
	Dialers []wire.Dialer // one for each node
	Writers int
	// Keys are dealt to the writers in turn.
	Keys []uint64
	// ColdKeys are dealt too. Their writer goes through them slowly: a replica that has lost one
	// does not get it back by the next write.
	ColdKeys  []uint64
	Seed      uint64
	ValueSize value.Size
	Pause     time.Duration // between two requests of a writer
}

// Report is the judgement of a ledger.
type Report struct {
	Keys         int `json:"keys"`
	Acknowledged int `json:"acknowledged_writes"`
	Unknown      int `json:"unknown_writes"`
	Reads        int `json:"reads"` // while the ledger ran
	// Lost counts keys whose last acknowledged version no node has at the end.
	Lost int `json:"lost"`
	// Stale counts linearizable reads below the version that was acknowledged before them,
	// and local reads that stay there.
	Stale int `json:"stale"`
	// Impossible counts values that nobody wrote: mixed ones, and versions never attempted.
	Impossible int      `json:"impossible_values"`
	Unread     int      `json:"unread_keys"` // keys that a node did not answer for
	Samples    []string `json:"samples,omitempty"`
}

const maxSamples = 20

// coldShare: one write in this number goes to a cold key.
const coldShare = 3

// Add adds the judgement of another ledger.
func (r *Report) Add(other *Report) {
	r.Keys += other.Keys
	r.Acknowledged += other.Acknowledged
	r.Unknown += other.Unknown
	r.Reads += other.Reads
	r.Lost += other.Lost
	r.Stale += other.Stale
	r.Impossible += other.Impossible
	r.Unread += other.Unread
	r.Samples = append(r.Samples, other.Samples...)
}

// Failed says whether the report has any loss, stale read or impossible value, or misses a key.
func (r *Report) Failed() bool {
	return r.Lost+r.Stale+r.Impossible+r.Unread > 0
}

func (r *Report) sample(format string, args ...any) {
	if len(r.Samples) < maxSamples {
		r.Samples = append(r.Samples, fmt.Sprintf(format, args...))
	}
}

// entry is what is known of one key.
type entry struct {
	key       uint64
	attempted uint64
	acked     uint64
	unknown   map[uint64]bool
}

type judgement int

const (
	valid judgement = iota
	tooOld
	impossible
)

// judge says whether a linearizable read may give the version now. 0 means that it is absent.
func (e *entry) judge(version uint64) judgement {
	switch {
	case version == e.acked || e.unknown[version]:
		return valid
	case version < e.acked:
		return tooOld
	}
	return impossible // a version above acked is unknown, was refused, or was never attempted
}

// Ledger is the set of keys with their writers.
type Ledger struct {
	options Options
	entries []*entry
	cold    []*entry

	mu     sync.Mutex
	report Report
}

// New makes a ledger. It fails if the options make no sense.
func New(options Options) (*Ledger, error) {
	if len(options.Dialers) == 0 || options.Writers < 1 || len(options.Keys) < options.Writers {
		return nil, fmt.Errorf("%d nodes, %d writers, %d keys: too few", len(options.Dialers),
			options.Writers, len(options.Keys))
	}
	l := &Ledger{options: options}
	for _, key := range options.Keys {
		l.entries = append(l.entries, &entry{key: key, unknown: map[uint64]bool{}})
	}
	for _, key := range options.ColdKeys {
		l.cold = append(l.cold, &entry{key: key, unknown: map[uint64]bool{}})
	}
	l.report.Keys = len(l.entries) + len(l.cold)
	return l, nil
}

// Run writes until ctx is done. Requests that are on their way then are waited for.
func (l *Ledger) Run(ctx context.Context) {
	var group sync.WaitGroup
	for i := range l.options.Writers {
		w := &writer{ledger: l, at: i, random: rand.New(rand.NewPCG(l.options.Seed, uint64(i)))}
		for k := i; k < len(l.entries); k += l.options.Writers {
			w.entries = append(w.entries, l.entries[k])
		}
		for k := i; k < len(l.cold); k += l.options.Writers {
			w.cold = append(w.cold, l.cold[k])
		}
		group.Go(func() { w.run(ctx) })
	}
	group.Wait()
}

type writer struct {
	ledger  *Ledger
	entries []*entry
	cold    []*entry
	next    int // of cold
	at      int
	conn    *wire.Conn
	random  *rand.Rand
}

func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		e := w.entries[w.random.IntN(len(w.entries))]
		var err error
		switch {
		case !w.connect(ctx):
			err = ctx.Err()
		case w.random.IntN(4) == 0:
			err = w.read(e)
		case len(w.cold) > 0 && w.random.IntN(coldShare) == 0:
			err = w.write(w.cold[w.next%len(w.cold)])
			w.next++
		default:
			err = w.write(e)
		}
		pause := w.ledger.options.Pause
		if err != nil || w.conn == nil {
			w.leave()
			pause += 10 * time.Millisecond // do not spin while nodes refuse
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	w.leave()
}

func (w *writer) connect(ctx context.Context) bool {
	if w.conn == nil {
		dialers := w.ledger.options.Dialers
		if conn, err := dialers[w.at%len(dialers)].Dial(ctx); err == nil {
			w.conn = conn
		}
	}
	return w.conn != nil
}

// leave makes the next request go to another node.
func (w *writer) leave() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
	w.at++
}

func (w *writer) write(e *entry) error {
	e.attempted++
	err := w.conn.Set(e.key, w.ledger.options.ValueSize.Encode(e.key, e.attempted))
	l := w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	switch wire.Classify(err) {
	case wire.Done:
		e.acked = e.attempted
		l.report.Acknowledged++
	case wire.Refused:
	default:
		e.unknown[e.attempted] = true
		l.report.Unknown++
	}
	return err
}

func (w *writer) read(e *entry) error {
	version, err := w.ledger.fetch(w.conn, e.key)
	l := w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if version == mixed {
		l.report.Impossible++
		l.report.sample("%v", err)
	}
	if err != nil {
		return err
	}
	l.report.Reads++
	switch e.judge(version) {
	case tooOld:
		l.report.Stale++
		l.report.sample("key %d: version %d was read after %d was acknowledged", e.key, version,
			e.acked)
	case impossible:
		l.report.Impossible++
		l.report.sample("key %d: version %d was read, but never written", e.key, version)
	}
	return nil
}

// mixed is the version of a value that comes from no single write.
const mixed = ^uint64(0)

// fetch gives the version of a key, 0 if it is absent.
func (l *Ledger) fetch(conn *wire.Conn, key uint64) (uint64, error) {
	bytes, err := conn.Get(key)
	if err != nil || bytes == nil {
		return 0, err
	}
	version, err := l.options.ValueSize.Decode(key, bytes)
	if err != nil {
		return mixed, err
	}
	return version, nil
}
