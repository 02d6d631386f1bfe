package node

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"engine_race/cluster/replica"
)

// Commands have versions. A replica that does not know a command may not skip it, for others apply
// it. So the directory has the version that all nodes with replicas know, and no node proposes a
// newer one. A rolling upgrade needs no care: when the last node knows a newer version, the node
// that leads the directory raises it. After that an older program refuses to start.
const (
	// Between two tries to raise the version, and how long a node may take to tell its own.
	raiseInterval  = 5 * time.Second
	versionTimeout = time.Second
)

// knownCommands is the newest version that this node knows.
func (n *Node) knownCommands() uint64 {
	if n.config.Commands != 0 {
		return n.config.Commands
	}
	return replica.Version
}

// commands is the version in which this node proposes.
func (n *Node) commands() uint64 { return min(n.directory.Load().commands(), n.knownCommands()) }

// commands of a directory that an earlier program has made are of the first version.
func (d *Directory) commands() uint64 { return max(1, d.Commands) }

func errOldProgram(needed, known uint64) error {
	return fmt.Errorf("this cluster uses version %d of its commands, and this program knows version "+
		"%d: install a newer one", needed, known)
}

func (n *Node) serveVersion(call) ([]byte, error) { return json.Marshal(n.knownCommands()) }

// raise raises the version of commands when all nodes with replicas know a newer one. It is for the
// node that leads the directory.
func (n *Node) raise() {
	s := n.shard(directoryShard)
	if s == nil || !s.leads() || n.directory.Load().commands() >= n.knownCommands() ||
		time.Since(n.raisedAt) < raiseInterval {
		return
	}
	n.raisedAt = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), n.inTicks(versionTimeout))
	defer cancel()
	version, err := n.commonVersion(ctx)
	if err == nil && version > n.directory.Load().commands() {
		_, err = n.changeDirectory(ctx, change{Op: opRaise, Commands: version})
		n.config.Logger.Info("all nodes know a newer version of commands", "version", version,
			"error", err)
	}
	if err != nil {
		n.config.Logger.Debug("the version of commands stays", "error", err)
	}
}

// commonVersion asks each node that has a replica. All must answer.
func (n *Node) commonVersion(ctx context.Context) (uint64, error) {
	d := n.directory.Load()
	nodes := map[uint64]bool{}
	for _, entry := range d.Shards {
		for _, p := range entry.Replicas {
			nodes[p.NodeID] = true
		}
	}
	common, failure := n.knownCommands(), error(nil)
	var mu sync.Mutex
	var group sync.WaitGroup
	for id := range nodes {
		group.Go(func() {
			version := n.knownCommands()
			var err error
			if id != n.state.NodeID {
				version, err = n.versionOf(ctx, d.Nodes[id])
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = fmt.Errorf("node %d: %w", id, err)
			}
			common = min(common, version)
		})
	}
	group.Wait()
	return common, failure
}

func (n *Node) versionOf(ctx context.Context, node NodeEntry) (version uint64, err error) {
	answer, err := n.post(ctx, node.AdminAddress, pathVersion, "", nil)
	if err == nil {
		err = json.Unmarshal(answer, &version)
	}
	return version, err
}
