package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"engine_race/cluster/check"
	"engine_race/cluster/check/fake"
)

// TestMain makes the test's own program a fake node.
func TestMain(m *testing.M) {
	fake.RunIfNode()
	os.Exit(m.Run())
}

// fakes gives a program that is a fake node with these faults. Tests that run side by side cannot
// tell their nodes by the environment. Call it before t.Parallel: a program cannot be started while
// another child, which is just being started, has it open for writing.
func fakes(t *testing.T, faults fake.Faults) (program string) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(faults)
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), "node")
	script := fmt.Sprintf("#!/bin/sh\n%s=1 %s='%s' exec '%s' \"$@\"\n", fake.RunVariable,
		fake.FaultsVariable, text, own)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// runFakes checks a cluster of fake nodes, and gives the exit code, the report and the output.
func runFakes(t *testing.T, program string, args ...string) (int, check.Report, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	args = append([]string{"--binary", program, "--dir", filepath.Join(dir, "data"),
		"--json", file, "--seconds", "0.3", "--namespaces=false"}, args...)
	var out, errors bytes.Buffer
	code := run(t.Context(), args, &out, &errors)
	output := out.String() + errors.String()
	var report check.Report
	if code != 2 {
		content, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(content, &report)
		}
		if err != nil {
			t.Errorf("the report: %v", err)
		}
	}
	return code, report, output
}

func TestCorrectClusterPassesAllFaults(t *testing.T) {
	program := fakes(t, fake.Faults{DrainSeconds: 3})
	t.Parallel()
	args := []string{"--histories", "12"}
	if os.Geteuid() == 0 {
		args = []string{"--histories", "20", "--namespaces=true", "--disk-mib", "64"}
	}
	code, report, output := runFakes(t, program, args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	if report.Claims.HistoriesChecked < 12 || len(report.Classes) < 11 {
		t.Errorf("%+v, %d classes", report.Claims, len(report.Classes))
	}
	// One ledger beside the histories of each size.
	if report.Ledger.Keys != 2*(64+1024) || report.Ledger.Acknowledged < 100 {
		t.Errorf("%+v", report.Ledger)
	}
	for _, claim := range []string{"histories_checked ", "lost 0\n", "stale 0\n",
		"violations 0\n"} {
		if !strings.Contains(output, claim) {
			t.Errorf("%q is missing in %s", claim, output)
		}
	}
}

func TestFaultyClustersFail(t *testing.T) {
	tests := []struct {
		name   string
		faults fake.Faults
		count  func(check.Claims) int
	}{
		{"stale reads", fake.Faults{StaleRead: 0.3},
			func(c check.Claims) int { return min(c.Stale, c.Violations) }},
		{"lost writes", fake.Faults{LostWrite: 0.2},
			func(c check.Claims) int { return min(c.Lost, c.Violations) }},
		{"mixed values", fake.Faults{MixedValue: 0.2},
			func(c check.Claims) int { return c.Violations }},
		{"torn MSET", fake.Faults{TornMSet: 0.5},
			func(c check.Claims) int { return c.Violations }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			program := fakes(t, test.faults)
			t.Parallel()
			code, report, output := runFakes(t, program, "--histories", "2", "--faults", "none")
			if code != 1 || test.count(report.Claims) == 0 {
				t.Errorf("exit code %d, %+v: %s", code, report.Claims, output)
			}
		})
	}
}

func TestFailoversAreMeasured(t *testing.T) {
	program := fakes(t, fake.Faults{})
	t.Parallel()
	code, report, output := runFakes(t, program, "--histories", "0", "--failover", "2",
		"--failover-rest", "200ms")
	if code != 0 || report.Failover == nil || len(report.Failover.Milliseconds) != 2 ||
		report.Claims.FailoverP50 <= 0 || report.Claims.FailoverP99 < report.Claims.FailoverP50 {
		t.Errorf("exit code %d, %+v: %s", code, report.Failover, output)
	}
	if !strings.Contains(output, "failover_ms_p50 ") {
		t.Error(output)
	}
}

func TestRestartsUnderAttackAreMeasured(t *testing.T) {
	program := fakes(t, fake.Faults{})
	t.Parallel()
	code, report, output := runFakes(t, program, "--histories", "0", "--attacks", "2")
	if code != 0 || len(report.RejoinSeconds) != 2 ||
		report.Claims.AttackRejoin < max(report.RejoinSeconds[0], report.RejoinSeconds[1]) {
		t.Errorf("exit code %d, %v, %v: %s", code, report.RejoinSeconds, report.Claims.AttackRejoin,
			output)
	}
	if !strings.Contains(output, "attack_rejoin_s ") {
		t.Error(output)
	}
}

func TestVanishedLeadersAreMeasured(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	program := fakes(t, fake.Faults{})
	t.Parallel()
	code, report, output := runFakes(t, program, "--histories", "0", "--black-holes", "1",
		"--failover-rest", "200ms", "--namespaces=true")
	if code != 0 || report.BlackHole == nil || len(report.BlackHole.Milliseconds) != 1 ||
		report.Claims.BlackHoleP50 <= 0 || !strings.Contains(output, "failover_blackhole_ms_p50 ") {
		t.Errorf("exit code %d, %+v: %s", code, report.BlackHole, output)
	}
}

func TestRestartsThatDropRequestsAreFound(t *testing.T) {
	program := fakes(t, fake.Faults{NoDrain: 1})
	t.Parallel()
	code, report, output := runFakes(t, program, "--histories", "2",
		"--clients", "40", "--faults", "rolling-restart")
	if code != 1 || report.Classes["rolling-restart"].FailedRequests == 0 {
		t.Errorf("exit code %d: %s", code, output)
	}
}

func TestChecksThatCannotBeMade(t *testing.T) {
	var out bytes.Buffer
	for name, args := range map[string][]string{
		"no binary":        nil,
		"a missing binary": {"--binary", "/nonexistent", "--dir", t.TempDir(), "--namespaces=false"},
		"an unknown fault": {"--binary", os.Args[0], "--faults", "what", "--dir", t.TempDir()},
		"an unknown flag":  {"--what"},
		"an odd size":      {"--binary", os.Args[0], "--value-bytes", "4096,100", "--dir", t.TempDir()},
		"no size":          {"--binary", os.Args[0], "--value-bytes", "0", "--dir", t.TempDir()},
		"no histories":     {"--binary", os.Args[0], "--histories", "0", "--dir", t.TempDir()},
		"black holes without namespaces": {"--binary", os.Args[0], "--black-holes", "1", "--dir",
			t.TempDir(), "--namespaces=false"},
	} {
		if code := run(t.Context(), args, &out, &out); code != 2 {
			t.Errorf("%s: exit code %d: %s", name, code, out.String())
		}
	}
}

func TestPatienceBelowOneIsRefused(t *testing.T) {
	var out bytes.Buffer
	args := []string{"--binary", "/nonexistent", "--patience", "0.5", "--dir", t.TempDir(),
		"--namespaces=false"}
	if code := run(t.Context(), args, &out, &out); code != 2 ||
		!strings.Contains(out.String(), "patience of 0.5") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

func TestListNamesAllFaults(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--list"}, &out, &out); code != 0 ||
		!strings.Contains(out.String(), "rolling-restart") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
