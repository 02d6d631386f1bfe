package transport

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// A snapshot's chunks go out one after the other, and each is confirmed when the receiver has taken
// it. A broken connection is dialled again, and the stream goes on with the chunk that was not
// confirmed: the receiver keeps its place. A stream ends for good with either process, because
// dragonboat keeps its part of the snapshot in the process alone.
const (
	resumeTime  = 30 * time.Second // without a connection, until a stream is given up
	confirmTime = time.Minute      // until a chunk is confirmed: the receiver may sync its disk
	maxStreams  = 256              // incoming ones that are kept
	// Snapshots that are sent to one peer at a time; others wait. They leave room for messages in
	// PeerConnections. And each gets its turn before dragonboat, which counts 900 ticks, gives one up
	// at the receiver.
	maxSending = 8
	// Until a snapshot is offered again for which the receiver has no room. After resumeTime the
	// stream is given up: it keeps its replica from being closed.
	refusedPause = 5 * time.Second
)

// streamID names a stream. The sender draws the number at random.
type streamID struct{ node, number uint64 }

// The answers to a chunk.
const (
	chunkTaken byte = iota
	chunkRejected
	chunkUnknown // the receiver knows nothing of the stream
	chunkLater   // the first one is to be sent again: the receiver has no room for a snapshot
)

var (
	errStream = errors.New("the receiver ended the stream of a snapshot")
	errNoRoom = errors.New("the receiver has no room for a snapshot")
)

// stream sends one snapshot. It is for one goroutine.
type stream struct {
	transport *Transport
	ctx       context.Context
	target    string
	leave     func() // gives the place at the target back
	number    uint64
	place     uint64 // of the next chunk
	conn      net.Conn
	out       *writer
	in        *reader
}

