package config

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// write makes a configuration file with the mode and returns its path.
func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.toml")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // The process's umask does not matter.
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreFilledIn(t *testing.T) {
	got, err := Load(write(t, "node_id = 7\n[raft]\nrtt_ms = 30\n", 0o644), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.NodeID = 7
	want.Raft.RTTMs = 30
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestOverridesBeatTheFile(t *testing.T) {
	path := write(t, "node_id = 7\n[limits]\nmax_clients = 5\n[engine]\ncache_bytes = 9\n", 0o644)
	arguments := []string{"--limits.max_clients", "6", "--raft_address=127.0.0.1:9",
		"--engine.reclaim=false", "--engine.cache_bytes", "2g"}
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	overrides := AddFlags(flags, arguments)
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path, overrides)
	if err != nil {
		t.Fatal(err)
	}
	if got.Limits.MaxClients != 6 || got.RaftAddress != "127.0.0.1:9" {
		t.Fatalf("the flags did not override the file: %+v", got)
	}
	want := EngineOptions{"reclaim": "false", "cache_bytes": "2g"}
	if !reflect.DeepEqual(got.Engine, want) {
		t.Fatalf("engine: got %v, want %v", got.Engine, want)
	}
}

func TestEveryScalarHasAFlag(t *testing.T) {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	AddFlags(flags, nil)
	for _, s := range Default().scalars() {
		if has := flags.Lookup(s.name) != nil; has == s.fileOnly() {
			t.Errorf("%s: has a flag: %v, belongs to the file only: %v", s.name, has, s.fileOnly())
		}
	}
	flags.SetOutput(io.Discard)
	if err := flags.Parse([]string{"--allow_insecure", "true"}); err == nil {
		t.Error("a flag allows insecure settings")
	}
}

func TestEngineOptionsMayBeNumbers(t *testing.T) {
	text := "node_id = 1\n[engine]\na = 2\nb = true\nc = \"x\"\nd = 0.5\n"
	got, err := Load(write(t, text, 0o644), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := EngineOptions{"a": "2", "b": "true", "c": "x", "d": "0.5"}
	if !reflect.DeepEqual(got.Engine, want) {
		t.Fatalf("got %v, want %v", got.Engine, want)
	}
}

func TestBadOverridesAreNamed(t *testing.T) {
	cases := map[string]string{"raft.rtt_ms": "soon", "raft.rt_ms": "3", "allow_insecure": "true",
		"node_id": "-1", "engine.": "1", "cluster.nodes": "[]", "limits.max_clients": "1e4"}
	for name, text := range cases {
		overrides := map[string]string{"node_id": "1", name: text}
		if _, err := Load("", overrides); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = %s: error %v does not name the setting", name, text, err)
		}
	}
}

const threeNodes = `node_id = 1
[cluster]
nodes = [
  {id = 1, raft = "127.0.0.1:7101", client = "127.0.0.1:7001", admin = "127.0.0.1:7201"},
  {id = 2, raft = "127.0.0.1:7102", client = "127.0.0.1:7002", admin = "127.0.0.1:7202"},
  {id = 3, raft = "127.0.0.1:7103", client = "127.0.0.1:7003", admin = "127.0.0.1:7203"},
]
`

func TestThreeNodes(t *testing.T) {
	c, err := Load(write(t, threeNodes, 0o644), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ValidateForInit(); err != nil {
		t.Fatal(err)
	}
	if self := c.Self(); self != c.Cluster.Nodes[0] {
		t.Fatalf("self is %+v", self)
	}
	c.NodeID = 4
	if err := c.ValidateForInit(); err == nil {
		t.Error("init accepts a node that the list lacks")
	}
	if self := c.Self(); self.ID != 4 || self.RaftAddress != c.RaftAddress {
		t.Errorf("self of an unlisted node is %+v", self)
	}
	c.Cluster.Nodes = nil
	if err := c.ValidateForInit(); err == nil {
		t.Error("init accepts an empty list")
	}
}

// TestJoinNeedsAnAddress has a node that listens on all addresses.
func TestJoinNeedsAnAddress(t *testing.T) {
	c, err := Load(write(t, threeNodes, 0o644), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.AdminAddress = "0.0.0.0:7201"
	if err := c.ValidateForJoin(); err != nil {
		t.Errorf("a node that the list has: %v", err)
	}
	c.NodeID = 4
	if err := c.ValidateForJoin(); err == nil || !strings.Contains(err.Error(), "cluster.nodes") {
		t.Errorf("a node that the list lacks: %v", err)
	}
	c.AdminAddress = "127.0.0.1:7204"
	if err := c.ValidateForJoin(); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	cases := []struct {
		name, text string
		want       []string // parts of the error
	}{
		{"unknown keys", "node_id = 1\nfoo = 2\n[raft]\nrt_ms = 20\n", []string{"foo", "raft.rt_ms"}},
		{"unknown key of a node", "node_id = 1\n[[cluster.nodes]]\nidd = 1\n", []string{"idd"}},
		{"wrong type", "node_id = \"x\"\n", []string{"node_id"}},
		{"users that are no table", "node_id = 1\n[auth]\nUsers = 'sha256:00'\n",
			[]string{"auth.users"}},
		{"malformed", "node_id = \n", []string{"line 1"}},
		{"engine options that the node sets", "node_id = 1\n[engine]\nkey_range = \"0-9\"\n" +
			"paths = \"/a\"\nmemory_budget_bytes = 1\ncreate_if_missing = false\n" +
			"create_among_files = true\nvalue_bytes = 512\n", []string{
			"engine.key_range: the node sets it itself", "engine.value_bytes",
			"engine.paths", "engine.memory_budget_bytes", "engine.create_if_missing",
			"engine.create_among_files"}},
		{"settings that differ in case", "node_id = 1\nNode_ID = 2\n",
			[]string{"Node_ID; its name is node_id"}},
		{"a section in another case", "node_id = 1\n[Raft]\nrtt_ms = 30\n", []string{"Raft"}},
		{"an engine option in another case", "node_id = 1\n[engine]\nReclaim = true\n",
			[]string{"engine.Reclaim"}},
		{"engine option of a wrong type", "node_id = 1\n[engine]\na = [1]\n", []string{"engine.a"}},
		{"no node id", "", []string{"node_id"}},
		{"no data_dir", "node_id = 1\ndata_dir = ''\n", []string{"data_dir"}},
		{"no port", "node_id = 1\nraft_address = '127.0.0.1'\n", []string{"raft_address"}},
		{"port 0", "node_id = 1\nclient_address = '127.0.0.1:0'\n", []string{"client_address"}},
		{"port too high", "node_id = 1\nadmin_address = '[::1]:65536'\n", []string{"admin_address"}},
		{"no IPv6 address", "node_id = 1\nclient_address = '[a:b]:1'\n",
			[]string{"client_address: \"[a:b]:1\""}},
		{"IPv6 without brackets", "node_id = 1\nraft_address = '::1:7101'\n",
			[]string{"raft_address"}},
		{"a zone of one machine", "node_id = 1\nraft_address = '[fe80::1%eth0]:7101'\n",
			[]string{"raft_address", "no valid host"}},
		{"bad host", "node_id = 1\nadmin_address = 'a b:1'\n", []string{"admin_address: \"a b:1\""}},
		{"raft address without host", "node_id = 1\nraft_address = '0.0.0.0:1'\n",
			[]string{"raft_address", "names no host"}},
		{"one address twice", "node_id = 1\nadmin_address = '127.0.0.1:7001'\n",
			[]string{"admin_address", "client_address"}},
		{"no shards", "node_id = 1\n[cluster]\nshards = 0\n", []string{"cluster.shards"}},
		{"too many shards", "node_id = 1\n[cluster]\nshards = 1025\n", []string{"cluster.shards"}},
		{"values too small", "node_id = 1\n[cluster]\nvalue_bytes = 7\n",
			[]string{"cluster.value_bytes: 7 is not from 8 to 1048576"}},
		{"values too large", "node_id = 1\n[cluster]\nvalue_bytes = 1048577\n",
			[]string{"cluster.value_bytes: 1048577 is not from 8 to 1048576"}},
		{"values longer than a command", "node_id = 1\n[cluster]\nvalue_bytes = 65536\n[limits]\n" +
			"max_client_bytes_in_flight = 65536\n", []string{"65536 is not from 8 to 65280, the " +
			"largest size that limits.max_client_bytes_in_flight and raft.log_memory_bytes leave room for"}},
		{"values too large for the log", "node_id = 1\n[cluster]\nvalue_bytes = 1048576\n[raft]\n" +
			"log_memory_bytes = 4194304\n", []string{"1048576 is not from 8 to 1048320"}},
		{"even replicas", "node_id = 1\n[cluster]\nreplicas = 2\n", []string{"cluster.replicas"}},
		{"too many replicas", "node_id = 1\n[cluster]\nreplicas = 9\n",
			[]string{"cluster.replicas"}},
		{"more replicas than nodes", strings.Replace(threeNodes, "[cluster]",
			"[cluster]\nreplicas = 5", 1), []string{"cluster.replicas", "has 3"}},
		{"node id 0 in the list", strings.Replace(threeNodes, "id = 2", "id = 0", 1),
			[]string{"cluster.nodes[1].id"}},
		{"node id twice in the list", strings.Replace(threeNodes, "id = 3", "id = 2", 1),
			[]string{"cluster.nodes[2].id", "twice"}},
		{"address twice in the list", strings.Replace(threeNodes, "7203", "7003", 1),
			[]string{"cluster.nodes[2].admin", "cluster.nodes[2].client"}},
		{"own raft address differs", strings.Replace(threeNodes, "7101", "7109", 1),
			[]string{"cluster.nodes[0].raft", "raft_address"}},
		{"range", "node_id = 1\n[limits]\nmax_clients = -1\n", []string{"limits.max_clients: -1"}},
		{"backups over data", "node_id = 1\ndata_dir = '/a/b'\nbackup_dir = '/a'\n",
			[]string{"backup_dir", "data_dir"}},
		{"catching up too slowly", "node_id = 1\n[raft]\ncatch_up_bytes_per_s = 1000000\n",
			[]string{"raft.catch_up_bytes_per_s"}},
		{"elections too quick", "node_id = 1\n[raft]\nelection_rtt = 4\n",
			[]string{"raft.election_rtt", "raft.heartbeat_rtt"}},
		{"client limit above the node's", "node_id = 1\n[limits]\nmax_bytes_in_flight = 65536\n",
			[]string{"limits.max_client_bytes_in_flight"}},
		{"a part of peer TLS", "node_id = 1\n[tls]\npeer_ca = 'x'\n", []string{"tls.peer_cert"}},
		{"a part of client TLS", "node_id = 1\n[tls]\nclient_cert = 'x'\n",
			[]string{"tls.client_key"}},
		{"client CA alone", "node_id = 1\n[tls]\nclient_ca = 'x'\n", []string{"tls.client_ca"}},
		{"log level", "node_id = 1\n[log]\nlevel = 'loud'\n", []string{"log.level"}},
		{"log format", "node_id = 1\n[log]\nformat = 'xml'\n", []string{"log.format"}},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(write(t, test.text, 0o600), nil)
			if err == nil {
				t.Fatal("was accepted")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestTheLargestValuesAreAccepted(t *testing.T) {
	for _, size := range []string{"8", "100", "1048576"} {
		if _, err := Load("", map[string]string{"node_id": "1", "cluster.value_bytes": size,
			"raft.log_memory_bytes":             "4195328",
			"limits.max_client_bytes_in_flight": "1048832"}); err != nil {
			t.Errorf("%s bytes: %v", size, err)
		}
	}
}

func TestEveryLimitHasBounds(t *testing.T) {
	for _, s := range Default().scalars() {
		kind := s.value.Kind()
		if s.name == "node_id" || kind == reflect.String || kind == reflect.Bool {
			continue
		}
		_, err := Load("", map[string]string{"node_id": "1", s.name: "9000000000000000000"})
		if err == nil || !strings.Contains(err.Error(), s.name) {
			t.Errorf("%s: a huge number gives error %v", s.name, err)
		}
	}
}

func TestLogger(t *testing.T) {
	c := Default()
	c.NodeID, c.Log.Level = 3, "warn"
	var out bytes.Buffer
	logger := c.NewLogger(&out)
	logger.Info("quiet")
	logger.Warn("loud", "shard", 4)
	got := out.String()
	if strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud","node":3,"shard":4`) {
		t.Errorf("json: %s", got)
	}
	out.Reset()
	c.Log.Format = "text"
	c.NewLogger(&out).Error("plain")
	if got := out.String(); !strings.Contains(got, "level=ERROR msg=plain node=3") {
		t.Errorf("text: %s", got)
	}
}
