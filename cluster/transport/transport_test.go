package transport

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"engine_race/cluster/gate"
	"engine_race/cluster/testkit"
)

func TestMessagesArrive(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			one, two := pair(t, host)
			l := one.link(t, two)
			for index := range uint64(3) {
				one.send(t, l, index)
				two.expect(t, index)
			}
		})
	}
}

func TestMessagesArriveByTLS(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			peers, authority := newPeers(), newAuthority(t)
			one, two := newNode(t, peers, 1, host), newNode(t, peers, 2, host)
			one.secure(t, authority, "one", host)
			two.secure(t, authority, "two", host)
			one.start(t)
			two.start(t)
			one.send(t, one.link(t, two), 1)
			two.expect(t, 1)
		})
	}
}

func TestALargeBatchArrivesWhole(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	l := one.link(t, two)
	batch := one.batchOf(1)
	batch.Requests[0].Entries = []raftpb.Entry{{Cmd: make([]byte, 3*pieceBytes+1)}}
	for i := range batch.Requests[0].Entries[0].Cmd {
		batch.Requests[0].Entries[0].Cmd[i] = byte(i * 7)
	}
	if err := l.SendMessageBatch(batch); err != nil {
		t.Fatal(err)
	}
	got := <-two.batches
	if string(got.Requests[0].Entries[0].Cmd) != string(batch.Requests[0].Entries[0].Cmd) {
		t.Fatal("the entry differs")
	}
}

// TestSilentConnectionsDoNotKeepAPeerOut has more of them than the gate holds.
func TestSilentConnectionsDoNotKeepAPeerOut(t *testing.T) {
	for _, name := range []string{"plain", "TLS"} {
		t.Run(name, func(t *testing.T) {
			peers := newPeers()
			one, two := newNode(t, peers, 1, "127.0.0.1"), newNode(t, peers, 2, "127.0.0.1")
			if name == "TLS" {
				authority := newAuthority(t)
				one.secure(t, authority, "one", "127.0.0.1")
				two.secure(t, authority, "two", "127.0.0.1")
			}
			two.options.handshakeTimeout = time.Hour // The time-out helps nobody here.
			one.start(t)
			two.start(t)
			oldest := dialRaw(t, two.address)
			testkit.Eventually(t, "a silent connection is counted",
				func() bool { return two.gate.Count() == 1 })
			for range gate.PerSource + 36 {
				dialRaw(t, two.address)
			}
			ends(t, oldest)
			one.send(t, one.link(t, two), 1)
			two.expect(t, 1)
			if count := two.gate.Count(); count > gate.PerSource {
				t.Errorf("%d strangers", count)
			}
		})
	}
}

