package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/statemachine"
)

func markOf(t *testing.T, r *Replica, index uint64) {
	t.Helper()
	update(t, r, index, withHeader(Header{Version: Version, Mark: true}))
}

func hashOf(t *testing.T, r *Replica, index uint64) []Chunk {
	t.Helper()
	chunks, err := r.Hash(t.Context(), index, 0)
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

// spread gives keys all over the range.
func spread(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 }

// Two replicas hash the same index, whatever they have applied since.
func TestReplicasHashTheStateOfTheMark(t *testing.T) {
	a, _ := openIn(t, t.TempDir())
	defer a.Close()
	b, _ := openIn(t, t.TempDir())
	defer b.Close()
	const records = 6 * chunkRecords
	for index := uint64(1); index <= records; index += 128 {
		var command []byte
		for key := index; key < index+128; key++ {
			if command == nil {
				command = withHeader(Header{Version: Version})
			}
			command = AppendOp(command, put(spread(key), 1))
		}
		update(t, a, index, command)
		update(t, b, index, command)
	}
	next := uint64(records + 1)
	markOf(t, a, next)
	markOf(t, b, next)
	update(t, a, next+1, commandOf(t, false, put(spread(1), 2)))
	of := func(r *Replica, index uint64) []Chunk { return hashOf(t, r, index) }
	first := of(a, next)
	total := uint64(0)
	for _, chunk := range first {
		total += chunk.Records
	}
	if total != records || len(first) < 2 || !slices.Equal(first, of(b, next)) {
		t.Fatalf("%d records in %d chunks, or they differ", total, len(first))
	}
	// One record less changes one chunk, and leaves the ends of the others.
	update(t, b, next+1, commandOf(t, false, put(spread(1), 2), remove(spread(records/2))))
	markOf(t, a, next+2)
	markOf(t, b, next+2)
	x, y := of(a, next+2), of(b, next+2)
	differ := 0
	for i := range x {
		if x[i].Last != y[i].Last {
			t.Fatal("the chunks have other ends")
		}
		if x[i] != y[i] {
			differ++
		}
	}
	if differ != 1 || len(x) != len(y) {
		t.Fatalf("%d of %d chunks differ", differ, len(x))
	}
}

func TestAMarkIsWaitedForAndForgotten(t *testing.T) {
	r, _ := openIn(t, t.TempDir())
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	if _, err := r.Hash(t.Context(), 1, 0); !errors.Is(err, ErrNoMark) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	hashed := make(chan error, 1)
	go func() {
		_, err := r.Hash(ctx, 3, 0)
		hashed <- err
	}()
	markOf(t, r, 2)
	markOf(t, r, 3)
	if err := <-hashed; err != nil {
		t.Fatal(err)
	}
	// A mark is hashed once, and a later one replaces it.
	if _, err := r.Hash(t.Context(), 2, 0); !errors.Is(err, ErrNoMark) {
		t.Fatal(err)
	}
}

// Snapshots hold back space, so one that nobody asks for ends.
func TestAMarkThatNobodyHashesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(configIn(t.TempDir()))
		if _, err := r.Open(nil); err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, err := r.Update([]statemachine.Entry{{Index: 1,
			Cmd: withHeader(Header{Version: Version, Mark: true})}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(markTime)
		synctest.Wait()
		if _, err := r.Hash(t.Context(), 1, 0); !errors.Is(err, ErrNoMark) {
			t.Fatal(err)
		}
	})
}

// The rate leaves the disk to clients.
func TestHashingKeepsToItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for read := int64(1 << 20); read <= 8<<20; read += 1 << 20 {
			if err := rest(t.Context(), began, read, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("8 MiB took %v at 1 MiB a second", took)
		}
	})
}
