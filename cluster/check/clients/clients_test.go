// Package clients runs clients of Redis at their defaults against three nodes. Their programs are
// in this folder, or in Debian's package redis-tools. scripts/setup.sh installs what they need.
package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"engine_race/cluster/check/process"
	"engine_race/cluster/service"
)

// limit keeps a client that hangs from hanging the tests.
const limit = 5 * time.Minute

// nodeTimeout is long: on a busy machine a write may take longer than the default, and no request
// may fail here.
const nodeTimeout = 10 * time.Second

// need gives the path of a program or package, and skips the test without it. CI fails.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := program, error(nil)
	if filepath.Ext(program) == ".json" {
		_, err = os.Stat(program)
	} else {
		path, err = exec.LookPath(program)
	}
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%v: scripts/setup.sh test-cluster brings it", err)
	}
	t.Skipf("%v: scripts/setup.sh test-cluster brings it", err)
	return ""
}

// installed gives a path below the folder in which scripts/setup.sh installs clients.
func installed(parts ...string) string {
	return filepath.Join(append([]string{os.Getenv("CLUSTER_CLIENTS")}, parts...)...)
}

// run runs a program to its end and gives its output.
func run(t *testing.T, input, program string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdin = strings.NewReader(input)
	command.Env = append(os.Environ(), "NODE_REDIS_DIR="+installed("node"))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %.200q: %v\n%s", filepath.Base(program), arguments, err, output)
	}
	return string(output)
}

func valueOf(number int) string { return sizedValue(number, service.DefaultValueBytes) }

func sizedValue(number, size int) string {
	text := fmt.Sprintf("value %d ", number)
	return text + strings.Repeat(".", size-len(text))
}

