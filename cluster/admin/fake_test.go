package admin_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"engine_race/cluster/admin"
	"engine_race/cluster/admin/client"
	"engine_race/cluster/config"
	"engine_race/cluster/config/testtls"
	"engine_race/cluster/secret"
	"engine_race/cluster/service"
)

const (
	testDeadline = 20 * time.Second
	testSecret   = "a secret of tests"
)

// fakeControl records calls as texts, and answers with what the test set.
type fakeControl struct {
	mutex       sync.Mutex
	calls       []string
	err         error
	live, ready error
	// wait, unless nil, runs during each call of an operator.
	wait func(ctx context.Context) error
}

func (f *fakeControl) set(change func(*fakeControl)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change(f)
}

func (f *fakeControl) record(ctx context.Context, format string, arguments ...any) error {
	f.mutex.Lock()
	f.calls = append(f.calls, fmt.Sprintf(format, arguments...))
	wait, err := f.wait, f.err
	f.mutex.Unlock()
	if wait != nil {
		return wait(ctx)
	}
	return err
}

// takeCalls returns the calls since the last takeCalls.
func (f *fakeControl) takeCalls() string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	calls := strings.Join(f.calls, ";")
	f.calls = nil
	return calls
}

func (f *fakeControl) Status(context.Context) (service.Status, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return fakeStatus(), f.err
}

func (f *fakeControl) AddReplica(ctx context.Context, shard, node uint64) error {
	return f.record(ctx, "add %d %d", shard, node)
}

func (f *fakeControl) RemoveReplica(ctx context.Context, shard, node uint64) error {
	return f.record(ctx, "remove %d %d", shard, node)
}

func (f *fakeControl) MoveLeader(ctx context.Context, shard, node uint64) error {
	return f.record(ctx, "move %d %d", shard, node)
}

func (f *fakeControl) MoveReplica(ctx context.Context, shard, from, to uint64) error {
	return f.record(ctx, "move replica %d %d %d", shard, from, to)
}

func (f *fakeControl) Decommission(ctx context.Context, node uint64, leaves bool) error {
	return f.record(ctx, "decommission %d %t", node, leaves)
}

func (f *fakeControl) SplitShard(ctx context.Context, shard, key uint64) (uint64, error) {
	return 9, f.record(ctx, "split %d at %016x", shard, key)
}

func (f *fakeControl) Snapshot(ctx context.Context, shard uint64) (uint64, error) {
	return 42, f.record(ctx, "snapshot %d", shard)
}

func (f *fakeControl) Compare(ctx context.Context, shard uint64) (service.Comparison, error) {
	return service.Comparison{ShardID: shard, Index: 7}, f.record(ctx, "compare %d", shard)
}

func (f *fakeControl) Backup(ctx context.Context, directory, since string) (service.BackupReport,
	error) {
	return service.BackupReport{Records: 3, Bytes: 12288},
		f.record(ctx, "backup %s since %s", directory, since)
}

func (f *fakeControl) Restore(ctx context.Context, directory string) (service.BackupReport,
	error) {
	return service.BackupReport{Records: 2, Bytes: 8192}, f.record(ctx, "restore %s", directory)
}

func (f *fakeControl) Live() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.live
}

func (f *fakeControl) Ready() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.ready
}

// fakeStatus is node 1's: it leads shard 1, node 2 leads shard 2, and shard 3 has no leader.
func fakeStatus() service.Status {
	status := service.Status{Cluster: "demo", NodeID: 1}
	for id := uint64(1); id <= 3; id++ {
		status.Nodes = append(status.Nodes, service.NodeInfo{ID: id,
			RaftAddress:   fmt.Sprintf("127.0.0.1:710%d", id),
			ClientAddress: fmt.Sprintf("127.0.0.1:700%d", id),
			AdminAddress:  fmt.Sprintf("127.0.0.1:720%d", id)})
		shard := service.ShardStatus{ShardID: id, Lower: id << 60, Upper: (id+1)<<60 - 1,
			LeaderID: id % 3}
		for node := uint64(3); node >= 1; node-- { // The node's own replica is not the first.
			shard.Members = append(shard.Members, service.ReplicaStatus{ShardID: id,
				ReplicaID: node, NodeID: node, Leader: node == shard.LeaderID, Ready: true,
				AppliedIndex: 100*id + node, SyncedIndex: 10*id + node})
		}
		status.Shards = append(status.Shards, shard)
	}
	return status
}

// start serves the options on free ports until the test ends.
func start(t *testing.T, options admin.Options) *admin.Server {
	t.Helper()
	options.Address = "127.0.0.1:0"
	if options.TLS == nil {
		options.Secret = testSecret
	}
	server, err := admin.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
		defer cancel()
		_ = server.Shutdown(ctx)
	})
	return server
}

// dial makes a client of the server.
func dial(t *testing.T, server *admin.Server, security *tls.Config) *client.Client {
	t.Helper()
	c, err := client.New(server.Address(), security, testSecret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// send makes a plain request and returns its code, body and headers.
func send(t *testing.T, method, url, kind, body string) (int, string, http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	secret.Show(request.Header, testSecret)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// peerTLS makes an authority and returns both sides of a node's certificate.
func peerTLS(t *testing.T) (server, friend *tls.Config) {
	t.Helper()
	authority, err := testtls.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("node", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	settings := &config.Config{TLS: config.TLS{PeerCA: authority.CAPath, PeerCert: pair.CertPath,
		PeerKey: pair.KeyPath}}
	server, client, err := settings.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	return server, client()
}
