package raftlog

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// disk is a raftio.ILogDB that counts what it reads. Reads ahead wait for `ahead`, if it is set.
type disk struct {
	raftio.ILogDB

	mu      sync.Mutex
	entries []raftpb.Entry // from index 1 on
	waited  []int          // entries of each read that dragonboat waited for
	ahead   chan struct{}
	begun   chan struct{}
}

func (d *disk) SaveRaftState(updates []raftpb.Update, _ uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range updates {
		for _, e := range u.EntriesToSave {
			d.entries = append(d.entries[:e.Index-1], e)
		}
	}
	return nil
}

func (d *disk) IterateEntries(entries []raftpb.Entry, size, _, _, low, high, maxSize uint64) (
	[]raftpb.Entry, uint64, error) {
	isAhead := readsAhead()
	d.mu.Lock()
	if maxSize == 0 {
		maxSize = 1 << 60 // as Tan does
	}
	for index := low; index < high && size <= maxSize; index++ {
		entry := d.entries[index-1]
		entries, size = append(entries, entry), size+uint64(entry.SizeUpperLimit())
	}
	if !isAhead {
		d.waited = append(d.waited, len(entries))
	}
	d.mu.Unlock()
	if isAhead && d.ahead != nil {
		d.begun <- struct{}{}
		<-d.ahead
	}
	return entries, size, nil
}

// readsAhead tells whether the goroutine that calls it reads ahead, and nobody waits for it.
func readsAhead() bool {
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "(*Log).readAhead.") {
			return true
		}
		if !more {
			return false
		}
	}
}

func (d *disk) Close() error { return nil }

func (d *disk) RemoveNodeData(uint64, uint64) error { return nil }

const (
	entryBytes = 4096
	// What SizeUpperLimit counts beside the command.
	entryOverhead = 128
)

func entriesOf(term, first, count uint64) []raftpb.Entry {
	var entries []raftpb.Entry
	for index := first; index < first+count; index++ {
		entries = append(entries, raftpb.Entry{Index: index, Term: term,
			Cmd: bytes.Repeat([]byte{byte(index)}, entryBytes)})
	}
	return entries
}

func save(t *testing.T, l *Log, entries []raftpb.Entry) {
	t.Helper()
	err := l.SaveRaftState([]raftpb.Update{{ShardID: 1, ReplicaID: 1, EntriesToSave: entries}}, 1)
	if err != nil {
		t.Fatal(err)
	}
}

// ask reads as dragonboat's LogReader does, which leaves out the last entry of too many bytes.
func ask(t *testing.T, l *Log, low, high, maxSize uint64) []raftpb.Entry {
	t.Helper()
	entries, size, err := l.IterateEntries(nil, 0, 1, 1, low, high, maxSize)
	if err != nil {
		t.Fatal(err)
	}
	if uint64(len(entries)) != high-low && size <= maxSize {
		t.Fatalf("%d entries of %d bytes from %d to %d are too few", len(entries), size, low, high)
	}
	if size > maxSize && len(entries) > 1 {
		entries = entries[:len(entries)-1]
	}
	if len(entries) == 0 {
		t.Fatalf("no entry from %d to %d", low, high)
	}
	for i, e := range entries {
		if e.Index != low+uint64(i) || len(e.Cmd) != entryBytes || e.Cmd[0] != byte(e.Index) {
			t.Fatalf("entry %d is %d with %d bytes", low+uint64(i), e.Index, len(e.Cmd))
		}
	}
	return entries
}