// GetSnapshotConnection connects with a node for one snapshot.
func (t *Transport) GetSnapshotConnection(ctx context.Context,
	target string) (raftio.ISnapshotConnection, error) {
	var number [8]byte
	if _, err := rand.Read(number[:]); err != nil {
		return nil, err
	}
	places := t.placesAt(target)
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := &stream{transport: t, ctx: ctx, target: target,
		leave: sync.OnceFunc(func() { <-places }), number: binary.BigEndian.Uint64(number[:])}
	if err := s.connect(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// placesAt gives a channel with room for the snapshots to one peer.
func (t *Transport) placesAt(target string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	places := t.sending[target]
	if places == nil {
		places = make(chan struct{}, maxSending)
		t.sending[target] = places
	}
	return places
}

func (s *stream) connect() error {
	conn, err := s.transport.dial(s.ctx, s.target, forSnapshot)
	if err != nil {
		return err
	}
	s.conn, s.out, s.in = conn, &writer{conn: conn}, &reader{conn: conn, ahead: readAhead}
	return nil
}

func (s *stream) disconnect() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// Close ends the stream. Every chunk that SendChunk has sent was confirmed.
func (s *stream) Close() {
	s.disconnect()
	s.leave()
}

// SendChunk sends a chunk, as fast as the limit of all snapshots permits, and waits until the
// receiver has taken it. It survives broken connections. And it waits while the receiver has no
// room: after an early end dragonboat drops all messages to the target for a while.
func (s *stream) SendChunk(chunk raftpb.Chunk) error {
	size := min(chunk.Size(), int(frameLimits[chunkFrame]))
	if err := s.transport.pace.WaitN(s.ctx, size); err != nil {
		return err
	}
	pause := time.Duration(0)
	for limit := time.Now().Add(resumeTime); ; {
		var err error
		if s.conn == nil {
			err = s.connect()
		}
		if err == nil {
			if err = s.exchange(&chunk); err == nil {
				s.place++
				return nil
			}
		}
		if pause = pauseAfter(pause, 0); errors.Is(err, errNoRoom) {
			pause = s.transport.options.refusedPause
		} else {
			s.disconnect()
		}
		if errors.Is(err, errStream) || s.ctx.Err() != nil || time.Now().Add(pause).After(limit) {
			return err
		}
		s.transport.options.Logger.Info("a chunk of a snapshot is sent again", "address", s.target,
			"chunk", s.place, "error", err)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
}

// exchange sends the chunk and waits for the answer.
func (s *stream) exchange(chunk *raftpb.Chunk) error {
	stop := context.AfterFunc(s.ctx, func() { _ = s.conn.Close() })
	defer stop()
	place := binary.BigEndian.AppendUint64(nil, s.number)
	place = binary.BigEndian.AppendUint64(place, s.place)
	if err := s.out.write(chunkFrame, place, chunk, chunk.Size()); err != nil {
		return err
	}
	answer, err := s.in.next(time.Now().Add(confirmTime), ackFrame)
	switch {
	case err != nil:
		return err
	case len(answer) != 1:
		return errFrame
	case answer[0] == chunkLater:
		return errNoRoom
	case answer[0] == chunkRejected:
		return fmt.Errorf("%w: chunk %d was rejected", errStream, s.place)
	case answer[0] != chunkTaken:
		return fmt.Errorf("%w: it lacks what came before chunk %d", errStream, s.place)
	}
	return nil
}

// incoming is the receiver's place in a stream.
type incoming struct {
	mu   sync.Mutex // held while a chunk is taken
	next uint64     // chunk
	last byte       // the answer to the chunk before
	used time.Time  // guarded by incomingStreams.mu
}

// incomingStreams keeps the places of streams over their connections.
type incomingStreams struct {
	handle  raftio.ChunkHandler
	admit   func(chunk raftpb.Chunk) error
	refused func(chunk raftpb.Chunk)

	mu     sync.Mutex
	active map[streamID]*incoming
}

// find gives a stream. A first chunk makes it; nil means that there is none.
func (i *incomingStreams) find(id streamID, place uint64) *incoming {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	in := i.active[id]
	if in == nil {
		if place != 0 {
			return nil
		}
		if len(i.active) >= maxStreams {
			delete(i.active, i.oldest())
		}
		in = &incoming{}
		i.active[id] = in
	}
	in.used = now
	return in
}

// oldest gives the stream that was used before all others: most likely it has ended.
func (i *incomingStreams) oldest() (oldest streamID) {
	for id, in := range i.active {
		if first := i.active[oldest]; first == nil || in.used.Before(first.used) {
			oldest = id
		}
	}
	return oldest
}

// take hands a chunk to dragonboat, unless it came before, and gives the answer.
func (i *incomingStreams) take(id streamID, place uint64, chunk raftpb.Chunk) byte {
	in := i.find(id, place)
	if in == nil {
		return chunkUnknown
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case place+1 == in.next: // The answer was lost.
		return in.last
	case place != in.next:
		return chunkUnknown
	}
	refused := i.admit(chunk) != nil
	if refused && place == 0 {
		return chunkLater
	}
	in.next++
	in.last = chunkTaken
	if refused {
		in.last = chunkRejected
	} else if !i.handle(chunk) {
		i.refused(chunk)
		in.last = chunkRejected
	}
	return in.last
}

// receiveChunks serves a stream's connection.
func (t *Transport) receiveChunks(conn net.Conn, peer *greeting) error {
	in, out := reader{conn: conn, ahead: readAhead}, writer{conn: conn}
	for {
		payload, err := in.next(time.Time{}, chunkFrame)
		if err != nil {
			return err
		}
		if len(payload) < 16 {
			return errFrame
		}
		id := streamID{node: peer.From, number: binary.BigEndian.Uint64(payload)}
		place := binary.BigEndian.Uint64(payload[8:])
		var chunk raftpb.Chunk
		if err := chunk.Unmarshal(payload[16:]); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		if owner := t.options.Peers.OwnerOf(chunk.ShardID, chunk.From); owner != 0 &&
			owner != peer.From {
			return fmt.Errorf("%w: a snapshot of node %d", errFrame, owner)
		}
		answer := t.streams.take(id, place, chunk)
		if err := out.write(ackFrame, []byte{answer}, nil, 0); err != nil {
			return err
		}
	}
}
