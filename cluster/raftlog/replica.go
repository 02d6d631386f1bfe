package raftlog

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

const (
	// How far marks are apart at least.
	markBytes = 64 << 10
	// Entries that were read ahead are kept for so long after their reader came the last time.
	aheadTime = 10 * time.Second
)

// mark says how many bytes all entries up to an index have, counted from any beginning.
type mark struct{ index, bytes uint64 }

// replicaLog is what a Log keeps in memory of one replica.
type replicaLog struct {
	mu sync.Mutex
	// Neighbouring entries. The last one of the tail is the last one of the log.
	tail, ahead         []raftpb.Entry
	tailSize, aheadSize uint64
	// So many bytes of `ahead` were in the last answer. They stay until the next read, and are no
	// reason to read nothing ahead.
	given     uint64
	aheadUsed time.Time
	drop      *time.Timer // of `ahead`; nil: there is none
	// Where a reader goes on that has left what is in memory; 0: there is none.
	next    uint64
	loading bool
	loaded  *sync.Cond // not loading any more
	// Changes when entries are overwritten: a load that has begun before may have read old ones.
	generation uint64
	retired    bool

	last  uint64 // index of the log's last entry
	marks []mark
}

func sizeOf(entries []raftpb.Entry) uint64 {
	total := uint64(0)
	for i := range entries {
		total += uint64(entries[i].SizeUpperLimit())
	}
	return total
}

// start notes what a log held when its replica was started. Its entries are taken to be equally
// large.
func (r *replicaLog) start(first, count, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = first + count - 1
	r.marks = nil
	const steps = 64
	for i := range uint64(steps) + 1 {
		m := mark{first - 1 + count*i/steps, bytes / steps * i}
		if len(r.marks) == 0 || r.marks[len(r.marks)-1].index < m.index {
			r.marks = append(r.marks, m)
		}
	}
}

// overwrite forgets entries from an index on.
func (r *replicaLog) overwrite(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if index > r.last {
		return
	}
	r.generation++
	r.tail, r.ahead = cutFrom(r.tail, index), cutFrom(r.ahead, index)
	r.tailSize, r.aheadSize = sizeOf(r.tail), sizeOf(r.ahead)
	if r.next > index {
		r.next = 0
	}
	kept := sort.Search(len(r.marks), func(i int) bool { return r.marks[i].index >= index })
	r.marks = r.marks[:kept]
	r.last = 0
	if index > 0 {
		r.last = index - 1
	}
}

// cutFrom leaves out the entries from an index on.
func cutFrom(entries []raftpb.Entry, index uint64) []raftpb.Entry {
	if len(entries) == 0 || entries[0].Index >= index {
		return nil
	}
	kept := min(uint64(len(entries)), index-entries[0].Index)
	clear(entries[kept:]) // the array stays until it grows
	return entries[:kept]
}

// append notes entries that were saved, and gives their size.
func (r *replicaLog) append(entries []raftpb.Entry) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := sizeOf(entries)
	if len(r.tail) > 0 && r.tail[len(r.tail)-1].Index+1 != entries[0].Index {
		r.tail, r.tailSize = nil, 0
	}
	r.tail, r.tailSize = append(r.tail, entries...), r.tailSize+size
	r.cutTail(tailBytes)
	if len(r.marks) == 0 || r.last+1 != entries[0].Index {
		r.marks = []mark{{entries[0].Index - 1, 0}}
	}
	r.last = entries[len(entries)-1].Index
	end := mark{r.last, r.marks[len(r.marks)-1].bytes + size}
	// Only the last mark may be close to its neighbour: it has the end of the log.
	if n := len(r.marks); n > 1 && r.marks[n-1].bytes-r.marks[n-2].bytes < markBytes {
		r.marks = r.marks[:n-1]
	}
	r.marks = append(r.marks, end)
	return size
}

// cutTail forgets the oldest entries of the tail, until it has no more bytes than the limit. The
// caller holds the mutex.
func (r *replicaLog) cutTail(limit uint64) {
	gone := 0
	for r.tailSize > limit && gone < len(r.tail) {
		r.tailSize -= uint64(r.tail[gone].SizeUpperLimit())
		gone++
	}
	if gone > 0 {
		clear(r.tail[:gone]) // the array stays until it grows
		r.tail = r.tail[gone:]
	}
	if len(r.tail) == 0 {
		r.tail = nil
	}
}

// shrinkTail is cutTail, and gives the bytes of the tail.
func (r *replicaLog) shrinkTail(limit uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutTail(limit)
	return r.tailSize
}

