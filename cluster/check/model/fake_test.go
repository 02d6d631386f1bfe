package model_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"engine_race/cluster/check/fake"
	"engine_race/cluster/check/history"
	"engine_race/cluster/check/model"
	"engine_race/cluster/check/wire"
)

// targets starts nodes with the faults, in this process.
func targets(t *testing.T, nodes int, faults fake.Faults) []history.Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	var found []history.Target
	for node := range nodes {
		found = append(found, history.Target{Node: node + 1,
			Dialer: fake.Start(t, path, faults, nil)})
	}
	return found
}

// runUntil ends the workload once `operations` have been acknowledged. A time would make short
// histories on busy machines.
func runUntil(t *testing.T, workload *history.Workload, operations int64) *history.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for workload.Acknowledged() < operations && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	return workload.Run(ctx)
}

func run(t *testing.T, faults fake.Faults, seed uint64) (*history.History, model.Verdict) {
	t.Helper()
	workload, err := history.New(history.Options{
		Targets: targets(t, 3, faults), Clients: 8, Seed: seed, Pause: time.Millisecond,
		Groups: [][]uint64{{1}, {2}, {10, 11, 12}, {20, 21, 22}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := runUntil(t, workload, 1000)
	verdict, err := model.Check(h, model.Options{GroupTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return h, verdict
}

func TestCorrectServerPasses(t *testing.T) {
	for name, faults := range map[string]fake.Faults{
		"no faults":        {},
		"unknown outcomes": {Unknown: 0.02},
		"refusals":         {Refuse: 0.05},
	} {
		h, verdict := run(t, faults, 1)
		if len(verdict.Violations)+len(verdict.Unchecked) > 0 {
			t.Errorf("%s: %v", name, verdict)
		}
		if done := h.Count(wire.Done); done < 100 {
			t.Errorf("%s: %d operations were done of %d", name, done, len(h.Operations))
		}
		if faults.Unknown > 0 && h.Count(wire.Unknown) == 0 ||
			faults.Refuse > 0 && h.Count(wire.Refused) == 0 {
			t.Errorf("%s: the fault never came", name)
		}
	}
}

// Each fault is rare: a history has several, and the search must find one of them. Rounds are
// added until it does, so that an unlucky schedule does not fail the test.
func TestFaultsOfTheServerAreFound(t *testing.T) {
	for name, faults := range map[string]fake.Faults{
		"stale read":            {StaleRead: 0.02},
		"lost write":            {LostWrite: 0.02},
		"write applied twice":   {TwiceLate: 0.02},
		"mixed value":           {MixedValue: 0.02},
		"torn MSET":             {TornMSet: 0.05},
		"refused write is done": {FalseBusy: 0.05},
	} {
		found := false
		for seed := uint64(0); seed < 10 && !found; seed++ {
			_, verdict := run(t, faults, seed)
			found = len(verdict.Violations) > 0
		}
		if !found {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestClientsRetryRefusalsWhenAsked(t *testing.T) {
	workload, err := history.New(history.Options{
		Targets: targets(t, 2, fake.Faults{Refuse: 0.3}), Clients: 4, Seed: 1,
		Groups: [][]uint64{{1}}, RetryFor: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := runUntil(t, workload, 100)
	if h.Count(wire.Done) < 100 || h.Count(wire.Refused) > 4 { // the end may cut 4 clients short
		t.Errorf("%d done, %d refused", h.Count(wire.Done), h.Count(wire.Refused))
	}
}
