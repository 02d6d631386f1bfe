package raftlog

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// logs saves an entry of a size for each of some replicas, one behind the other, so many times.
func logs(t *testing.T, l *Log, first, count, times uint64, bytes int) {
	t.Helper()
	for i := range times {
		for shard := first; shard < first+count; shard++ {
			last := l.replica(shard, 1).last
			entry := raftpb.Entry{Index: last + 1, Cmd: make([]byte, bytes)}
			err := l.SaveRaftState([]raftpb.Update{{ShardID: shard, ReplicaID: 1,
				EntriesToSave: []raftpb.Entry{entry}}}, 1)
			if err != nil {
				t.Fatal(i, err)
			}
		}
	}
}

// tailBytesOf gives the bytes of the tails of some replicas, as they lie in memory.
func tailBytesOf(l *Log, first, count uint64) uint64 {
	total := uint64(0)
	for shard := first; shard < first+count; shard++ {
		total += sizeOf(l.replica(shard, 1).tail)
	}
	return total
}

func TestTheEndsOfAllLogsAreBounded(t *testing.T) {
	l := newLog(&disk{}, t.TempDir(), newPace(0, time.Now))
	const mib = 1 << 20
	// Few replicas keep much.
	logs(t, l, 1, 8, 8, mib-entryOverhead)
	if size := tailBytesOf(l, 1, 8); size != tailsBytes {
		t.Fatalf("the ends of 8 logs have %d bytes", size)
	}
	// Others come, and the first ones log no more.
	logs(t, l, 9, 56, 1, mib/2-entryOverhead)
	if size := tailBytesOf(l, 1, 64); size != tailsBytes {
		t.Errorf("the ends of 64 logs have %d bytes, and not %d", size, tailsBytes)
	}
	if size := tailBytesOf(l, 9, 56); size != 28*mib {
		t.Errorf("those that logged last keep %d bytes", size)
	}
	if size := l.tails.total; size != tailBytesOf(l, 1, 64) {
		t.Errorf("%d bytes are counted", size)
	}
	for shard := uint64(1); shard <= 64; shard++ {
		if err := l.RemoveNodeData(shard, 1); err != nil {
			t.Fatal(err)
		}
	}
	if l.tails.total != 0 || l.tails.order.Len() != 0 || len(l.tails.places) != 0 {
		t.Errorf("%d bytes are counted of no replica", l.tails.total)
	}
}

// The entries of large values are larger than equal shares of many replicas would be.
func TestTheLastEntryOfALogIsInMemoryBesideManyOthers(t *testing.T) {
	d := &disk{}
	l := newLog(d, t.TempDir(), newPace(0, time.Now))
	const replicas = 200
	for range 3 {
		for shard := uint64(1); shard <= replicas; shard++ {
			logs(t, l, shard, 1, 1, 1<<20)
			last := l.replica(shard, 1).last
			got, _, err := l.IterateEntries(nil, 0, shard, 1, last, last+1, messageBytes)
			if err != nil || len(got) != 1 || got[0].Index != last {
				t.Fatalf("%d entries, %v", len(got), err)
			}
		}
	}
	if len(d.waited) > 0 {
		t.Errorf("the disk was read %d times", len(d.waited))
	}
	if size := tailBytesOf(l, 1, replicas); size > tailsBytes {
		t.Errorf("the ends of all logs have %d bytes", size)
	}
}

// TestReadersShareWhatIsReadAhead has many followers that are behind at one time.
func TestReadersShareWhatIsReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := newLog(d, t.TempDir(), newPace(0, time.Now))
		const replicas, count = 64, 2 * tailBytes / entryBytes
		entries := entriesOf(1, 1, count)
		for shard := uint64(1); shard <= replicas; shard++ {
			err := l.SaveRaftState([]raftpb.Update{{ShardID: shard, ReplicaID: 1,
				EntriesToSave: entries}}, 1)
			if err != nil {
				t.Fatal(err)
			}
		}
		low := map[uint64]uint64{}
		for range 4 {
			for shard := uint64(1); shard <= replicas; shard++ {
				got, _, err := l.IterateEntries(nil, 0, shard, 1, low[shard]+1, count+1, 0)
				if err != nil || len(got) == 0 {
					t.Fatal(len(got), err)
				}
				low[shard] = got[0].Index
				l.loads.Wait()
			}
		}
		total := uint64(0)
		for shard := uint64(1); shard <= replicas; shard++ {
			total += sizeOf(l.replica(shard, 1).ahead)
		}
		if total < aheadsBytes/2 || total > 5*aheadsBytes/2 {
			t.Errorf("%d bytes are read ahead for %d replicas", total, replicas)
		}
	})
}

