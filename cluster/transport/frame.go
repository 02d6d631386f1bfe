package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// frameKind tells frames apart. A frame is a header and a payload. The header has the kind in a
// byte, three zero bytes, the payload's length, and a checksum of all but itself. Numbers are
// big-endian.
type frameKind uint8

const (
	helloFrame   frameKind = iota + 1 // from the dialling side: who it is
	welcomeFrame                      // the answer
	messageFrame                      // a raftpb.MessageBatch
	chunkFrame                        // a piece of a snapshot
	ackFrame                          // the answer to it
)

const (
	frameHeader = 12 // kind, three zero bytes, length, checksum
	// Pieces in which a payload is written and read. Each has ioTimeout.
	pieceBytes = 256 << 10
	ioTimeout  = 5 * time.Second
	// A buffer that grew beyond this size is not kept.
	keptBytes = 1 << 20
)

// The longest payload of each kind. dragonboat fills batches up to 64 MiB and chunks up to 2 MiB.
var frameLimits = map[frameKind]uint32{
	helloFrame: 4 << 10, welcomeFrame: 4 << 10, messageFrame: 80 << 20, chunkFrame: 3 << 20,
	ackFrame: 4 << 10,
}

var (
	errFrame = errors.New("a malformed frame")
	crcTable = crc32.MakeTable(crc32.Castagnoli)
)

// writer frames payloads. It is for one goroutine at a time.
type writer struct {
	conn   net.Conn
	buffer []byte
}

// marshaler is what raftpb's types are.
type marshaler interface {
	MarshalTo([]byte) (int, error)
}

// write sends a frame of `prefix` and the message, which takes `size` bytes at most.
func (w *writer) write(kind frameKind, prefix []byte, message marshaler, size int) error {
	need := frameHeader + len(prefix) + size
	if cap(w.buffer) < need {
		w.buffer = make([]byte, need)
	}
	frame := w.buffer[:need]
	if need > keptBytes {
		w.buffer = nil
	}
	length := copy(frame[frameHeader:], prefix)
	if message != nil {
		written, err := message.MarshalTo(frame[frameHeader+length:])
		if err != nil {
			return fmt.Errorf("encode a frame: %w", err)
		}
		length += written
	}
	if limit := frameLimits[kind]; uint64(length) > uint64(limit) {
		return fmt.Errorf("%w: %d bytes of payload, but the limit is %d", errFrame, length, limit)
	}
	frame = frame[:frameHeader+length]
	frame[0], frame[1], frame[2], frame[3] = byte(kind), 0, 0, 0
	binary.BigEndian.PutUint32(frame[4:], uint32(length))
	binary.BigEndian.PutUint32(frame[8:], checksum(frame))
	for len(frame) > 0 {
		piece := frame[:min(len(frame), pieceBytes)]
		if err := w.conn.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
			return err
		}
		if _, err := w.conn.Write(piece); err != nil {
			return err
		}
		frame = frame[len(piece):]
	}
	return nil
}

// checksum covers all of a frame but the checksum's own place.
func checksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:8], crcTable), crcTable, frame[frameHeader:])
}

// readAhead is how many bytes a read asks for at least where frames follow each other. Most frames
// are short: one system call brings the header with its payload, and often further frames.
const readAhead = 16 << 10

// reader reads frames. It is for one goroutine at a time.
type reader struct {
	conn net.Conn
	// So many bytes behind the beginning of a frame may be read with it. 0: none behind its end,
	// because others go on with the connection.
	ahead      int
	buffer     []byte
	begin, end int // of what was read and not yet given
}

// next waits until the deadline for a frame of a permitted kind. The zero deadline is never. The
// payload is valid until the next call. A length that the kind does not permit is refused before
// memory is taken, and memory grows only as bytes come.
func (r *reader) next(deadline time.Time, permitted frameKind) ([]byte, error) {
	if err := r.fill(frameHeader, frameHeader, deadline); err != nil {
		return nil, err
	}
	header := r.buffer[r.begin:r.end]
	kind := frameKind(header[0])
	length := binary.BigEndian.Uint32(header[4:])
	if kind != permitted || length > frameLimits[kind] {
		return nil, fmt.Errorf("%w: kind %d, %d bytes", errFrame, kind, length)
	}
	size := frameHeader + int(length)
	for r.end-r.begin < size {
		piece := min(size, r.end-r.begin+pieceBytes)
		if err := r.fill(piece, size, time.Now().Add(ioTimeout)); err != nil {
			return nil, err
		}
	}
	frame := r.buffer[r.begin : r.begin+size]
	// Nothing was read behind a frame that is longer than `ahead`.
	if r.begin += size; cap(r.buffer) > keptBytes {
		r.buffer, r.begin, r.end = nil, 0, 0
	}
	if checksum(frame) != binary.BigEndian.Uint32(frame[8:]) {
		return nil, fmt.Errorf("%w: its checksum is wrong", errFrame)
	}
	return frame[frameHeader:], nil
}

// fill reads until `want` bytes are there, of a frame that has `size` bytes or more.
func (r *reader) fill(want, size int, deadline time.Time) error {
	have := r.end - r.begin
	if have >= want {
		return nil
	}
	room := max(want, r.ahead)
	if r.begin+room > cap(r.buffer) {
		memory := r.buffer[:cap(r.buffer)]
		if len(memory) < room {
			memory = make([]byte, max(room, min(size, 2*len(memory))))
		}
		copy(memory, r.buffer[r.begin:r.end])
		r.buffer, r.begin, r.end = memory, 0, have
	}
	if err := r.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	r.buffer = r.buffer[:cap(r.buffer)]
	n, err := io.ReadAtLeast(r.conn, r.buffer[r.end:r.begin+room], want-have)
	r.end += n
	return err
}

// sentTypes are the messages that nodes send each other. Others are dragonboat's own, and it ends
// the process when one of them comes from outside.
var sentTypes = map[raftpb.MessageType]bool{
	raftpb.NoOP: true, raftpb.Ping: true, raftpb.Pong: true, raftpb.Propose: true,
	raftpb.Replicate: true, raftpb.ReplicateResp: true, raftpb.RequestVote: true,
	raftpb.RequestVoteResp: true, raftpb.Heartbeat: true, raftpb.HeartbeatResp: true,
	raftpb.ReadIndex: true, raftpb.ReadIndexResp: true, raftpb.Quiesce: true,
	raftpb.SnapshotReceived: true, raftpb.LeaderTransfer: true, raftpb.TimeoutNow: true,
	raftpb.RateLimit: true, raftpb.RequestPreVote: true, raftpb.RequestPreVoteResp: true,
}
