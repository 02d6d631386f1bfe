package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"engine_race/cluster/config"
	"engine_race/cluster/service"
)

// TestMain keeps the tests from the secret of the user that runs them.
func TestMain(m *testing.M) {
	if path := os.Getenv(survivorVariable); path != "" {
		runSurvivor(path)
		return
	}
	directory, err := os.MkdirTemp("", "")
	if err == nil {
		err = os.Setenv("XDG_CONFIG_HOME", directory)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

// TestRefusedNodes has command lines and configurations with which no node may start.
func TestRefusedNodes(t *testing.T) {
	directory := t.TempDir()
	good, narrow := filepath.Join(directory, "good.toml"), filepath.Join(directory, "narrow.toml")
	crowded, unknown := filepath.Join(directory, "crowded"), filepath.Join(directory, "unknown")
	text := fmt.Sprintf("node_id = 1\ndata_dir = %q\n", filepath.Join(directory, "data"))
	for path, limits := range map[string]string{good: "",
		narrow:  "[limits]\nmax_bytes_in_flight = 50000000\n",
		crowded: "[limits]\nmemory_bytes = 134217728\n[cluster]\nshards = 16\nreplicas = 1\n",
		unknown: "[engine]\nno_such_option = 1\n"} {
		if err := os.WriteFile(path, []byte(text+limits), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		command, arguments, want string
		code                     int
	}{
		{"serve", "--config " + good + " now --raft.rtt_ms 30", `"now"`, exitUsage},
		{"serve", "--nix", "-nix", exitUsage},
		{"join", "--config " + good, "--peer", exitUsage},
		{"serve", "--help", "-config", exitDone},
		{"unsafe-recover", "--config " + good + " --shards 1", "writes are lost", exitUsage},
		{"unsafe-recover", "--config " + good + " --accept-loss --shards 1,1", "no list", exitUsage},
		{"unsafe-recover", "--config " + good + " --accept-loss --shards 1", "not set up", exitFailed},
		{"serve", "", "node_id", exitConfig},
		{"serve", "--config " + narrow, "bytes in flight is 50000000, less than", exitConfig},
		{"serve", "--config " + crowded, "which 16 stores share", exitConfig},
		{"serve", "--config " + unknown, "no_such_option", exitConfig},
		{"init", "--config " + good, "cluster.nodes", exitConfig},
		{"init", "--config " + good + " --like digits --split-at x", "exclude each other", exitUsage},
		{"serve", "--config " + good + " --like digits", "-like", exitUsage},
	} {
		var errorsOut bytes.Buffer
		code := runNode(test.command, strings.Fields(test.arguments), &errorsOut)
		if code != test.code || !strings.Contains(errorsOut.String(), test.want) {
			t.Errorf("%s %s: code %d, %s", test.command, test.arguments, code, &errorsOut)
		}
	}
}

// TestEachSettingReachesTheNode: one that was forgotten would do nothing.
func TestEachSettingReachesTheNode(t *testing.T) {
	c := config.Default()
	c.NodeID = 1
	given := reflect.ValueOf(nodeConfig(c, nil, nil, "shown", slog.Default()))
	// Of TLS, of serve alone, and of tests.
	elsewhere := []string{"PeerServer", "PeerClient", "Budget", "Commands", "Expected"}
	for i := range given.NumField() {
		field := given.Type().Field(i)
		name := field.Name
		if field.IsExported() && given.Field(i).IsZero() && !slices.Contains(elsewhere, name) {
			t.Errorf("%s is not set", name)
		}
	}
}

// A node that joined does not name the size: its limits are checked when the cluster's is known.
func TestLimitsAreCheckedWithTheSizeOfTheCluster(t *testing.T) {
	for want, change := range map[string]func(*config.Config){
		"cluster.value_bytes: 1048576 is not from 8 to 261888": func(c *config.Config) {
			c.Raft.LogMemoryBytes = 1 << 20
		},
		"which 3 stores share": func(c *config.Config) { c.Limits.MemoryBytes = 64 << 20 },
		"":                     func(*config.Config) {},
	} {
		c := config.Default()
		c.NodeID, c.Cluster.Shards, c.Cluster.Replicas = 1, 3, 1
		change(c)
		if err := checkSize(c, 4096); err != nil {
			t.Errorf("%q: the default: %v", want, err)
		}
		err := checkSize(c, 1<<20)
		if want == "" && err == nil {
			continue
		}
		if !errors.Is(err, errSize) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "this cluster has values of 1048576 bytes") {
			t.Errorf("%q: %v", want, err)
		}
		c.Cluster.ValueBytes = 1 << 20
		if err := checkSize(c, 1<<20); err != nil {
			t.Errorf("the size of the configuration was checked again: %v", err)
		}
	}
}

// A size that nobody wrote may not keep a node from a cluster with another one. A size that is
// written down is expected, 4096 too.
func TestOnlyANamedSizeIsExpected(t *testing.T) {
	for _, nodes := range [][]service.NodeInfo{nil, {{ID: 1}}} {
		for named, genesis := range map[int]int{0: 4096, 512: 512, 4096: 4096} {
			c := config.Default()
			c.Cluster.Nodes = nodes
			if named != 0 {
				c.Cluster.ValueBytes = named
			}
			if got := expectedOf(c).ValueBytes; got != named {
				t.Errorf("%d nodes: %d bytes are expected, and %d are named", len(nodes), got, named)
			}
			if got := genesisOf(c).ValueBytes; got != genesis {
				t.Errorf("%d bytes are named, and the genesis has %d", named, got)
			}
		}
	}
}