// remove forgets entries up to an index.
func (r *replicaLog) remove(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := sort.Search(len(r.marks), func(i int) bool { return r.marks[i].index > index })
	// A mark stays as the new beginning.
	if gone > 1 {
		r.marks = slices.Clone(r.marks[gone-1:])
	}
	if len(r.ahead) > 0 && r.ahead[0].Index <= index {
		r.ahead, r.aheadSize, r.next = nil, 0, 0
	}
}

func (r *replicaLog) bytes() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.marks) == 0 {
		return 0
	}
	return r.marks[len(r.marks)-1].bytes - r.marks[0].bytes
}

func (r *replicaLog) indexBefore(tail uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.marks) == 0 {
		return 0
	}
	end := r.marks[len(r.marks)-1].bytes
	after := sort.Search(len(r.marks), func(i int) bool { return r.marks[i].bytes+tail > end })
	if after == 0 {
		return 0
	}
	return r.marks[after-1].index
}

// read gives entries from memory. `wanted` says that more should be read ahead.
func (r *replicaLog) read(low, high, maxSize uint64) (got []raftpb.Entry, size uint64,
	wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if within(r.tail, low) {
		got, size = upTo(r.tail[low-r.tail[0].Index:], high, maxSize)
		return got, size, false
	}
	if !within(r.ahead, low) {
		return nil, 0, false
	}
	behind := low - r.ahead[0].Index
	r.aheadSize -= sizeOf(r.ahead[:behind])
	clear(r.ahead[:behind]) // the array stays until more is read ahead
	r.ahead = r.ahead[behind:]
	r.aheadUsed = time.Now()
	got, size = upTo(r.ahead, high, maxSize)
	r.given = size
	return got, size, r.aheadSize-size < aheadBytes
}

func within(entries []raftpb.Entry, index uint64) bool {
	return len(entries) > 0 && entries[0].Index <= index && index <= entries[len(entries)-1].Index
}

// upTo copies the entries below `high`, until their size is above maxSize.
func upTo(entries []raftpb.Entry, high, maxSize uint64) ([]raftpb.Entry, uint64) {
	size, count := uint64(0), 0
	for count < len(entries) && entries[count].Index < high {
		size += uint64(entries[count].SizeUpperLimit())
		count++
		if size > maxSize {
			break
		}
	}
	return slices.Clone(entries[:count]), size
}

// follow notes that a reader goes on at an index that is not in memory.
func (r *replicaLog) follow(next uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loading || within(r.ahead, next) || within(r.tail, next) || next > r.last {
		return false
	}
	r.ahead, r.aheadSize, r.given, r.next = nil, 0, 0, next
	return true
}

// beginLoad gives the range to be read ahead, unless the replica has its share already.
func (r *replicaLog) beginLoad(share uint64) (from, to, generation uint64, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ahead) > 0 {
		r.next = r.ahead[len(r.ahead)-1].Index + 1
	}
	left := r.aheadSize - min(r.given, r.aheadSize)
	if r.loading || r.retired || left >= share || r.next == 0 || r.next > r.last ||
		within(r.tail, r.next) {
		return 0, 0, 0, false
	}
	r.loading = true
	return r.next, min(r.last+1, r.next+aheadEntries), r.generation, true
}

func (r *replicaLog) endLoad(entries []raftpb.Entry, generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loading = false
	if r.loaded != nil {
		r.loaded.Broadcast()
	}
	if r.retired || len(entries) == 0 || generation != r.generation || entries[0].Index != r.next {
		return
	}
	r.ahead = append(slices.Clip(r.ahead), entries...)
	r.aheadSize += sizeOf(entries)
	r.aheadUsed = time.Now()
	if r.drop == nil {
		r.drop = time.AfterFunc(aheadTime, r.dropUnused)
	}
}

// dropUnused forgets what was read ahead when its reader has not come for aheadTime.
func (r *replicaLog) dropUnused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop = nil
	if len(r.ahead) == 0 {
		return
	}
	if left := aheadTime - time.Since(r.aheadUsed); left > 0 {
		r.drop = time.AfterFunc(left, r.dropUnused)
		return
	}
	r.ahead, r.aheadSize, r.next = nil, 0, 0
}

// readsAhead tells whether entries are read ahead, or wait for their reader.
func (r *replicaLog) readsAhead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loading || len(r.ahead) > 0
}

// retire waits for a load that is under way, and lets no other one begin.
func (r *replicaLog) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = true
	r.tail, r.ahead, r.marks = nil, nil, nil
	r.tailSize, r.aheadSize = 0, 0
	if r.drop != nil {
		r.drop.Stop()
		r.drop = nil
	}
	if r.loaded == nil {
		r.loaded = sync.NewCond(&r.mu)
	}
	for r.loading {
		r.loaded.Wait()
	}
}
