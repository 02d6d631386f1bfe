package ledger

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"engine_race/cluster/check/fake"
	"engine_race/cluster/check/wire"
)

// wantedWrites ends a run. A count makes faults equally probable on fast and on busy machines.
const wantedWrites = 250

// run starts one node for each set of faults, and gives the report of a short run. Reads of the
// report that fail or are behind are repeated for the time `settle`.
func run(t *testing.T, settle time.Duration, faults ...fake.Faults) Report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var writes atomic.Int64
	count := func(write bool) string {
		if write && writes.Add(1) >= wantedWrites {
			cancel()
		}
		return ""
	}
	var dialers []wire.Dialer
	for _, faults := range faults {
		dialers = append(dialers, fake.Start(t, path, faults, count))
	}
	l, err := New(Options{Dialers: dialers, Writers: 4, Keys: []uint64{1, 2, 3, 4, 5, 6, 7, 8},
		Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.Run(ctx)
	report := l.Verify(t.Context(), settle)
	if got := writes.Load(); got < wantedWrites {
		t.Errorf("only %d writes in a minute", got)
	}
	return report
}

func TestCorrectNodesPass(t *testing.T) {
	for name, faults := range map[string]fake.Faults{
		"no faults": {}, "unknown outcomes": {Unknown: 0.1}, "refusals": {Refuse: 0.1},
	} {
		report := run(t, time.Minute, faults, faults, faults)
		if report.Failed() {
			t.Errorf("%s: %+v", name, report)
		}
		if faults.Unknown > 0 && report.Unknown == 0 {
			t.Errorf("%s: the fault never came", name)
		}
	}
}

func TestFaultsAreCounted(t *testing.T) {
	// A fault shows for sure if it hits the last write of one of the eight keys. With a probability
	// of 0.3 it would hit none in one run of twenty.
	tests := []struct {
		name   string
		faults []fake.Faults
		count  func(Report) int
	}{
		{"lost writes", []fake.Faults{{LostWrite: 0.9}, {LostWrite: 0.9}},
			func(r Report) int { return r.Lost }},
		{"stale reads of one node", []fake.Faults{{}, {StaleRead: 0.6}},
			func(r Report) int { return r.Stale }},
		{"local reads that never catch up", []fake.Faults{{}, {StaleLocal: 1}},
			func(r Report) int { return r.Stale }},
		{"mixed values", []fake.Faults{{MixedValue: 0.6}},
			func(r Report) int { return r.Impossible }},
		{"refused writes that were done", []fake.Faults{{FalseBusy: 0.6}},
			func(r Report) int { return r.Impossible }},
		{"writes that come again late", []fake.Faults{{TwiceLate: 0.6}},
			func(r Report) int { return r.Stale + r.Lost }},
	}
	for _, test := range tests {
		if report := run(t, time.Second, test.faults...); test.count(report) == 0 {
			t.Errorf("%s: not found: %+v", test.name, report)
		}
	}
}

func TestJudge(t *testing.T) {
	e := &entry{attempted: 9, acked: 6, unknown: map[uint64]bool{3: true, 8: true}}
	for version, want := range map[uint64]judgement{
		6: valid, 3: valid, 8: valid, 5: tooOld, 0: tooOld, 7: impossible, 10: impossible,
	} {
		if got := e.judge(version); got != want {
			t.Errorf("version %d: %d, want %d", version, got, want)
		}
	}
}
