package node

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"engine_race/cluster/service"
)

// peer is another node's admin address: it answers each connection with `serve`, and closes it.
func peer(t *testing.T, serve func(conn net.Conn, request *http.Request)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				serve(conn, request)
			}
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// sender is a node that knows the addresses of nodes, from 2 on, and their clocks. Each has a
// replica of a shard.
func sender(addresses ...string) *Node {
	n := &Node{config: Config{Scheme: "http", Client: NewClient(nil, "")}}
	d := &Directory{Nodes: map[uint64]NodeEntry{}, Shards: map[uint64]ShardEntry{}}
	entry := ShardEntry{}
	for i, address := range addresses {
		id := uint64(i + 2)
		d.Nodes[id] = NodeEntry{NodeInfo: service.NodeInfo{AdminAddress: address}}
		entry.Replicas = append(entry.Replicas, Placement{NodeID: id, ReplicaID: id})
		n.noteClock(address, "clock.1")
	}
	d.Shards[firstDataShard] = entry
	n.directory.Store(d)
	return n
}

// readCommand asks for the command and reads it.
func readCommand(conn net.Conn, request *http.Request) []byte {
	if request.Header.Get("Expect") != "" {
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	command, _ := io.ReadAll(request.Body)
	return command
}

// TestTheOutcomeOfAConnectionsEnd: only a write whose receiver has asked for it may be done.
func TestTheOutcomeOfAConnectionsEnd(t *testing.T) {
	early := peer(t, func(net.Conn, *http.Request) {})
	late := peer(t, func(conn net.Conn, request *http.Request) { readCommand(conn, request) })
	n := sender(early, late)
	for address, outcome := range map[string]error{
		early: service.ErrUnavailable, late: service.ErrUnknown} {
		_, err := n.post(soon(t), address, pathWrite, "shard=2", []byte("a command"))
		if !errors.Is(err, outcome) {
			t.Errorf("got %v, not %v", err, outcome)
		}
	}
}

// TestAWriteLeavesANodeThatStops: the node that has led the shard closes a connection on which a
// write is on its way, and another one leads. The client does not learn of it.
func TestAWriteLeavesANodeThatStops(t *testing.T) {
	var s *shard
	unasked := make(chan []byte, 2)
	stopping := peer(t, func(conn net.Conn, request *http.Request) {
		s.noteLeader(3, 6)
		_ = conn.(*net.TCPConn).CloseWrite()
		command, _ := io.ReadAll(request.Body)
		unasked <- command
	})
	commands := make(chan []byte, 2)
	leads := peer(t, func(conn net.Conn, request *http.Request) {
		commands <- readCommand(conn, request)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	s = &shard{node: sender(stopping, leads), shardID: firstDataShard, replicaID: 1,
		replica: anyReplica()}
	s.proposer = &proposer{shard: s, slots: make(chan struct{}, maxProposals),
		stopped: make(chan struct{}), wakeup: make(chan struct{}, 1)}
	go s.proposer.run()
	defer s.proposer.stop()
	s.noteLeader(2, 5)
	w := newWrite([]service.Op{{Key: 1}}, false)
	command := commandOf(nil, []*write{w}, sentHeader(false, false))
	if _, err := s.proposer.do(soon(t), w); err != nil {
		t.Fatal(err)
	}
	if got := len(<-unasked); got != 0 {
		t.Errorf("the node that stops has got %d bytes of the command", got)
	}
	if got := <-commands; !bytes.Equal(got, command) || len(commands) != 0 {
		t.Errorf("the leader has got %x, and %d further commands", got, len(commands))
	}
}

// net/http sends the body of GetBody when a connection of its pool had ended before anything was
// written.
func TestAnOfferIsThatOfASecondConnectionToo(t *testing.T) {
	command := []byte("command")
	request, err := http.NewRequest(http.MethodPost, "http://node/", bytes.NewReader(command))
	if err != nil {
		t.Fatal(err)
	}
	o := makeOffer(request, command)
	body, err := request.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if o.revoke() {
		t.Error("a part of the command was sent, and its offer says that none was")
	}
}
