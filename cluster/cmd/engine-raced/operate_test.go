package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"engine_race/cluster/admin"
	"engine_race/cluster/config"
	"engine_race/cluster/config/testtls"
	"engine_race/cluster/service"
)

const testDeadline = 20 * time.Second

// fakeNode answers as an admin server, and keeps the last call.
type fakeNode struct {
	path, body string
	failure    *admin.Failure
	code       int
}

func (f *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	f.path, f.body = r.URL.Path, body.String()
	var answer any = struct{}{}
	switch r.URL.Path {
	case "/status":
		answer = testStatus()
	case "/snapshot":
		answer = admin.IndexAnswer{Index: 42}
	case "/split":
		answer = admin.SplitAnswer{Shard: 7}
	case "/backup", "/restore":
		answer = service.BackupReport{Records: 3, Bytes: 12288}
	}
	if f.failure != nil {
		w.WriteHeader(f.code)
		answer = f.failure
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func testStatus() service.Status {
	member := func(shard, node uint64) service.ReplicaStatus {
		return service.ReplicaStatus{ShardID: shard, ReplicaID: node, NodeID: node,
			Ready: node == 1, AppliedIndex: 500 + node, SyncedIndex: 400,
			ReadKeysPerSecond: 6.6, WrittenOpsPerSecond: 12}
	}
	return service.Status{Cluster: "demo", ValueBytes: 512, NodeID: 1,
		Silent: []uint64{2}, Leaving: []uint64{2},
		Nodes: []service.NodeInfo{
			{ID: 1, RaftAddress: "h1:1", ClientAddress: "h1:2", AdminAddress: "h1:3"},
			{ID: 2, RaftAddress: "h2:1", ClientAddress: "h2:2", AdminAddress: "h2:3"},
		},
		Shards: []service.ShardStatus{
			{ShardID: 1, Upper: 1<<63 - 1, LeaderID: 1,
				Members: []service.ReplicaStatus{member(1, 1), member(1, 2)}},
			{ShardID: 2, Lower: 1 << 63, Upper: 1<<64 - 1,
				Members: []service.ReplicaStatus{member(2, 1), member(2, 2)}},
			{ShardID: 3, Source: 2, MovesFrom: 1, MovesTo: 2},
		}}
}

// call runs a command and returns its exit code and both outputs.
func call(t *testing.T, command string, arguments ...string) (int, string, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	var out, errorsOut bytes.Buffer
	code := operateWith(ctx, command, arguments, &out, &errorsOut)
	return code, out.String(), errorsOut.String()
}

func TestCommands(t *testing.T) {
	node := &fakeNode{}
	server := httptest.NewServer(node)
	defer server.Close()
	cases := []struct{ command, arguments, path, body, out string }{
		{"add-replica", "--shard 3 --node 4", "/add-replica", `{"shard":3,"node":4}`, "done\n"},
		{"add-replica", "--shard 0 --node 4 --json", "/add-replica", `{"shard":0,"node":4}`, "{}\n"},
		{"remove-replica", "--shard=3 -node=4", "/remove-replica", `{"shard":3,"node":4}`, "done\n"},
		{"move-leader", "--shard 3 --node 4", "/move-leader", `{"shard":3,"node":4}`, "done\n"},
		{"move-replica", "--shard 3 --from 4 --to 5", "/move-replica",
			`{"shard":3,"from":4,"to":5}`, "done\n"},
		{"split", "--shard 3 --key k0000001", "/split", `{"shard":3,"key":"0x6b30303030303031"}`,
			"shard 7 has the keys from 6b30303030303031 on\n"},
		{"split", "--shard 3 --key 0x00000000000000ff --json", "/split",
			`{"shard":3,"key":"0x00000000000000ff"}`, "{\n  \"new_shard\": 7\n}\n"},
		{"decommission", "--node 4", "/decommission", `{"node":4}`, "done\n"},
		{"recommission", "--node 4", "/recommission", `{"node":4}`, "done\n"},
		{"snapshot", "--shard 3", "/snapshot", `{"shard":3}`, "snapshot at index 42\n"},
		{"backup", "--dir /b/2 --since /b/1", "/backup", `{"directory":"/b/2","since":"/b/1"}`,
			"3 records, 12288 bytes\n"},
		{"restore", "--dir /b/2", "/restore", `{"directory":"/b/2"}`, "3 records, 12288 bytes\n"},
		{"restore", "--dir /b/2 --json", "/restore", `{"directory":"/b/2"}`,
			"{\n  \"records\": 3,\n  \"bytes\": 12288\n}\n"},
	}
	for _, test := range cases {
		arguments := append(strings.Fields(test.arguments), "--admin",
			strings.TrimPrefix(server.URL, "http://"))
		code, out, errorsOut := call(t, test.command, arguments...)
		if code != exitDone || out != test.out || errorsOut != "" {
			t.Errorf("%s %s: code %d, %q, %q", test.command, test.arguments, code, out, errorsOut)
		}
		if node.path != test.path || node.body != test.body {
			t.Errorf("%s %s: sent %s %s", test.command, test.arguments, node.path, node.body)
		}
	}
}

func TestStatusTable(t *testing.T) {
	server := httptest.NewServer(&fakeNode{})
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	code, out, _ := call(t, "status", "--admin", address)
	var rows []string // with single spaces
	for _, line := range strings.Split(out, "\n") {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"cluster demo: 2 nodes, 3 shards, values of 512 bytes, as node 1 sees it", "",
		"NODE RAFT CLIENT ADMIN ANSWERS REPLICAS LEADS",
		"1 h1:1 h1:2 h1:3 yes 2 1",
		"2 h2:1 h2:2 h2:3 no, leaving 2 0", "",
		"SHARD LOWEST KEY HIGHEST KEY REPLICA NODE ROLE READY APPLIED SYNCED READS/S WRITES/S",
		"1 0000000000000000 7fffffffffffffff 1 1 leader yes 501 400 7 12",
		"1 0000000000000000 7fffffffffffffff 2 2 follower no 502 400 7 12",
		"2 8000000000000000 ffffffffffffffff 1 1 no leader yes 501 400 7 12",
		"2 8000000000000000 ffffffffffffffff 2 2 no leader no 502 400 7 12",
		"3 0000000000000000 0000000000000000 - - - - - - - -", "",
		"shard 3: a replica moves from node 1 to node 2", "",
		"shard 3: copies its records from shard 2", "",
	}
	if code != exitDone || !reflect.DeepEqual(rows, want) {
		t.Errorf("code %d, table\n%s", code, out)
	}
	var status service.Status
	_, out, _ = call(t, "status", "--json", "--admin", address)
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.Cluster != "demo" ||
		len(status.Shards) != 3 {
		t.Errorf("JSON %v: %s", err, out)
	}
}

func TestFailuresHaveExitCodes(t *testing.T) {
	node := &fakeNode{}
	server := httptest.NewServer(node)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	cases := []struct {
		kind string
		http int
		code int
	}{
		{"unknown", 504, exitUnknown}, {"unavailable", 503, exitFailed},
		{"conflict", 409, exitFailed}, {"invalid", 400, exitFailed}, {"internal", 500, exitUnknown},
	}
	for _, test := range cases {
		node.failure, node.code = &admin.Failure{Error: "reason", Kind: test.kind}, test.http
		code, out, errorsOut := call(t, "move-leader", "--admin", address, "--shard", "1",
			"--node", "2")
		if code != test.code || out != "" || !strings.Contains(errorsOut, "reason") {
			t.Errorf("%s: code %d, %q, %q", test.kind, code, out, errorsOut)
		}
	}
	server.Close()
	code, _, errorsOut := call(t, "status", "--admin", address)
	if code != exitFailed || !strings.Contains(errorsOut, "nothing was done") {
		t.Errorf("nobody listens: code %d, %q", code, errorsOut)
	}
}

func TestWrongCommandLines(t *testing.T) {
	cases := []struct{ command, arguments, want string }{
		{"fly", "", "status"},
		{"add-replica", "--shard 1", "--node"},
		{"move-leader", "--node 1", "--shard"},
		{"move-replica", "--shard 1 --from 2", "--to"},
		{"move-replica", "--shard 1 --from 2 --to 3 --node 4", "--node"},
		{"split", "--shard 1", "--key"},
		{"split", "--shard 1 --key short", "--key"},
		{"decommission", "--shard 1 --node 2", "--shard"},
		{"snapshot", "", "--shard"},
		{"snapshot", "--shard 1 --node 2", "--node"},
		{"backup", "", "--dir"},
		{"restore", "--dir /x --since /y", "--since"},
		{"status", "--shard 1", "--shard"},
		{"status", "now", "now"},
		{"status", "--admin nowhere", "nowhere"},
		{"status", "--config /nonexistent", "/nonexistent"},
		{"status", "--timeout -1s", "--timeout"},
		{"add-replica", "--shard -1 --node 2", "-shard"},
	}
	for _, test := range cases {
		code, out, errorsOut := call(t, test.command, strings.Fields(test.arguments)...)
		if code != exitUsage || out != "" || !strings.Contains(errorsOut, test.want) {
			t.Errorf("%s %s: code %d, %q, %q", test.command, test.arguments, code, out, errorsOut)
		}
	}
	if code, _, errorsOut := call(t, "status", "--help"); code != exitDone ||
		!strings.Contains(errorsOut, "-admin HOST:PORT") {
		t.Errorf("help: code %d, %s", code, errorsOut)
	}
}

// TestConfigFile takes the address and the TLS files from a node's configuration.
func TestConfigFile(t *testing.T) {
	directory := t.TempDir()
	authority, err := testtls.New(directory)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("node", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	settings := config.Config{TLS: config.TLS{PeerCA: authority.CAPath, PeerCert: pair.CertPath,
		PeerKey: pair.KeyPath}}
	node := httptest.NewUnstartedServer(&fakeNode{})
	security, _, err := settings.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	node.Config.ErrorLog = log.New(io.Discard, "", 0)
	node.Listener = tls.NewListener(node.Listener, security) // StartTLS has its own certificate.
	node.Start()
	defer node.Close()
	address := strings.TrimPrefix(node.URL, "http://")
	path := filepath.Join(directory, "node.toml")
	write := func(adminAddress string) {
		text := fmt.Sprintf("node_id = 1\nadmin_address = %q\n[tls]\npeer_ca = %q\n"+
			"peer_cert = %q\npeer_key = %q\n[auth]\npassword_file = '/nonexistent'\n",
			adminAddress, authority.CAPath, pair.CertPath, pair.KeyPath)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(address)
	code, out, errorsOut := call(t, "status", "--config", path)
	if code != exitDone || !strings.Contains(out, "cluster demo") {
		t.Errorf("code %d, %q, %q", code, out, errorsOut)
	}
	if code, out, _ := call(t, "status", "--admin", address); code == exitDone {
		t.Errorf("without TLS: %q", out)
	}
	write("0.0.0.0:7201")
	if code, _, errorsOut := call(t, "status", "--config", path); code != exitUsage ||
		!strings.Contains(errorsOut, "--admin") {
		t.Errorf("an address without host: code %d, %q", code, errorsOut)
	}
	if code, _, errorsOut := call(t, "status", "--config", path, "--admin", address); code != 0 {
		t.Errorf("--admin over the file: code %d, %q", code, errorsOut)
	}
}

// TestCommandsShowTheSecret takes it from the file that a configuration names.
func TestCommandsShowTheSecret(t *testing.T) {
	directory := t.TempDir()
	config, secret := filepath.Join(directory, "node.toml"), filepath.Join(directory, "secret")
	text := fmt.Sprintf("node_id = 1\nsecret_file = %q\n", secret)
	for path, content := range map[string]string{config: text, secret: "sixteen-letters-\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var shown string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = r.Header.Get("Authorization")
		_ = json.NewEncoder(w).Encode(testStatus())
	}))
	defer node.Close()
	address := strings.TrimPrefix(node.URL, "http://")
	if code, _, errorsOut := call(t, "status", "--admin", address); code != 0 || shown != "" {
		t.Errorf("without a file: code %d, %q, shown %q", code, errorsOut, shown)
	}
	code, _, errorsOut := call(t, "status", "--config", config, "--admin", address)
	if code != exitDone || shown != "Bearer sixteen-letters-" {
		t.Errorf("code %d, %q, shown %q", code, errorsOut, shown)
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := call(t, "status", "--config", config, "--admin", address); code != exitUsage {
		t.Errorf("without the file that is named: code %d", code)
	}
}
