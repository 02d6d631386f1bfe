package node

import (
	"context"
	"errors"
	"fmt"
)

// ErrSettings: the configuration does not fit what the node was set up with.
var ErrSettings = errors.New("a setting has changed that cannot change")

// Expected has the settings of the cluster that a configuration names. Zero values stand for those
// that it leaves out.
type Expected struct {
	Cluster          string
	Shards, Replicas uint64
	ValueBytes       int
}

// checkSettings fails if the configuration contradicts the node's directory, or has no room for the
// cluster's values. A setting that is ignored would mislead its operator.
func (n *Node) checkSettings() error {
	g, e := &n.state.Genesis, n.config.Expected
	refuse := func(name string, given, has any) error {
		return fmt.Errorf("%w: %s is %v, but this cluster was made with %v", ErrSettings, name, given,
			has)
	}
	switch {
	case e.Cluster != "" && e.Cluster != g.Cluster:
		return refuse("cluster.name", e.Cluster, g.Cluster)
	case e.Shards != 0 && e.Shards != g.Shards:
		return refuse("cluster.shards", e.Shards, g.Shards)
	case e.Replicas != 0 && e.Replicas != g.Replicas:
		return refuse("cluster.replicas", e.Replicas, g.Replicas)
	case e.ValueBytes != 0 && e.ValueBytes != g.valueBytes():
		return refuse("cluster.value_bytes", e.ValueBytes, g.valueBytes())
	case g.TickMs != 0 && n.config.TickMs != g.TickMs:
		return refuse("raft.rtt_ms", n.config.TickMs, g.TickMs)
	}
	own, known := n.directory.Load().Nodes[n.state.NodeID]
	if known && own.Epoch == n.state.Epoch && own.RaftAddress != n.config.Info.RaftAddress {
		return fmt.Errorf("%w: raft_address is %s, but the cluster knows this node at %s: an empty "+
			"node can join with another one", ErrSettings, n.config.Info.RaftAddress, own.RaftAddress)
	}
	if n.config.CheckSize != nil {
		return n.config.CheckSize(g.valueBytes())
	}
	return nil
}

// tellAddresses puts changed addresses of this node into the directory: the others call it there.
func (n *Node) tellAddresses() {
	d := n.directory.Load()
	own, known := d.Nodes[n.state.NodeID]
	if !known || own.Epoch != n.state.Epoch || own.NodeInfo == n.config.Info || d.commands() < 2 {
		return
	}
	_, err := n.ask(context.Background(), directoryShard, controlRequest{Op: controlAddress,
		NodeID: n.state.NodeID, Node: n.config.Info, Epoch: n.state.Epoch})
	n.config.Logger.Info("told the cluster this node's new addresses", "client",
		n.config.Info.ClientAddress, "admin", n.config.Info.AdminAddress, "error", err)
}
