package transport

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

func chunkOf(number uint64) raftpb.Chunk {
	return raftpb.Chunk{ShardID: 2, ReplicaID: 2, From: 1, ChunkId: number, Data: []byte{byte(number)}}
}

func (n *testNode) stream(t *testing.T, to *testNode) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	connection, err := n.GetSnapshotConnection(ctx, to.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	return connection.(*stream)
}

// expectChunks fails unless exactly the chunks 0 to count-1 have come.
func (n *testNode) expectChunks(t *testing.T, count int) {
	t.Helper()
	if len(n.chunks) != count {
		t.Fatalf("%d chunks came, not %d", len(n.chunks), count)
	}
	for number := range count {
		if chunk := <-n.chunks; chunk.ChunkId != uint64(number) || chunk.Data[0] != byte(number) {
			t.Fatalf("chunk %d came, not %d", chunk.ChunkId, number)
		}
	}
}

func TestASnapshotArrives(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	s := one.stream(t, two)
	for number := range uint64(3) {
		if err := s.SendChunk(chunkOf(number)); err != nil {
			t.Fatal(err)
		}
	}
	two.expectChunks(t, 3)
}

// TestASnapshotOutlivesItsConnection breaks connections before a chunk, and after it was taken but
// not yet confirmed. No chunk may be lost, and none may come twice.
func TestASnapshotOutlivesItsConnection(t *testing.T) {
	peers := newPeers()
	one, two := newNode(t, peers, 1, "127.0.0.1").start(t), newNode(t, peers, 2, "127.0.0.1")
	two.onChunk = func(chunk raftpb.Chunk) bool {
		if chunk.ChunkId == 1 {
			two.mu.Lock()
			defer two.mu.Unlock()
			for _, conn := range two.known[1] {
				_ = conn.Close()
			}
		}
		return true
	}
	two.start(t)
	s := one.stream(t, two)
	for number := range uint64(4) {
		if number == 3 {
			_ = s.conn.Close()
		}
		if err := s.SendChunk(chunkOf(number)); err != nil {
			t.Fatal(err)
		}
	}
	two.expectChunks(t, 4)
}

