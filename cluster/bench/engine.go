package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"engine_race/cluster/files"
	"engine_race/cluster/secret"
	"engine_race/cluster/service"
)

const (
	statusTimeout = 2 * time.Second
	// The bench and the nodes show it to each other.
	benchSecret = "secret-of-a-bench"
)

// config is the path of a node's configuration.
func (o *opponent) config(node int) string {
	return filepath.Join(o.directory, fmt.Sprintf("node%d.toml", node))
}

// initialise writes the configuration of a node of engine-raced and prepares its directory.
func (o *opponent) initialise(node int, directory, path string) error {
	raft, clients, admin := o.ports(0), o.ports(1), o.ports(2)
	var text, table strings.Builder
	for i := range o.options.Nodes {
		fmt.Fprintf(&table, "  {id = %d, raft = %q, client = %q, admin = %q},\n",
			i+1, raft[i], clients[i], admin[i])
	}
	fmt.Fprintf(&text, "node_id = %d\ndata_dir = %q\n", node, directory)
	secretPath := filepath.Join(o.directory, "secret")
	if err := files.WriteWhole(secretPath, []byte(benchSecret)); err != nil {
		return err
	}
	fmt.Fprintf(&text, "secret_file = %q\n", secretPath)
	fmt.Fprintf(&text, "raft_address = %q\nclient_address = %q\nadmin_address = %q\n",
		raft[node-1], clients[node-1], admin[node-1])
	fmt.Fprintf(&text, "[cluster]\nname = \"bench\"\nshards = %d\nreplicas = %d\n"+
		"value_bytes = %d\nnodes = [\n%s]\n", o.options.Shards, o.options.Nodes,
		o.options.ValueBytes, table.String())
	fmt.Fprintf(&text, "[raft]\nrtt_ms = 20\nelection_rtt = 10\n[log]\nlevel = \"error\"\n")
	fmt.Fprintf(&text, "[limits]\nmemory_bytes = %d\n", o.options.storeBytes())
	if o.name == Flood {
		text.WriteString(floodSettings())
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return err
	}
	program := o.options.program("engine-raced")
	if said, err := exec.Command(program, "init", "--config", path).CombinedOutput(); err != nil {
		return fmt.Errorf("engine-raced init: %w: %s", err, said)
	}
	return nil
}

// engineLeaders gives the client addresses of the nodes that lead shards with keys. Every node must
// be ready.
func (o *opponent) engineLeaders() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	for _, address := range o.ports(2) {
		if err := get(ctx, "http://"+address+"/readyz", nil); err != nil {
			return nil, err
		}
	}
	var status service.Status
	if err := get(ctx, "http://"+o.ports(2)[0]+"/status", &status); err != nil {
		return nil, err
	}
	var leaders []string
	shards := 0
	for _, shard := range status.Shards {
		if shard.Upper == 0 {
			continue // The directory of the shards is one, too.
		}
		shards++
		for _, node := range status.Nodes {
			if node.ID == shard.LeaderID {
				leaders = append(leaders, node.ClientAddress)
			}
		}
	}
	if shards == 0 || len(leaders) != shards {
		return nil, errors.New("a shard has no leader")
	}
	return leaders, nil
}

// get fetches a page, and decodes its JSON unless `into` is nil.
func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	secret.Show(request.Header, benchSecret)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
