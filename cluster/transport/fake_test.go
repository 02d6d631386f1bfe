package transport

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"

	settings "engine_race/cluster/config"
	"engine_race/cluster/config/testtls"
	"engine_race/cluster/testkit"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// fakePeers is a directory that tests fill.
type fakePeers struct {
	mu        sync.Mutex
	addresses map[uint64]string
	owners    map[[2]uint64]uint64
}

func newPeers() *fakePeers {
	return &fakePeers{addresses: map[uint64]string{}, owners: map[[2]uint64]uint64{}}
}

func (p *fakePeers) add(node uint64, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses[node] = address
}

func (p *fakePeers) own(node, shard, replica uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owners[[2]uint64{shard, replica}] = node
}

func (p *fakePeers) RaftAddress(node uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses[node]
}

func (p *fakePeers) NodeAt(address string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, known := range p.addresses {
		if known == address {
			return node
		}
	}
	return 0
}

func (p *fakePeers) OwnerOf(shard, replica uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owners[[2]uint64{shard, replica}]
}

// testNode is a transport with what it has received.
type testNode struct {
	*Transport
	options Options
	address string
	batches chan raftpb.MessageBatch
	chunks  chan raftpb.Chunk
	onChunk func(raftpb.Chunk) bool
}

// newNode makes a node that is in the directory, but does not listen.
func newNode(t *testing.T, peers *fakePeers, number uint64, host string) *testNode {
	t.Helper()
	n := &testNode{options: Options{Node: number, Peers: peers},
		address: testkit.FreeAddresses(t, host, 1)[0],
		batches: make(chan raftpb.MessageBatch, 16), chunks: make(chan raftpb.Chunk, 16)}
	peers.add(number, n.address)
	return n
}

func (n *testNode) start(t *testing.T) *testNode {
	t.Helper()
	host := config.NodeHostConfig{RaftAddress: n.address, DeploymentID: 7}
	n.Transport = NewFactory(n.options).Create(host,
		func(batch raftpb.MessageBatch) { n.batches <- batch },
		func(chunk raftpb.Chunk) bool {
			if n.onChunk != nil && !n.onChunk(chunk) {
				return false
			}
			n.chunks <- chunk
			return true
		}).(*Transport)
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// pair gives two nodes that run, numbers 1 and 2.
func pair(t *testing.T, host string) (*testNode, *testNode) {
	t.Helper()
	peers := newPeers()
	return newNode(t, peers, 1, host).start(t), newNode(t, peers, 2, host).start(t)
}

// secure gives the node a certificate for the host.
func (n *testNode) secure(t *testing.T, authority *testtls.Authority, name, host string) {
	t.Helper()
	issued, err := authority.Issue(name, host)
	if err != nil {
		t.Fatal(err)
	}
	c := settings.Config{TLS: settings.TLS{PeerCA: authority.CAPath, PeerCert: issued.CertPath,
		PeerKey: issued.KeyPath}}
	if n.options.Server, n.options.Client, err = c.PeerTLS(); err != nil {
		t.Fatal(err)
	}
}

func newAuthority(t *testing.T) *testtls.Authority {
	t.Helper()
	authority, err := testtls.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// batchOf gives a batch of one heartbeat, whose log index tells it from others.
func (n *testNode) batchOf(index uint64) raftpb.MessageBatch {
	return raftpb.MessageBatch{DeploymentId: 7, SourceAddress: n.address, Requests: []raftpb.Message{{
		Type: raftpb.Heartbeat, ShardID: 2, From: 1, To: 2, LogIndex: index}}}
}

func (n *testNode) link(t *testing.T, to *testNode) *link {
	t.Helper()
	connection, err := n.GetConnection(context.Background(), to.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	return connection.(*link)
}

func (n *testNode) send(t *testing.T, l *link, index uint64) {
	t.Helper()
	if err := l.SendMessageBatch(n.batchOf(index)); err != nil {
		t.Fatal(err)
	}
}

// expect waits for a batch.
func (n *testNode) expect(t *testing.T, index uint64) {
	t.Helper()
	select {
	case batch := <-n.batches:
		if got := batch.Requests[0].LogIndex; got != index {
			t.Fatalf("batch %d came, not %d", got, index)
		}
	case <-time.After(patience):
		t.Fatalf("batch %d did not come", index)
	}
}

// incomingFrom counts the connections that a peer has to this node.
func (n *testNode) incomingFrom(node uint64) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.known[node])
}

// dialRaw opens a connection that has not greeted.
func dialRaw(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ends waits until the other side has closed the connection.
func ends(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	buffer := make([]byte, 4096)
	for {
		if _, err := conn.Read(buffer); err != nil {
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				t.Fatal("the connection was not closed")
			}
			return
		}
	}
}