// nodes gives three nodes that are ready.
func nodes(t *testing.T, options process.Options) *process.Cluster {
	t.Helper()
	options.Binary = need(t, filepath.Join("..", "..", "..", "bin", "engine-raced"))
	options.Dir, options.Nodes, options.ReadyIn = t.TempDir(), 3, limit
	c, err := process.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), errors.Join(crashesOf(c)...)); err != nil {
			t.Error(err)
		}
	})
	if err := c.StartAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 3; id++ {
		if err := c.WaitReady(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestClients gives each client its own keys, and the addresses of two nodes.
func TestClients(t *testing.T) {
	c := nodes(t, process.Options{Shards: 4, NodeTimeout: nodeTimeout})
	var addresses []string
	for id := 1; id <= 2; id++ {
		host, port, err := net.SplitHostPort(c.Info(id).ClientAddress)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, host, port)
	}
	// What a client leaves behind must not fail the next one.
	each := func(name string, test func(t *testing.T)) {
		t.Run(name, test)
		deleteAll(t, c.Info(1).ClientAddress)
	}
	each("redis-py", func(t *testing.T) {
		run(t, "", need(t, installed("python", "bin", "python3")),
			append([]string{"redis_py.py"}, addresses...)...)
	})
	each("node-redis", func(t *testing.T) {
		need(t, installed("node", "installed.json"))
		run(t, "", need(t, "node"), append([]string{"node_redis.mjs"}, addresses...)...)
	})
	each("go-redis", func(t *testing.T) { goRedis(t, c.Info(1).ClientAddress) })
	each("redis-cli", func(t *testing.T) { redisCLI(t, addresses) })
	each("redis-benchmark", func(t *testing.T) { redisBenchmark(t, addresses) })
}

func deleteAll(t *testing.T, address string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	keys, err := client.Keys(ctx, "*").Result()
	if err == nil && len(keys) > 0 {
		err = client.Del(ctx, keys...).Err()
	}
	if err != nil {
		t.Fatalf("keys are not deleted: %v", err)
	}
}

func crashesOf(c *process.Cluster) []error {
	var crashes []error
	for _, crash := range c.Crashes() {
		crashes = append(crashes, errors.New(crash))
	}
	return crashes
}

func goRedis(t *testing.T, address string) {
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := client.Set(ctx, "go000001", valueOf(1), 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(ctx, "go000001").Result(); err != nil || got != valueOf(1) {
		t.Errorf("GET: %.40q, %v", got, err)
	}
	if err := client.Get(ctx, "go000002").Err(); err != redis.Nil {
		t.Errorf("GET of an absent key: %v", err)
	}
	if got := client.TTL(ctx, "go000001").Val(); got != -1 {
		t.Errorf("TTL: %v", got)
	}
	var get *redis.StringCmd
	var deleted *redis.IntCmd
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "go000001", valueOf(2), 0)
		get, deleted = pipe.Get(ctx, "go000001"), pipe.Del(ctx, "go000001", "go000002")
		return nil
	})
	if err != nil || get.Val() != valueOf(2) || deleted.Val() != 1 {
		t.Errorf("a transaction: %v, %.40q, %d", err, get.Val(), deleted.Val())
	}
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "go000001", valueOf(3), 0)
		pipe.Set(ctx, "\xff0000001", valueOf(3), 0)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "one shard") &&
		!strings.Contains(err.Error(), "EXECABORT") {
		t.Errorf("a transaction of two shards: %v", err)
	}
	if err := client.Watch(ctx, nil, "go000001"); err == nil ||
		!strings.Contains(err.Error(), "WATCH is not served") {
		t.Errorf("WATCH: %v", err)
	}
	keys := map[string]bool{}
	for i := range 100 {
		if err := client.Set(ctx, fmt.Sprintf("go1%05d", i), valueOf(i), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	scan := client.Scan(ctx, 0, "go1*", 7).Iterator()
	for scan.Next(ctx) {
		keys[scan.Val()] = true
	}
	if err := scan.Err(); err != nil {
		t.Error(err)
	}
	if len(keys) != 100 {
		t.Errorf("%d keys were scanned", len(keys))
	}
	if info := client.ClientInfo(ctx); info.Err() != nil || info.Val().LibName == "" {
		t.Errorf("CLIENT INFO: %v", info)
	}
	if got := client.ConfigGet(ctx, "databases").Val(); got["databases"] != "1" {
		t.Errorf("CONFIG GET: %v", got)
	}
}

func redisCLI(t *testing.T, addresses []string) {
	program := need(t, "redis-cli")
	for _, test := range []struct {
		expected, input string
		arguments       []string
	}{
		{"OK\n", valueOf(1), []string{"-x", "SET", "cl000001"}},
		{valueOf(1) + "\n", "", []string{"-3", "GET", "cl000001"}},
		{"string\n", "", []string{"TYPE", "cl000001"}},
		{"cl000001\n", "", []string{"--scan", "--pattern", "cl*"}},
		{"OK\nQUEUED\nQUEUED\n1\n\n", "MULTI\nDEL cl000001\nGET cl000001\nEXEC\n", []string{"-3"}},
		{"\n", "", []string{"HGETALL", "cl000001"}},
		{`{"databases":"1"}` + "\n", "", []string{"--json", "CONFIG", "GET", "databases"}},
	} {
		got := run(t, test.input, program, append([]string{"-h", addresses[0], "-p", addresses[1]},
			test.arguments...)...)
		if got != test.expected {
			t.Errorf("%q: got %.200q, expected %.200q", test.arguments, got, test.expected)
		}
	}
}

func redisBenchmark(t *testing.T, addresses []string) {
	program := need(t, "redis-benchmark")
	for _, test := range []struct{ name, input, arguments string }{
		{"PING_MBULK", "", "-t ping"}, {"GET", "", "-t get"},
		{"SET be000001", valueOf(1), "-x SET be000001"},
		{"SET be000001", valueOf(1), "-3 -P 16 --threads 2 -x SET be000001"},
		{"GET be000001", "", "-3 GET be000001"},
	} {
		arguments := "-h " + addresses[0] + " -p " + addresses[1] + " -n 1000 -q " + test.arguments
		got := run(t, test.input, program, strings.Fields(arguments)...)
		if !strings.Contains(got, "requests per second") || !strings.Contains(got, test.name) ||
			strings.Contains(got, "Error") || strings.Contains(got, "WARNING") {
			t.Errorf("%s: %.300q", test.arguments, got)
		}
	}
}
