package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// How long a test waits for what must come.
const patience = 30 * time.Second

// testNode is a node whose calls from others come through an HTTP server of its own.
type testNode struct {
	*Node
	config Config
	http   *httptest.Server
}

// testCluster runs nodes in this process. They are numbered from 1 on.
type testCluster struct {
	t       *testing.T
	genesis Genesis
	root    string
	nodes   map[uint64]*testNode
}

func newCluster(t *testing.T, nodes, shards, replicas uint64) *testCluster {
	t.Helper()
	return newClusterAt(t, "127.0.0.1", nodes, shards, replicas)
}

func newClusterAt(t *testing.T, host string, nodes, shards, replicas uint64) *testCluster {
	t.Helper()
	c := newClusterOf(t, host, Genesis{Cluster: "test", Shards: shards, Replicas: replicas,
		Commands: replica.Version}, nodes)
	for id := uint64(1); id <= nodes; id++ {
		c.start(id)
	}
	return c
}

func readyCluster(t *testing.T, nodes, shards, replicas uint64) *testCluster {
	t.Helper()
	c := newCluster(t, nodes, shards, replicas)
	c.awaitReady()
	return c
}

// newClusterOf initialises nodes and starts none.
func newClusterOf(t *testing.T, host string, genesis Genesis, nodes uint64) *testCluster {
	t.Helper()
	c := &testCluster{t: t, root: t.TempDir(), nodes: map[uint64]*testNode{}, genesis: genesis}
	addresses := testkit.FreeAddresses(t, host, 2*nodes)
	for id := uint64(1); id <= nodes; id++ {
		c.genesis.Nodes = append(c.genesis.Nodes, service.NodeInfo{ID: id,
			RaftAddress: addresses[2*id-2], AdminAddress: addresses[2*id-1]})
	}
	for _, info := range c.genesis.Nodes {
		config := c.configOf(info)
		if err := Init(soon(t), config, c.genesis); err != nil {
			t.Fatal(err)
		}
		c.nodes[info.ID] = &testNode{config: config}
	}
	t.Cleanup(func() {
		for id := range c.nodes {
			c.stop(id)
		}
	})
	return c
}

func (c *testCluster) configOf(info service.NodeInfo) Config {
	return Config{
		Directory: filepath.Join(c.root, fmt.Sprint("node", info.ID)), Info: info,
		TickMs: 10, ElectionTicks: 10, HeartbeatTicks: 1,
		SpreadReplicas: true, SpreadLeaders: true, lookInterval: time.Hour,
		LogMemoryBytes: 64 << 20, LogBytes: 1 << 30, ExecShards: 1, SyncInterval: time.Second,
		Engine: map[string]string{"bucket_count": "4", "file_count": "2",
			"bucket_capacity_records": "65536", "memory_budget_bytes": "64m"},
		Client: &http.Client{}, Scheme: "http", Logger: slog.New(slog.DiscardHandler),
	}
}

func (c *testCluster) start(id uint64) {
	c.t.Helper()
	n := c.nodes[id]
	node, err := Open(n.config)
	if err != nil {
		c.t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, handler := range node.Handlers() {
		mux.Handle(path, handler)
	}
	n.Node = node
	n.http = httptest.NewUnstartedServer(mux)
	n.http.Listener.Close()
	if n.http.Listener, err = net.Listen("tcp", n.config.Info.AdminAddress); err != nil {
		c.t.Fatal(err)
	}
	n.http.Start()
}

func (c *testCluster) stop(id uint64) {
	n := c.nodes[id]
	if n.Node == nil {
		return
	}
	n.http.CloseClientConnections()
	n.http.Close()
	n.Node.Close()
	n.Node = nil
}

func (c *testCluster) awaitReady() {
	c.t.Helper()
	for id, n := range c.nodes {
		if n.Node != nil {
			testkit.Succeeds(c.t, fmt.Sprintf("node %d becomes ready", id), n.Ready)
		}
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func valueOf(key, version uint64) []byte {
	value := make([]byte, service.DefaultValueBytes)
	binary.BigEndian.PutUint64(value, key)
	binary.BigEndian.PutUint64(value[8:], version)
	return value
}

func keyAt(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }

func put(t *testing.T, n *testNode, key, version uint64) {
	t.Helper()
	testkit.Succeeds(t, "a write", func() error {
		// A proposal that was lost with its leader is never answered: there is time for more.
		ctx, cancel := context.WithTimeout(context.Background(), patience/10)
		defer cancel()
		_, err := n.Write(ctx, []service.Op{{Key: key, Value: valueOf(key, version)}}, false)
		return err
	})
}

// expect reads a key; version 0 stands for absence.
func expect(t *testing.T, n *testNode, key, version uint64, c service.Consistency) {
	t.Helper()
	values, release, err := n.Read(soon(t), []uint64{key}, c)
	if err != nil {
		t.Fatalf("key %x: %v", key, err)
	}
	defer release()
	got := uint64(0)
	if values[0] != nil {
		got = binary.BigEndian.Uint64(values[0][8:])
	}
	if got != version {
		t.Fatalf("key %x has version %d, not %d", key, got, version)
	}
}
