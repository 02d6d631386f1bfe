package multiread

import (
	"path/filepath"
	"testing"

	"engine_race/cluster/bench/load"
	"engine_race/cluster/testkit"
)

func TestAStoreIsFilledAndRead(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	store, err := Open(directory, 64<<20, 512)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := store.Do(load.Work{Kind: load.Fill, Clients: 3, Records: 50, ValueBytes: 512})
	if err != nil || filled.Operations != 50 || filled.Errors > 0 {
		t.Fatalf("%+v, %v", filled, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if store, err = Open(directory, 64<<20, 512); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, test := range []struct {
		records uint64
		missing bool
	}{{50, false}, {100, true}} {
		var read load.Figures
		testkit.Eventually(t, "there is time for enough reads", func() bool {
			read, err = store.Do(load.Work{Kind: load.LocalRead, Clients: 2, Depth: 8, Seconds: 0.05,
				Records: test.records})
			return err != nil || read.Errors > 0 || read.Operations >= 64
		})
		if err != nil || read.Errors > 0 || (read.Missing > 0) != test.missing {
			t.Errorf("%d records: %+v, %v", test.records, read, err)
		}
	}
	state, err := store.Do(load.Work{Kind: load.State})
	if err != nil || !state.Leads {
		t.Errorf("%+v, %v", state, err)
	}
	if _, err := store.Do(load.Work{Kind: load.Read}); err == nil {
		t.Error("a linearizable read was accepted")
	}
}
