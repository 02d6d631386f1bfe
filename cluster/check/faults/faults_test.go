package faults

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"engine_race/cluster/check/fake"
	"engine_race/cluster/check/netns"
	"engine_race/cluster/check/process"
)

// TestMain makes the test's own program a fake node.
func TestMain(m *testing.M) {
	fake.RunIfNode()
	os.Exit(m.Run())
}

func environment(t *testing.T) *Env {
	t.Helper()
	e := &Env{Random: rand.New(rand.NewPCG(1, 2)), Hold: 100 * time.Millisecond,
		HealIn: 60 * time.Second, Keys: []uint64{5, 1<<32 + 5}, Log: slog.New(slog.DiscardHandler),
		Load: func(ctx context.Context) int { <-ctx.Done(); return 1 }}
	options := process.Options{Binary: os.Args[0], Dir: t.TempDir(), Nodes: 3, Shards: 2,
		Env: []string{fake.RunVariable + "=1"}, ReadyIn: 30 * time.Second,
		RequestTimeout: 10 * time.Second}
	if os.Geteuid() == 0 {
		network, err := netns.New(3)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := network.Close(); err != nil {
				t.Error(err)
			}
		})
		options.Network, options.DiskBytes, e.Net = network, 64<<20, network
	}
	cluster, err := process.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.StartAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Cluster = cluster
	return e
}

func TestEachFaultRunsAndHeals(t *testing.T) {
	// The nodes that are other processes afterwards, by the fault's name.
	restarted := map[string]int{"kill-leader": 1, "kill-follower": 1, "kill-all": 3, "power-one": 1,
		"power-all": 3, "clock-offset": 1, "lost-disk": 1, "wiped-node": 1,
		"rolling-restart": 3, "unwatched-restart": 3, "silent-connections": 1,
		"catch-up": 1, "move-replica": 1, "split-range-kill": 1}
	e := environment(t)
	root := os.Geteuid() == 0
	selected, err := Select("all", root, root, root)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range selected {
		var before [3]int
		for i := range before {
			before[i] = e.Cluster.PID(i + 1)
		}
		if err := fault.Run(t.Context(), e); err != nil {
			t.Errorf("%s: %v", fault.Name, err)
		}
		changed := 0
		for i, pid := range before {
			if err := e.Cluster.Ready(t.Context(), i+1); err != nil {
				t.Errorf("%s: node %d: %v", fault.Name, i+1, err)
			}
			if e.Cluster.PID(i+1) != pid {
				changed++
			}
		}
		if changed != restarted[fault.Name] {
			t.Errorf("%s restarted %d nodes", fault.Name, changed)
		}
	}
	if crashes := e.Cluster.Crashes(); len(crashes) > 0 {
		t.Error(crashes)
	}
}

func TestHealUndoesAnInterruptedFault(t *testing.T) {
	e := environment(t)
	if err := e.Cluster.Pause(1); err != nil {
		t.Fatal(err)
	}
	if err := e.Cluster.Kill(2); err != nil {
		t.Fatal(err)
	}
	if err := e.Heal(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRunReportsANodeThatDoesNotComeBack(t *testing.T) {
	e := environment(t)
	broken := Fault{Name: "broken", inject: func(_ context.Context, e *Env) error {
		if err := e.Cluster.Kill(1); err != nil {
			return err
		}
		return e.Cluster.Wipe(1)
	}}
	if err := broken.Run(t.Context(), e); err == nil || !strings.Contains(err.Error(), "node 1") {
		t.Errorf("got %v", err)
	}
}

func TestSelect(t *testing.T) {
	tests := []struct {
		names            string
		net, disks, root bool
		valid            bool
	}{
		{"all", false, false, false, true},
		{"none,kill-leader", false, false, false, true},
		{"none,nonsense", true, true, true, false},
		{"split", false, true, true, false},
		{"full-disk", true, false, true, false},
		{"clock-offset", true, true, false, false},
		{"all,-full-disk", true, true, true, true},
		{"none,-none", true, true, true, false},
		{"all,-nonsense", true, true, true, false},
	}
	for _, test := range tests {
		selected, err := Select(test.names, test.net, test.disks, test.root)
		if (err == nil) != test.valid || test.valid && len(selected) == 0 {
			t.Errorf("%s: %d faults, %v", test.names, len(selected), err)
		}
	}
	rest, err := Select("all,-full-disk", true, true, true)
	if err != nil || len(rest) != len(All())-1 {
		t.Errorf("%d faults without one of %d, %v", len(rest), len(All()), err)
	}
	names := map[string]bool{}
	for _, fault := range All() {
		if names[fault.Name] || fault.Help == "" || fault.inject == nil {
			t.Errorf("%+v", fault)
		}
		names[fault.Name] = true
	}
}