// Many replicas catch up with logs whose entries are small, or as large as a message.
func TestManyReadersSeldomWaitForTheDisk(t *testing.T) {
	for _, c := range []struct {
		replicas, count uint64
		bytes           int
	}{{40, 4096, 4 << 10}, {130, 4096, 4 << 10}, {40, 24, 1 << 20}, {130, 24, 1 << 20}} {
		synctest.Test(t, func(t *testing.T) {
			d := &disk{}
			l := newLog(d, t.TempDir(), newPace(0, time.Now))
			entries := make([]raftpb.Entry, c.count)
			cmd := make([]byte, c.bytes)
			for i := range entries {
				entries[i] = raftpb.Entry{Index: uint64(i) + 1, Cmd: cmd}
			}
			for shard := uint64(1); shard <= c.replicas; shard++ {
				err := l.SaveRaftState([]raftpb.Update{{ShardID: shard, ReplicaID: 1,
					EntriesToSave: entries}}, 1)
				if err != nil {
					t.Fatal(err)
				}
			}
			most := uint64(0)
			next := make([]uint64, c.replicas)
			for slices.Min(next) < c.count {
				held := uint64(0)
				for i := range next {
					shard := uint64(i) + 1
					if next[i] < c.count {
						next[i] = sendNext(t, l, shard, next[i], c.count)
					}
					held += l.replica(shard, 1).aheadSize
				}
				most = max(most, held)
			}
			waits := uint64(len(d.waited))
			if waits > 3*c.replicas {
				t.Errorf("%d readers of entries of %d bytes waited %d times", c.replicas, c.bytes, waits)
			}
			// Three shares and two entries each. The first ones begin with larger shares than the others.
			if most > 4*aheadsBytes+2*c.replicas*uint64(c.bytes) {
				t.Errorf("%d readers of entries of %d bytes hold %d", c.replicas, c.bytes, most)
			}
		})
	}
}

// sendNext reads a message for a follower that has entries up to `sent`, and gives the last one of
// the message. As dragonboat does, it asks for the term of the entry before them first.
func sendNext(t *testing.T, l *Log, shard, sent, last uint64) uint64 {
	t.Helper()
	if sent > 0 {
		got, _, err := l.IterateEntries(nil, 0, shard, 1, sent, sent+1, 0)
		if err != nil || len(got) != 1 {
			t.Fatal(len(got), err)
		}
	}
	got, size, err := l.IterateEntries(nil, 0, shard, 1, sent+1, last+1, messageBytes)
	if size > messageBytes && len(got) > 1 {
		got = got[:len(got)-1]
	}
	if err != nil || len(got) == 0 {
		t.Fatal(len(got), err)
	}
	l.loads.Wait()
	return got[len(got)-1].Index
}

// A log that nobody writes to would keep them for ever.
func TestUnusedEntriesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(&disk{}, t.TempDir(), newPace(0, time.Now))
		const count = 4 * tailBytes / entryBytes
		save(t, l, entriesOf(1, 1, count))
		low := uint64(1)
		for range 2 { // A reader that comes again keeps them.
			low += uint64(len(ask(t, l, low, count+1, messageBytes)))
			synctest.Wait()
			time.Sleep(aheadTime * 3 / 4)
			if !l.replica(1, 1).readsAhead() {
				t.Fatal("nothing is read ahead")
			}
		}
		time.Sleep(aheadTime)
		synctest.Wait()
		if r := l.replica(1, 1); r.readsAhead() || r.aheadSize != 0 {
			t.Errorf("%d bytes wait for a reader", r.aheadSize)
		}
	})
}
