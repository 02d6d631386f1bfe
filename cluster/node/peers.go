package node

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"engine_race/cluster/secret"
	"engine_race/cluster/transport"
)

const (
	// How many connections to one other node are kept for later calls.
	maxIdleCalls = 64
	// A command is sent only when its receiver has asked for it: this time is longer than any call.
	offerTime = 24 * time.Hour
)

// NewClient makes the HTTP client for calls to other nodes. `secure` gives the TLS configuration of
// a connection; nil: plain HTTP. The client shows the secret of the cluster, unless it is empty. It
// notices in a second that a node has vanished without a word.
func NewClient(secure func() *tls.Config, shown string) *http.Client {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		return transport.Dial(ctx, address, secure)
	}
	return &http.Client{Transport: secret.Transport(&http.Transport{
		DialContext: dial, DialTLSContext: dial,
		MaxIdleConnsPerHost: maxIdleCalls, IdleConnTimeout: 90 * time.Second,
		ExpectContinueTimeout: offerTime,
	}, shown)}
}

// peers tells the transport who the other nodes are, as the directory says.
type peers Node

// RaftAddress gives a node's address, or "".
func (p *peers) RaftAddress(node uint64) string {
	return p.directory.Load().Nodes[node].RaftAddress
}

// NodeAt gives the node with a Raft address, or 0.
func (p *peers) NodeAt(raftAddress string) uint64 {
	for id, entry := range p.directory.Load().Nodes {
		if entry.RaftAddress == raftAddress {
			return id
		}
	}
	return 0
}

// OwnerOf gives the node of a replica, or 0.
func (p *peers) OwnerOf(shard, replica uint64) uint64 {
	for _, placement := range p.directory.Load().Shards[shard].Replicas {
		if placement.ReplicaID == replica {
			return placement.NodeID
		}
	}
	return 0
}

// transportFactory makes what carries Raft's messages.
func (n *Node) transportFactory() *transport.Factory {
	return transport.NewFactory(transport.Options{Node: n.state.NodeID, Peers: (*peers)(n),
		Server: n.config.PeerServer, Client: n.config.PeerClient, Secret: n.config.Secret,
		SnapshotBytesPerSecond: n.config.CatchUpBytesPerS, Admit: n.admitPiece,
		Refused: n.snapshotRefused,
		Logger:  n.config.Logger.With("part", "transport")})
}
