package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"engine_race/cluster/config/testtls"
)

var hash = hashOf("secret")

func hashOf(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hashPrefix + hex.EncodeToString(sum[:])
}

const peerTLS = "[tls]\npeer_ca = 'a'\npeer_cert = 'b'\npeer_key = 'c'\n"
const bothTLS = peerTLS + "client_cert = 'd'\nclient_key = 'e'\n"

// TestOutsideLoopback uses LoadSettings: the named files do not exist.
func TestOutsideLoopback(t *testing.T) {
	users := "[auth]\nusers = {default = '" + hash + "'}\n"
	cases := []struct {
		name, text string
		want       string // a part of the error; empty: accepted
	}{
		{"raft", "raft_address = '10.0.0.1:1'\n", "raft_address: \"10.0.0.1:1\" is outside"},
		{"raft with TLS", "raft_address = '10.0.0.1:1'\n" + peerTLS, ""},
		{"admin", "admin_address = '10.0.0.1:1'\n", "admin_address: \"10.0.0.1:1\" is outside"},
		{"admin on all hosts", "admin_address = ':1'\n", "admin_address: \":1\" is outside"},
		{"admin by name", "admin_address = 'db1:1'\n", "admin_address: \"db1:1\" is outside"},
		{"localhost", "admin_address = 'localhost:1'\n", ""},
		{"IPv6 loopback", "admin_address = '[::1]:1'\n", ""},
		{"another 127", "admin_address = '127.8.8.8:1'\n", ""},
		{"client", "client_address = '10.0.0.1:1'\n", "tls.peer_ca"},
		{"client without TLS", "client_address = '10.0.0.1:1'\n" + peerTLS + users,
			"tls.client_cert"},
		{"client without password", "client_address = '10.0.0.1:1'\n" + bothTLS, "auth.users"},
		{"client without peer TLS", "client_address = '10.0.0.1:1'\n" + users +
			"[tls]\nclient_cert = 'd'\nclient_key = 'e'\n", "tls.peer_ca"},
		{"client with all", "client_address = '10.0.0.1:1'\n" + bothTLS + users, ""},
		{"client with a password file", "client_address = '10.0.0.1:1'\n" + bothTLS +
			"[auth]\npassword_file = 'f'\n", ""},
		{"a node of the list", "[cluster]\nreplicas = 1\nnodes = [{id = 2, raft = '10.0.0.1:1', " +
			"client = '10.0.0.1:2', admin = '10.0.0.1:3'}]\n", "cluster.nodes[0].raft"},
		{"metrics", "metrics_address = '10.0.0.1:1'\n", "allow_plain_metrics"},
		{"metrics on loopback", "metrics_address = '127.0.0.1:1'\n", ""},
		{"metrics permitted", "metrics_address = ':1'\nallow_plain_metrics = true\n", ""},
		{"metrics permitted, admin not", "admin_address = ':1'\nallow_plain_metrics = true\n",
			"admin_address"},
		{"all is permitted", "allow_insecure = true\nraft_address = '10.0.0.1:1'\n" +
			"client_address = '10.0.0.1:2'\nmetrics_address = ':3'\n", ""},
		{"permission does not excuse mistakes", "allow_insecure = true\nadmin_address = 'x'\n",
			"admin_address"},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			_, err := LoadSettings(write(t, "node_id = 1\n"+test.text, 0o600), nil)
			if test.want == "" && err != nil {
				t.Fatalf("was refused: %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Fatalf("error %v lacks %q", err, test.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	c := Default()
	c.NodeID, c.ClientAddress, c.AllowInsecure = 1, "10.0.0.1:1", true
	c.MetricsAddress, c.AllowPlainMetrics = ":2", true
	var out bytes.Buffer
	c.LogWarnings(slog.New(slog.NewTextHandler(&out, nil)))
	for _, want := range []string{"allow_insecure", "tls.peer_ca", "tls.client_cert", "auth.users",
		"allow_plain_metrics", "level=WARN"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("warnings lack %q: %s", want, out.String())
		}
	}
	out.Reset()
	Default().LogWarnings(slog.New(slog.NewTextHandler(&out, nil)))
	if out.Len() != 0 {
		t.Errorf("the defaults give warnings: %s", out.String())
	}
}

func TestUsers(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "passwords")
	cases := []struct {
		name, inline, text string
		mode               os.FileMode
		want               string // a part of the error; empty: accepted
	}{
		{"both", hash, "# ours\n\nbob:" + hashOf("b") + "\n", 0o640, ""},
		{"no prefix", hash[7:], "bob:" + hash, 0o600, "user \"default\""},
		{"others may read", hash, "bob:" + hash, 0o604, "0604"},
		{"the group may write", hash, "bob:" + hash, 0o660, "0660"},
		{"a plain password", hash, "bob:secret\n", 0o600, "line 1"},
		{"a password alone", hash, "secret\n", 0o600, "line 1"},
		{"a short hash", hash, "bob:sha256:00\n", 0o600, "line 1"},
		{"no name", hash, "\n:" + hash + "\n", 0o600, "line 2"},
		{"twice", hash, "default:" + hash + "\n", 0o600, "twice"},
		{"empty", hash, "# none\n", 0o600, "no user"},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(test.text), test.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, test.mode); err != nil {
				t.Fatal(err)
			}
			c := Default()
			c.Auth = Auth{Users: map[string]string{"default": test.inline}, PasswordFile: file}
			users, err := c.Users()
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v lacks %q", err, test.want)
				}
				if strings.Contains(err.Error(), hash) || strings.Contains(err.Error(), "secret") {
					t.Errorf("the error shows the hash or the password: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			expected := Users{"default": sha256.Sum256([]byte("secret")),
				"bob": sha256.Sum256([]byte("b"))}
			if !maps.Equal(users, expected) {
				t.Errorf("users %v", users)
			}
		})
	}
}

func TestFilesAreReadAtTheStart(t *testing.T) {
	authority, err := testtls.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("node", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	settings := "node_id = 1\n[tls]\npeer_ca = '" + authority.CAPath + "'\npeer_cert = '" +
		pair.CertPath + "'\npeer_key = '" + pair.KeyPath + "'\n"
	if _, err := Load(write(t, settings, 0o600), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pair.KeyPath, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(write(t, settings, 0o600), nil); err == nil ||
		!strings.Contains(err.Error(), "tls.peer_key") {
		t.Errorf("a key that others can read: %v", err)
	}
	missing := "node_id = 1\n[auth]\npassword_file = '/nonexistent/x'\n"
	if _, err := Load(write(t, missing, 0o600), nil); err == nil ||
		!strings.Contains(err.Error(), "auth.password_file") {
		t.Errorf("a password file that is missing: %v", err)
	}
	inline := "node_id = 1\n[auth]\nusers = {default = '" + hash + "'}\n"
	if _, err := Load(write(t, inline, 0o644), nil); err == nil ||
		!strings.Contains(err.Error(), "auth.users") {
		t.Errorf("passwords in a file that others can read: %v", err)
	}
	if _, err := Load(write(t, inline, 0o640), nil); err != nil {
		t.Errorf("passwords in a file that the group can read: %v", err)
	}
}
