package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

const examplePath = "../deploy/engine-raced.toml"

// TestExampleHasTheDefaults holds the commented example against the code.
func TestExampleHasTheDefaults(t *testing.T) {
	got, err := Load(examplePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.NodeID = 1
	want.Cluster.Nodes = got.Cluster.Nodes // Empty and missing lists mean the same.
	if !reflect.DeepEqual(got, want) || len(got.Cluster.Nodes) != 0 {
		t.Errorf("the example has %+v, the code %+v", got, want)
	}
}

func TestExampleHasEverySetting(t *testing.T) {
	var ignored map[string]any
	metadata, err := toml.DecodeFile(examplePath, &ignored)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"cluster.nodes", "auth.users", "engine"}
	for _, s := range Default().scalars() {
		names = append(names, s.name)
	}
	for _, name := range names {
		if !metadata.IsDefined(strings.Split(name, ".")...) {
			t.Errorf("the example lacks %s", name)
		}
	}
}

// TestExampleOfNodes takes the comment signs from the example of a list of nodes.
func TestExampleOfNodes(t *testing.T) {
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "# nodes = [")
	list, _, ended := strings.Cut(list, "# ]")
	if !found || !ended {
		t.Fatal("the example has no list of nodes")
	}
	list = "node_id = 1\nallow_insecure = true\nraft_address = '10.0.0.1:7101'\n" +
		"admin_address = '10.0.0.1:7201'\n[cluster]\n" +
		"nodes = [" + strings.ReplaceAll(list, "\n#", "\n") + "]\n"
	c, err := Load(write(t, list, 0o600), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ValidateForInit(); err != nil || len(c.Cluster.Nodes) != 3 {
		t.Errorf("%d nodes, %v", len(c.Cluster.Nodes), err)
	}
}
