package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"engine_race/cluster/service"
)

// joined is the answer to a node that joins.
type joined struct {
	Epoch     uint64     `json:"epoch"`
	Genesis   Genesis    `json:"genesis"`
	Directory *Directory `json:"directory"`
}

// serveJoin takes a node into the directory.
func (n *Node) serveJoin(c call) ([]byte, error) {
	if n.shard(directoryShard) == nil {
		return n.elsewhere(c.ctx, directoryShard, pathJoin, "", c.body, false)
	}
	var info service.NodeInfo
	if err := json.Unmarshal(c.body, &info); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	epoch, err := n.changeDirectory(c.ctx, change{Op: opJoin, Node: info})
	if err != nil {
		return nil, err
	}
	return json.Marshal(joined{epoch, n.state.Genesis, n.machine.current.Load()})
}

// Join registers a node at a peer's admin address, and prepares its directory. The cluster then
// knows the node; it has no replicas yet.
func Join(ctx context.Context, c Config, peer string) error {
	// A second join would make the replicas lost that the node has.
	path := filepath.Join(c.Directory, stateName)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: this node was set up before", path)
	}
	n := &Node{config: c}
	body, err := json.Marshal(c.Info)
	if err != nil {
		return err
	}
	answer, err := n.post(ctx, peer, pathJoin, "", body)
	if err != nil {
		return err
	}
	var j joined
	if err := json.Unmarshal(answer, &j); err != nil {
		return fmt.Errorf("an answer of %s: %w", peer, err)
	}
	if err := Prepare(c.Directory, c.Info.ID, j.Epoch, j.Genesis); err != nil {
		return err
	}
	return n.saveDirectory(j.Directory)
}
