package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"

	"github.com/BurntSushi/toml"
	"github.com/tidwall/redcon"
)

// TestMain lets the test's own program be the children of the bench.
func TestMain(m *testing.M) {
	isChild, err := RunChild(os.Args[1:])
	if len(os.Args) > 1 && os.Args[1] == "fake-engine" {
		isChild, err = true, fakeEngine(os.Args[2], os.Args[4])
	}
	if !isChild {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// fakeEngine takes the command line and configuration of engine-raced. Its node 2 leads the only
// shard and serves records from memory.
func fakeEngine(command, path string) error {
	var config struct {
		ClientAddress string `toml:"client_address"`
		AdminAddress  string `toml:"admin_address"`
		DataDir       string `toml:"data_dir"`
		Cluster       struct {
			Shards uint64             `toml:"shards"`
			Nodes  []service.NodeInfo `toml:"nodes"`
		} `toml:"cluster"`
	}
	if _, err := toml.DecodeFile(path, &config); err != nil {
		return err
	}
	switch command {
	case "init":
		return os.MkdirAll(config.DataDir, 0o755)
	case "snapshot":
		return nil
	}
	if _, err := os.Stat(config.DataDir); err != nil {
		return err
	}
	values := map[string]string{}
	var mutex sync.Mutex
	go redcon.ListenAndServe(config.ClientAddress, func(conn redcon.Conn, c redcon.Command) {
		mutex.Lock()
		defer mutex.Unlock()
		switch {
		case strings.EqualFold(string(c.Args[0]), "MSET"), strings.EqualFold(string(c.Args[0]), "PING"):
			conn.WriteString("OK")
		case config.ClientAddress != config.Cluster.Nodes[1].ClientAddress:
			conn.WriteError("ERR this node does not lead")
		case strings.EqualFold(string(c.Args[0]), "SET"):
			values[string(c.Args[1])] = string(c.Args[2])
			conn.WriteString("OK")
		case strings.EqualFold(string(c.Args[0]), "GET"):
			conn.WriteBulkString(values[string(c.Args[1])])
		default:
			conn.WriteString("OK")
		}
	}, nil, nil)
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/status", func(to http.ResponseWriter, _ *http.Request) {
		// The directory is led by another node than the records.
		shards := []service.ShardStatus{{LeaderID: 1}}
		for range config.Cluster.Shards {
			shards = append(shards, service.ShardStatus{LeaderID: 2, Upper: 1})
		}
		_ = json.NewEncoder(to).Encode(service.Status{Nodes: config.Cluster.Nodes, Shards: shards})
	})
	return http.ListenAndServe(config.AdminAddress, nil)
}

func testOptions(t *testing.T) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' fake-engine \"$@\"\n", self)
	program := filepath.Join(directory, "engine-raced")
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return Options{Self: self, Programs: directory, Directory: filepath.Join(directory, "data"),
		Seconds: 0.2, Rounds: 2, Clients: 4, Depth: 3, Records: 20, Shards: 2, Nodes: 3, ValueBytes: 512,
		CatchUpPerSecond: 100, CatchUpSeconds: 0.6, Seed: 1, Note: t.Logf,
		Port: testkit.FreePorts(t, "127.0.0.1", Ports())}
}

// measured runs a bench of short works. If an opponent did nothing in its time, all get more.
func measured(t *testing.T, options Options, names ...string) *Result {
	t.Helper()
	for ; ; options.Seconds, options.CatchUpSeconds = 2*options.Seconds, 2*options.CatchUpSeconds {
		result, err := Run(context.Background(), names, options)
		if err == nil && len(result.Failures) == 0 {
			return result
		}
		idle := func(failure string) bool {
			return strings.Contains(failure, " did no ") || strings.Contains(failure, "no write was done")
		}
		if err != nil || options.Seconds > 5 || !slices.ContainsFunc(result.Failures, idle) {
			t.Fatalf("%v, %v", err, result)
		}
	}
}

func TestANodeThatCatchesUpIsMeasured(t *testing.T) {
	result := measured(t, testOptions(t), CatchUp)
	for _, name := range []string{"catch_up_log_ratio", "catch_up_snapshot_ratio", catchUpClaim} {
		if rounds := result.Rounds[name]; len(rounds) != 1 || rounds[0] <= 0 {
			t.Errorf("%s has the rounds %v", name, rounds)
		}
	}
}

func TestFloodsAreMeasured(t *testing.T) {
	result := measured(t, testOptions(t), Flood)
	if rounds := result.Rounds[floodClaim]; len(rounds) != 1 || rounds[0] <= 0 || rounds[0] > 10 {
		t.Errorf("the rounds are %v", rounds)
	}
}

func TestOpponentsAreMeasuredInRounds(t *testing.T) {
	options := testOptions(t)
	result := measured(t, options, Bare, Engine, Pebble, MultiRead)
	for _, name := range []string{"bare_write_per_s", "bare_read_per_s", "pebble_write_per_s",
		"engine_local_read_per_s", "replicated_write_ratio", "linearizable_read_ratio",
		"vs_pebble_writes", "multi_read_local_read_per_s", "local_read_ratio"} {
		if len(result.Rounds[name]) != options.Rounds {
			t.Errorf("%s has the rounds %v", name, result.Rounds[name])
		}
	}
	left, err := filepath.Glob(filepath.Join(options.Directory, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v was left, %v", left, err)
	}
}

func TestAnOpponentThatCannotStartIsReported(t *testing.T) {
	options := testOptions(t)
	options.Programs = t.TempDir()
	result, err := Run(context.Background(), []string{Engine}, options)
	if err != nil || len(result.Failures) != 1 ||
		!strings.Contains(result.Failures[0], "engine-raced init") {
		t.Fatalf("%v, %+v", err, result)
	}
}

func TestAnEndedContextEndsTheBench(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	result, err := Run(ctx, []string{Bare}, testOptions(t))
	if err != nil || len(result.Rounds) > 0 {
		t.Fatalf("%v, %+v", err, result)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"no records": func(o *Options) { o.Records = 0 },
		"no shards":  func(o *Options) { o.Shards = 0 },
		"ports":      func(o *Options) { o.Port = 65530 },
		"path":       func(o *Options) { o.Directory = "data" },
	} {
		options := testOptions(t)
		spoil(&options)
		if _, err := Run(context.Background(), nil, options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Run(context.Background(), []string{Bare, "none"}, testOptions(t)); err == nil {
		t.Error("an unknown opponent was accepted")
	}
}
