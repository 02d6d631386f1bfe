package config

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestNodesOfOneUserShareASecret has several nodes make it at once.
func TestNodesOfOneUserShareASecret(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "made", "too"))
	c := Default()
	if _, err := c.Secret(); err == nil {
		t.Fatal("a secret was there before it was made")
	}
	secrets := make([]string, 8)
	var group sync.WaitGroup
	for i := range secrets {
		group.Go(func() {
			err := c.MakeSecret()
			if err == nil {
				secrets[i], err = c.Secret()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, secret := range secrets {
		if secret != secrets[0] || len(secret) < 2*leastSecret {
			t.Errorf("secrets %q", secrets)
		}
	}
	found, err := os.ReadDir(filepath.Join(home, "made", "too", "engine-raced"))
	if err != nil || len(found) != 1 {
		t.Errorf("files %v, %v", found, err)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	err = c.MakeSecret()
	if err == nil || !strings.Contains(err.Error(), "secret_file: must be set") {
		t.Errorf("without a home: %v", err)
	}
}

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	c := Default()
	c.SecretFile = path
	for text, good := range map[string]bool{"sixteen-letters-": true, "sixteen-letters-\n": true,
		"fifteen-letters": false, "": false, "sixteen letters and more": false,
		"two-lines-of-sixteen\nletters": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if secret, err := c.Secret(); (err == nil) != good || err == nil && secret != text[:16] {
			t.Errorf("%q: %q, %v", text, secret, err)
		}
	}
	if err := os.WriteFile(path, []byte("sixteen-letters-"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Secret(); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a secret that everybody can read: %v", err)
	}
	c = Default()
	c.TLS.PeerCA = "authority"
	if secret, err := c.Secret(); secret != "" || err != nil || c.MakeSecret() != nil {
		t.Errorf("with peer TLS: %q, %v", secret, err)
	}
}

func TestHosts(t *testing.T) {
	c := Default()
	c.NodeID, c.AdminAddress, c.MetricsAddress = 1, "Node1.Example.:7201", ":7301"
	if got := strings.Join(c.Hosts(), " "); got != "node1.example node1.example" {
		t.Errorf("hosts %q", got)
	}
}