// failingListener fails some times before it accepts.
type failingListener struct {
	net.Listener
	failures int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestFailedAcceptsAreRepeated(t *testing.T) {
	peers := newPeers()
	one, two := newNode(t, peers, 1, "127.0.0.1").start(t), newNode(t, peers, 2, "127.0.0.1")
	two.options.listen = func(address string) (net.Listener, error) {
		listener, err := net.Listen("tcp", address)
		return &failingListener{Listener: listener, failures: 3}, err
	}
	two.start(t)
	one.send(t, one.link(t, two), 1)
	two.expect(t, 1)
}

// TestARestartedPeerIsDialledWithoutAMessage fails if an old connection is found dead only by a
// message, which an election cannot wait for.
func TestARestartedPeerIsDialledWithoutAMessage(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	l := one.link(t, two)
	one.send(t, l, 1)
	two.expect(t, 1)
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	two.start(t)
	// The link may still hold its old connection: the new one is there when the peer counts it.
	testkit.Eventually(t, "a node dials the restarted one",
		func() bool { return two.incomingFrom(1) == 1 && l.await() != nil })
	one.send(t, l, 2)
	two.expect(t, 2)
}

// TestMessagesToADeadPeerAreDropped fails if they return an error: dragonboat would then leave the
// peer alone for half a second or longer.
func TestMessagesToADeadPeerAreDropped(t *testing.T) {
	peers := newPeers()
	one, two := newNode(t, peers, 1, "127.0.0.1").start(t), newNode(t, peers, 2, "127.0.0.1")
	l := one.link(t, two)
	one.send(t, l, 1)
	two.start(t)
	// The link drops messages until it has its connection, which the peer may see first.
	testkit.Eventually(t, "a node dials", func() bool { return l.await() != nil })
	one.send(t, l, 2)
	two.expect(t, 2)
}

func TestLongFramesAreRefusedBeforeMemoryIsTaken(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	_ = one
	greetRaw := func() net.Conn {
		conn := dialRaw(t, two.address)
		if err := one.introduce(context.Background(), conn, 2, forMessages); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		// 4 GiB, which no kind permits.
		conn := greetRaw()
		_, _ = conn.Write([]byte{byte(messageFrame), 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0})
		ends(t, conn)
		// The most that a batch may have, of which nothing comes.
		conn = greetRaw()
		limit := frameLimits[messageFrame]
		_, _ = conn.Write([]byte{byte(messageFrame), 0, 0, 0, byte(limit >> 24), byte(limit >> 16),
			byte(limit >> 8), byte(limit), 0, 0, 0, 0})
		_ = conn.(*net.TCPConn).CloseWrite()
		ends(t, conn)
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 40<<20 {
		t.Fatalf("%d bytes were taken", taken)
	}
}

func TestDamagedFramesEndTheConnection(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	conn := dialRaw(t, two.address)
	if err := one.introduce(context.Background(), conn, 2, forMessages); err != nil {
		t.Fatal(err)
	}
	recorded := &recorder{Conn: conn}
	batch := one.batchOf(1)
	err := (&writer{conn: recorded}).write(messageFrame, nil, &batch, batch.SizeUpperLimit())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(recorded.written); err != nil {
		t.Fatal(err)
	}
	two.expect(t, 1)
	recorded.written[len(recorded.written)-1] ^= 1
	if _, err := conn.Write(recorded.written); err != nil {
		t.Fatal(err)
	}
	ends(t, conn)
	if len(two.batches) != 0 {
		t.Fatal("a damaged batch was delivered")
	}
}

// recorder keeps what is written.
type recorder struct {
	net.Conn
	written []byte
}

func (r *recorder) Write(bytes []byte) (int, error) {
	r.written = append(r.written, bytes...)
	return len(bytes), nil
}

// TestBatchesThatWouldEndTheProcess has what makes dragonboat panic.
func TestBatchesThatWouldEndTheProcess(t *testing.T) {
	for name, change := range map[string]func(*raftpb.MessageBatch){
		"a message of dragonboat itself": func(b *raftpb.MessageBatch) {
			b.Requests[0].Type = raftpb.Election
		},
		"a snapshot's message": func(b *raftpb.MessageBatch) {
			b.Requests[0].Type = raftpb.InstallSnapshot
		},
		"a message to nobody":        func(b *raftpb.MessageBatch) { b.Requests[0].To = 0 },
		"an address of another node": func(b *raftpb.MessageBatch) { b.SourceAddress = "127.0.0.1:1" },
		"a replica of another node":  func(b *raftpb.MessageBatch) { b.Requests[0].From = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			one, two := pair(t, "127.0.0.1")
			two.options.Peers.(*fakePeers).own(3, 2, 9)
			conn := dialRaw(t, two.address)
			if err := one.introduce(context.Background(), conn, 2, forMessages); err != nil {
				t.Fatal(err)
			}
			batch := one.batchOf(1)
			change(&batch)
			err := (&writer{conn: conn}).write(messageFrame, nil, &batch, batch.SizeUpperLimit())
			if err != nil {
				t.Fatal(err)
			}
			ends(t, conn)
			if len(two.batches) != 0 {
				t.Fatal("the batch was delivered")
			}
		})
	}
}

func TestPeersAreWhoTheySay(t *testing.T) {
	dial := func(from, to *testNode) error {
		conn, err := from.dial(context.Background(), to.address, forMessages)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	setUp := func(t *testing.T) (*fakePeers, *testNode, *testNode) {
		peers := newPeers()
		return peers, newNode(t, peers, 1, "127.0.0.1"), newNode(t, peers, 2, "127.0.0.1")
	}
	for name, test := range map[string]struct {
		change  func(t *testing.T, peers *fakePeers, one, two *testNode)
		refusal string
	}{
		"all is well": {func(*testing.T, *fakePeers, *testNode, *testNode) {}, ""},
		"another node listens there": {func(_ *testing.T, peers *fakePeers, _, two *testNode) {
			two.options.Node = 3
		}, "this is node 3"},
		"the number is of another node": {func(_ *testing.T, peers *fakePeers, one, _ *testNode) {
			one.options.Node = 4
			peers.add(4, "127.0.0.1:1")
		}, "node 4 is at 127.0.0.1:1"},
		"a node that is not known yet": {func(_ *testing.T, _ *fakePeers, one, _ *testNode) {
			one.options.Node = 5
		}, ""},
		"another secret": {func(_ *testing.T, _ *fakePeers, one, two *testNode) {
			one.options.Secret, two.options.Secret = "that of one", "that of two"
		}, "secret"},
		"one secret": {func(_ *testing.T, _ *fakePeers, one, two *testNode) {
			one.options.Secret, two.options.Secret = "that of both", "that of both"
		}, ""},
		"certificates of the hosts": {func(t *testing.T, _ *fakePeers, one, two *testNode) {
			authority := newAuthority(t)
			one.secure(t, authority, "one", "127.0.0.1")
			two.secure(t, authority, "two", "127.0.0.1")
		}, ""},
		"the dialling side has a certificate of another host": {func(t *testing.T, _ *fakePeers, one,
			two *testNode) {
			authority := newAuthority(t)
			one.secure(t, authority, "one", "127.0.0.9")
			two.secure(t, authority, "two", "127.0.0.1")
		}, "the certificate is not that of node 1"},
		"the other side has a certificate of another host": {func(t *testing.T, _ *fakePeers, one,
			two *testNode) {
			authority := newAuthority(t)
			one.secure(t, authority, "one", "127.0.0.1")
			two.secure(t, authority, "two", "127.0.0.9")
		}, "certificate is valid for 127.0.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			peers, one, two := setUp(t)
			test.change(t, peers, one, two)
			one.start(t)
			two.start(t)
			err := dial(one, two)
			if test.refusal == "" && err != nil ||
				test.refusal != "" && (err == nil || !strings.Contains(err.Error(), test.refusal)) {
				t.Fatalf("%v, not %q", err, test.refusal)
			}
		})
	}
}

func TestAnotherClusterIsRefused(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	one.deployment++
	_, err := one.dial(context.Background(), two.address, forMessages)
	if err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Fatal(err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	peers, authority := newPeers(), newAuthority(t)
	one, two := newNode(t, peers, 1, "127.0.0.1"), newNode(t, peers, 2, "127.0.0.1")
	one.secure(t, authority, "one", "127.0.0.1")
	two.secure(t, authority, "two", "127.0.0.1")
	two.start(t)
	old := func() *tls.Config {
		c := one.options.Client()
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		return c
	}
	if conn, err := Dial(context.Background(), two.address, old); err == nil {
		_ = conn.Close()
		t.Fatal("TLS 1.2 was accepted")
	}
}

func TestAPeerHasSoManyConnections(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	dial := func() net.Conn {
		conn, err := one.dial(context.Background(), two.address, forMessages)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	oldest := dial()
	testkit.Eventually(t, "the connection is counted",
		func() bool { return two.incomingFrom(1) == 1 })
	for range PeerConnections {
		dial()
	}
	ends(t, oldest)
	if count := two.incomingFrom(1); count > PeerConnections {
		t.Fatalf("%d connections", count)
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	dialRaw(t, two.address)
	one.send(t, one.link(t, two), 1)
	two.expect(t, 1)
	closed := make(chan error, 1)
	go func() { closed <- two.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("Close does not end")
	}
}

func TestValidAddress(t *testing.T) {
	for address, valid := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:7101": true, "node-1.example:7101": true, "[2001:db8::1]:65535": true,
		"::1:7101": false, "[::1]": false, ":7101": false, "host:0": false, "host:65536": false,
		"[fe80::1%eth0]:1": false, "[abc]:1": true, "[a:b]:1": false, "a b:1": false, "": false,
	} {
		if ValidAddress(address) != valid {
			t.Errorf("%q: valid is %v", address, !valid)
		}
	}
}
