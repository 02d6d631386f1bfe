package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"engine_race/cluster/config"
)

const deployPath = "../../deploy"

// readUnit returns the lines of a unit file that are settings.
func readUnit(t *testing.T, name string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployPath, name))
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[string][]string)
	for _, line := range strings.Split(string(text), "\n") {
		if key, value, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") {
			settings[key] = append(settings[key], value)
		}
	}
	return settings
}

func unitNames() []string { return []string{"engine-raced.service", "engine-raced@.service"} }

func TestUnitsFitTheProgram(t *testing.T) {
	// Calls under way have up to 4 s more.
	drainS := config.Default().Limits.DrainTimeout().Seconds() + 4
	for _, name := range unitNames() {
		unit := readUnit(t, name)
		for key, want := range map[string]string{"KillSignal": "SIGTERM", "Restart": "on-failure",
			"RestartPreventExitStatus": fmt.Sprint(exitConfig), "NoNewPrivileges": "yes"} {
			if got := unit[key]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s = %v, want %s", name, key, got, want)
			}
		}
		var stopS float64
		_, err := fmt.Sscanf(strings.Join(unit["TimeoutStopSec"], ""), "%fs", &stopS)
		if err != nil || stopS < 2*drainS {
			t.Errorf("%s: TimeoutStopSec %v is too short for a drain of %v s (%v)", name,
				unit["TimeoutStopSec"], drainS, err)
		}
	}
}

func TestUnitsVerify(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("systemd-analyze is not installed")
	}
	program := regexp.MustCompile(`ExecStart=\S+`)
	// systemd before version 254 does not know these.
	newer := regexp.MustCompile(`Unknown key '?(RestartSteps|RestartMaxDelaySec)'? `)
	for _, name := range unitNames() {
		text, err := os.ReadFile(filepath.Join(deployPath, name))
		if err != nil {
			t.Fatal(err)
		}
		// verify wants a program that exists, and an instance of a template.
		text = program.ReplaceAll(text, []byte("ExecStart=/bin/true"))
		path := filepath.Join(t.TempDir(), strings.Replace(name, "@", "@0", 1))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := exec.Command(tool, "verify", path).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, output)
		}
		for _, line := range strings.Split(string(output), "\n") {
			if strings.Contains(line, filepath.Base(path)) && !newer.MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestHAProxyVerifies(t *testing.T) {
	tool, err := exec.LookPath("haproxy")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("haproxy is not installed")
	}
	output, err := exec.Command(tool, "-c", "-f",
		filepath.Join(deployPath, "haproxy.cfg")).CombinedOutput()
	if err != nil || strings.Contains(string(output), "WARNING") {
		t.Errorf("%v: %s", err, output)
	}
}
