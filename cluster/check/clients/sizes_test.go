package clients

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"engine_race/cluster/check/process"
	"engine_race/cluster/check/value"
)

// narrow are the least limits with which a node serves the largest values.
var narrow = fmt.Sprintf("[limits]\nrequest_timeout_ms = %d\n"+
	"max_client_bytes_in_flight = 1048832\n[raft]\nlog_memory_bytes = 4195328\n",
	nodeTimeout.Milliseconds())

// TestValuesOfOtherSizes has a client of Redis at its defaults, and three nodes for each size.
func TestValuesOfOtherSizes(t *testing.T) {
	for _, test := range []struct {
		size    int
		mostGet int // keys of an MGET
		extra   string
	}{{512, 10_000, ""}, {65536, 255, ""}, {1 << 20, 15, ""}, {1 << 20, 15, narrow}} {
		t.Run(fmt.Sprint(test.size, len(test.extra)), func(t *testing.T) {
			c := nodes(t, process.Options{Shards: 2, NodeTimeout: nodeTimeout,
				ValueSize: value.Size(test.size), Extra: test.extra})
			client := redis.NewClient(&redis.Options{Addr: c.Info(1).ClientAddress})
			defer client.Close()
			other := redis.NewClient(&redis.Options{Addr: c.Info(2).ClientAddress})
			defer other.Close()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			exchange(ctx, t, client, other, test.size)
			refusedSizes(ctx, t, client, test.size, test.mostGet)
			otherSettings(t, c, test.size)
		})
	}
}

// exchange writes through one node, side by side, and reads through another one.
func exchange(ctx context.Context, t *testing.T, client, other *redis.Client, size int) {
	const count = 12
	writes := make(chan error, count)
	keys := make([]string, count)
	for i := range count {
		keys[i] = string(rune('!'+i*7)) + "size001"
		go func() { writes <- client.Set(ctx, keys[i], sizedValue(i, size), 0).Err() }()
	}
	for range count {
		if err := <-writes; err != nil {
			t.Fatal(err)
		}
	}
	got, err := other.MGet(ctx, keys...).Result()
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range got {
		if one != sizedValue(i, size) {
			t.Errorf("key %d has a value of %.40q", i, one)
		}
	}
	if length := other.StrLen(ctx, keys[1]).Val(); length != int64(size) {
		t.Errorf("STRLEN: %d", length)
	}
	records, err := other.Do(ctx, "RANGE", "-", "+").Slice()
	if err != nil || len(records) != 2*count {
		t.Errorf("RANGE gives %d, %v", len(records), err)
	}
	if info := client.Info(ctx, "cluster").Val(); !strings.Contains(info,
		fmt.Sprintf("value_bytes:%d\r\n", size)) {
		t.Errorf("INFO: %q", info)
	}
}

// refusedSizes sends values of wrong lengths, and asks for more than a reply holds.
func refusedSizes(ctx context.Context, t *testing.T, client *redis.Client, size, mostGet int) {
	for _, wrong := range []int{0, size - 1, size + 1} {
		want := fmt.Sprintf("ERR a key has 8 bytes and a value %d, not 8 and %d", size, wrong)
		err := client.Set(ctx, "wrong001", strings.Repeat("x", wrong), 0).Err()
		if err == nil || err.Error() != want {
			t.Errorf("SET of %d bytes: %v", wrong, err)
		}
		err = client.MSet(ctx, "wrong001", strings.Repeat("x", wrong)).Err()
		if err == nil || err.Error() != want {
			t.Errorf("MSET of %d bytes: %v", wrong, err)
		}
	}
	if err := client.Get(ctx, "wrong001").Err(); err != redis.Nil {
		t.Errorf("a refused key: %v", err)
	}
	most := make([]string, mostGet)
	for i := range most {
		most[i] = fmt.Sprintf("a%07d", i)
	}
	if got, err := client.MGet(ctx, most...).Result(); err != nil || len(got) != mostGet {
		t.Errorf("MGET of %d keys: %v", mostGet, err)
	}
	if size < 4096 {
		return // The count of arguments is the limit there.
	}
	want := fmt.Sprintf("ERR mget takes at most %d keys", mostGet)
	err := client.MGet(ctx, append(most, "b0000001")...).Err()
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("MGET of %d keys: %v", mostGet+1, err)
	}
}

// otherSettings starts node 3 with another size of values, sets a node up beside it, and lets one
// join. Each is refused with both sizes.
func otherSettings(t *testing.T, c *process.Cluster, size int) {
	const other = 2048
	if err := c.Kill(3); err != nil {
		t.Fatal(err)
	}
	fresh := []string{"--data_dir", filepath.Join(t.TempDir(), "data"),
		fmt.Sprintf("--cluster.value_bytes=%d", other)}
	for _, test := range []struct {
		command, want string
		code          int
		flags         []string
	}{
		{"serve", "cluster.value_bytes is %d, but this cluster was made with %d", 78, fresh[2:]},
		{"init", "cluster.value_bytes is %d, but the cluster of node 1 was made with %d", 1, fresh},
		{"join", "cluster.value_bytes of the node is %d, but this cluster was made with %d", 1,
			append([]string{"--replace", "--peer", c.Info(1).AdminAddress}, fresh...)},
	} {
		err := c.Try(t.Context(), 3, test.command, test.flags...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != test.code ||
			!strings.Contains(err.Error(), fmt.Sprintf(test.want, other, size)) {
			t.Errorf("%s: %v", test.command, err)
		}
	}
	if err := c.Start(3); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(t.Context(), 3); err != nil {
		t.Error(err)
	}
}
