package replica

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lni/dragonboat/v4/statemachine"
)

func withToken(token, key, version uint64) []byte {
	return withHeader(Header{Version: Version, Token: token}, put(key, version))
}

// A leader that was stopped proposes late what its client has given up and written again. Replicas
// decide alike, also those that begin anew in the middle, or come from a snapshot.
func TestALateCommandOfAnEarlierLeaderChangesNothing(t *testing.T) {
	directory := t.TempDir()
	r, _ := openIn(t, directory)
	defer func() { r.Close() }()
	type step struct {
		token, key, version uint64
		result              uint64
	}
	index := uint64(0)
	apply := func(r *Replica, steps ...step) {
		t.Helper()
		for _, s := range steps {
			index++
			got := update(t, r, index, withToken(s.token, s.key, s.version))
			if got.Value != s.result {
				t.Fatalf("entry %d, token %d: result %d, not %d", index, s.token, got.Value, s.result)
			}
		}
	}
	apply(r, step{5, 1, 1, ResultApplied}, step{7, 1, 2, ResultApplied}, step{5, 1, 3, ResultLate})
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	// Behind the stored position: the next opening applies these entries again.
	synced := index
	apply(r, step{6, 1, 4, ResultLate}, step{7, 2, 5, ResultApplied}, step{9, 3, 6, ResultApplied})
	expectState(t, r, map[uint64]uint64{1: 2, 2: 5, 3: 6})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r, index = openIn(t, directory)
	if index != synced {
		t.Fatalf("opened at %d, not %d", index, synced)
	}
	apply(r, step{6, 1, 4, ResultLate}, step{7, 2, 5, ResultApplied}, step{9, 3, 6, ResultApplied})
	// A command of the first version has no token. It is proposed before all nodes know tokens.
	index++
	if got := update(t, r, index, commandOf(t, false, put(4, 1))); got.Value != ResultApplied {
		t.Fatal(got)
	}
	expectState(t, r, map[uint64]uint64{1: 2, 2: 5, 3: 6, 4: 1})
	context, err := r.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	stream := streamOf(t, r, context)
	other, _ := openIn(t, t.TempDir())
	defer other.Close()
	if err := other.RecoverFromSnapshot(bytes.NewReader(stream), nil); err != nil {
		t.Fatal(err)
	}
	apply(other, step{8, 1, 9, ResultLate})
	expectState(t, other, map[uint64]uint64{1: 2, 2: 5, 3: 6, 4: 1})
}

// An earlier program knows no tokens. It must read what a node sends before all know them.
func TestWithoutATokenFilesHaveTheFirstFormat(t *testing.T) {
	directory := t.TempDir()
	r, _ := openIn(t, directory)
	defer r.Close()
	update(t, r, 1, commandOf(t, false, put(1, 1)))
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(directory, appliedName))
	if err != nil || len(file) != firstBytes {
		t.Errorf("%d bytes, %v", len(file), err)
	}
	context, err := r.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if stream := streamOf(t, r, context); stream[7] != firstMagic&0xff {
		t.Errorf("a stream of format %d", stream[7])
	}
}

// A replica that skips a command which others apply differs from them for ever.
func TestACommandOfANewerProgramEndsTheProcess(t *testing.T) {
	for name, command := range map[string][]byte{
		"version": withHeader(Header{Version: Version + 1}, put(1, 1)),
		"flags":   {Version, knownFlags + 1, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		r, _ := openIn(t, t.TempDir())
		func() {
			defer func() {
				text, _ := recover().(string)
				if !strings.Contains(text, "install a newer one") {
					t.Errorf("%s: the replica goes on: %q", name, text)
				}
			}()
			_, _ = r.Update([]statemachine.Entry{{Index: 1, Cmd: command}})
		}()
		if _, _, _, _, err := r.CheckCommand(command); err == nil {
			t.Errorf("%s: a node would propose it", name)
		}
		r.Close()
	}
}