func TestARejectedSnapshotEnds(t *testing.T) {
	peers := newPeers()
	one, two := newNode(t, peers, 1, "127.0.0.1").start(t), newNode(t, peers, 2, "127.0.0.1")
	two.onChunk = func(chunk raftpb.Chunk) bool { return chunk.ChunkId == 0 }
	refused := make(chan uint64, 2)
	two.options.Refused = func(chunk raftpb.Chunk) { refused <- chunk.ChunkId }
	two.start(t)
	s := one.stream(t, two)
	if err := s.SendChunk(chunkOf(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.SendChunk(chunkOf(1)); !errors.Is(err, errStream) {
		t.Fatalf("the second chunk: %v", err)
	}
	if len(refused) != 1 || <-refused != 1 {
		t.Error("the refusal of the second chunk is not told")
	}
}

// TestARestartedReceiverEndsTheStream: dragonboat has lost what came before.
func TestARestartedReceiverEndsTheStream(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	s := one.stream(t, two)
	if err := s.SendChunk(chunkOf(0)); err != nil {
		t.Fatal(err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	two.start(t)
	if err := s.SendChunk(chunkOf(1)); !errors.Is(err, errStream) {
		t.Fatalf("the second chunk: %v", err)
	}
}

// TestSnapshotsKeepToTheirRate has a rate at which the second chunk would take hours.
func TestSnapshotsKeepToTheirRate(t *testing.T) {
	peers := newPeers()
	one, two := newNode(t, peers, 1, "127.0.0.1"), newNode(t, peers, 2, "127.0.0.1").start(t)
	one.options.SnapshotBytesPerSecond = 100
	one.start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	connection, err := one.GetSnapshotConnection(ctx, two.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	chunk := chunkOf(0)
	chunk.Data = make([]byte, 2<<20)
	if err := connection.SendChunk(chunk); err != nil {
		t.Fatal(err)
	}
	// The burst of a chunk and a half is over. The limiter knows that the hour is too short.
	if err := connection.SendChunk(chunk); err == nil || !strings.Contains(err.Error(), "rate") {
		t.Fatalf("the second chunk: %v", err)
	}
	if len(two.chunks) != 1 {
		t.Fatalf("%d chunks came", len(two.chunks))
	}
}

func TestAReceiverMayRefuseASnapshot(t *testing.T) {
	peers := newPeers()
	one, two := newNode(t, peers, 1, "127.0.0.1").start(t), newNode(t, peers, 2, "127.0.0.1")
	two.options.Admit = func(chunk raftpb.Chunk) error {
		if chunk.ChunkId == 1 {
			return errors.New("the disk is full")
		}
		return nil
	}
	two.start(t)
	s := one.stream(t, two)
	if err := s.SendChunk(chunkOf(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.SendChunk(chunkOf(1)); !errors.Is(err, errStream) {
		t.Errorf("a refused chunk: %v", err)
	}
	two.expectChunks(t, 1)
}

// TestASnapshotWaitsForRoom: after a stream that ends early, dragonboat drops all messages to the
// peer for a while. It begins a refused one again and again.
func TestASnapshotWaitsForRoom(t *testing.T) {
	peers := newPeers()
	one, two := newNode(t, peers, 1, "127.0.0.1"), newNode(t, peers, 2, "127.0.0.1")
	one.options.refusedPause = time.Millisecond
	var asked atomic.Int32
	two.options.Admit = func(raftpb.Chunk) error {
		if asked.Add(1) < 3 {
			return errors.New("the disk is full")
		}
		return nil
	}
	one.start(t)
	two.start(t)
	s := one.stream(t, two)
	for number := range uint64(2) {
		if err := s.SendChunk(chunkOf(number)); err != nil {
			t.Fatal(err)
		}
	}
	two.expectChunks(t, 2)
	// It does not wait for ever.
	asked.Store(0)
	one.Transport.options.refusedPause = 2 * resumeTime
	if err := one.stream(t, two).SendChunk(chunkOf(0)); !errors.Is(err, errNoRoom) ||
		asked.Load() != 1 {
		t.Errorf("after %d tries: %v", asked.Load(), err)
	}
}

// TestManySnapshotsLeaveRoomForMessages: a node that has lost its disk gets many snapshots. More
// connections than a peer may have would end those of messages.
func TestManySnapshotsLeaveRoomForMessages(t *testing.T) {
	one, two := pair(t, "127.0.0.1")
	waits := make(chan error, 1)
	var first *stream
	for range maxSending {
		if s := one.stream(t, two); first == nil {
			first = s
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	given, give := context.WithCancel(ctx)
	give()
	// A dial that has ended with its context would have another error.
	if _, err := one.GetSnapshotConnection(given, two.address); err != context.Canceled {
		t.Fatalf("one more does not wait: %v", err)
	}
	go func() {
		connection, err := one.GetSnapshotConnection(ctx, two.address)
		if err == nil {
			connection.Close()
		}
		waits <- err
	}()
	// A connection that is lost gives up no place, and one that is closed twice only one.
	first.disconnect()
	if err := first.SendChunk(chunkOf(0)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	first.Close()
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	if len(one.sending[two.address]) != maxSending-1 {
		t.Fatalf("%d places are taken", len(one.sending[two.address]))
	}
}

// TestOldStreamsMakeRoom: streams that failed are kept for a while, and may not keep others out.
func TestOldStreamsMakeRoom(t *testing.T) {
	in := incomingStreams{active: map[streamID]*incoming{},
		admit:  func(raftpb.Chunk) error { return nil },
		handle: func(raftpb.Chunk) bool { return true }}
	for number := range uint64(maxStreams + 1) {
		if answer := in.take(streamID{1, number}, 0, chunkOf(0)); answer != chunkTaken {
			t.Fatalf("stream %d: %d", number, answer)
		}
	}
	if answer := in.take(streamID{1, maxStreams}, 1, chunkOf(1)); answer != chunkTaken {
		t.Fatalf("the last stream: %d", answer)
	}
	if len(in.active) > maxStreams {
		t.Fatalf("%d streams are kept", len(in.active))
	}
}