// settle waits for what is read ahead.
func (l *Log) settle() {
	r := l.replica(1, 1)
	for {
		r.mu.Lock()
		loading := r.loading
		r.mu.Unlock()
		if !loading {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestTheEndOfALogIsReadFromMemory(t *testing.T) {
	d := &disk{}
	l := newLog(d, t.TempDir(), newPace(0, time.Now))
	const count = 2 * tailBytes / entryBytes
	for first := uint64(1); first <= count; first += 8 {
		save(t, l, entriesOf(1, first, 8))
	}
	for low := uint64(count - 400); low <= count; {
		low += uint64(len(ask(t, l, low, count+1, messageBytes)))
	}
	ask(t, l, count-10, count-9, 0)
	if len(d.waited) > 0 {
		t.Errorf("the disk was read %d times", len(d.waited))
	}
}

func TestAReaderThatIsBehindWaitsForFewEntries(t *testing.T) {
	d := &disk{}
	l := newLog(d, t.TempDir(), newPace(0, time.Now))
	const count = 8 * tailBytes / entryBytes
	save(t, l, entriesOf(1, 1, count))
	for low := uint64(1); low <= count; {
		low += uint64(len(ask(t, l, low, count+1, messageBytes)))
		l.settle()
	}
	for i, read := range d.waited {
		if read > missEntries {
			t.Errorf("read %d had %d entries", i, read)
		}
	}
	if len(d.waited) > 2 {
		t.Errorf("dragonboat waited for %d reads of %d entries", len(d.waited), count)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEntriesThatWereOverwrittenAreNotReadAhead(t *testing.T) {
	d := &disk{ahead: make(chan struct{}), begun: make(chan struct{}, 1)}
	l := newLog(d, t.TempDir(), newPace(0, time.Now))
	const count = 4 * tailBytes / entryBytes
	save(t, l, entriesOf(1, 1, count))
	ask(t, l, 1, count+1, messageBytes)
	<-d.begun // Old entries were read, and are on their way.
	save(t, l, entriesOf(2, 50, count))
	close(d.ahead)
	l.settle()
	d.ahead = nil
	for low := uint64(1); low < 200; {
		got := ask(t, l, low, count+1, messageBytes)
		l.settle()
		for _, e := range got {
			if (e.Term == 2) != (e.Index >= 50) {
				t.Fatalf("entry %d has term %d", e.Index, e.Term)
			}
		}
		low += uint64(len(got))
	}
}

func TestAFollowerThatIsBehindIsSentEntriesAtAPace(t *testing.T) {
	now := time.Unix(0, 0)
	const rate = 16 << 20
	d := &disk{}
	l := newLog(d, t.TempDir(), newPace(rate, func() time.Time { return now }))
	const count = 64 << 20 / entryBytes
	save(t, l, entriesOf(1, 1, count))
	l.pace.budget = 0
	sent, seconds := uint64(0), 0
	for low := uint64(1); seconds < 3; {
		got := ask(t, l, low, count+1, messageBytes)
		l.settle()
		sent += sizeOf(got)
		low += uint64(len(got))
		if now = now.Add(10 * time.Millisecond); now.Sub(time.Unix(0, 0)) > 3*time.Second {
			break
		}
	}
	if sent < 2*rate || sent > 4*rate {
		t.Errorf("%d bytes were sent in 3 s at %d a second", sent, rate)
	}
	// A store that applies its log has no pace.
	l.pace.budget = -rate
	if got := ask(t, l, count-500, count+1, applyBytes); len(got) < 400 {
		t.Errorf("%d entries to apply", len(got))
	}
}

func TestALogKnowsItsBytes(t *testing.T) {
	l := newLog(&disk{}, t.TempDir(), newPace(0, time.Now))
	if l.Bytes(1, 1) != 0 || l.IndexBefore(1, 1, 1) != 0 {
		t.Error("an empty log has bytes")
	}
	for first := uint64(1); first <= 1000; first += 10 {
		save(t, l, entriesOf(1, first, 10))
	}
	if size := l.Bytes(1, 1); size < 1000*entryBytes || size > 1100*entryBytes {
		t.Errorf("%d bytes", size)
	}
	index := l.IndexBefore(1, 1, 300*entryBytes)
	if index < 650 || index > 710 {
		t.Errorf("the last 300 of 1000 entries begin after %d", index)
	}
	if index := l.IndexBefore(1, 1, 2000*entryBytes); index != 0 {
		t.Errorf("more than all entries begin after %d", index)
	}
	l.replica(1, 1).remove(600)
	if size := l.Bytes(1, 1); size < 390*entryBytes || size > 450*entryBytes {
		t.Errorf("%d bytes of 400 entries", size)
	}
	save(t, l, entriesOf(2, 801, 1))
	if size := l.Bytes(1, 1); size < 180*entryBytes || size > 250*entryBytes {
		t.Errorf("%d bytes of 201 entries", size)
	}
}

func TestALogOfAnEarlierStartIsTakenToBeEven(t *testing.T) {
	r := &replicaLog{}
	r.start(101, 1000, 64_000)
	if r.bytes() != 64_000 {
		t.Errorf("%d bytes", r.bytes())
	}
	if index := r.indexBefore(32_000); index < 580 || index > 620 {
		t.Errorf("half of it begins after %d", index)
	}
}

func TestTuneRefusesAnotherVersion(t *testing.T) {
	if err := Tune(); err != nil {
		t.Fatal(err)
	}
	if perMessage != messageBytes || perApply != applyBytes {
		t.Errorf("%d and %d", perMessage, perApply)
	}
	perMessage = 0
	defer func() { perMessage = messageBytes }()
	if tune() == nil {
		t.Error("a variable that is not there was set")
	}
}

func TestAFailedReadIsAnswered(t *testing.T) {
	l := newLog(brokenDisk{}, t.TempDir(), newPace(0, time.Now))
	if _, _, err := l.IterateEntries(nil, 0, 1, 1, 1, 9, messageBytes); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}

var errDisk = errors.New("a broken disk")

type brokenDisk struct{ raftio.ILogDB }

func (brokenDisk) IterateEntries([]raftpb.Entry, uint64, uint64, uint64, uint64, uint64, uint64) (
	[]raftpb.Entry, uint64, error) {
	return nil, 0, errDisk
}
