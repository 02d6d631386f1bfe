// Package fake is a store for tests of the checker. It speaks RESP, has the admin pages of a real
// node, and injects faults on demand. All its nodes share one log file below a file lock, so they
// are linearizable together, and survive kill -9. A Store may be used from any goroutine.
package fake

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"syscall"

	"engine_race/cluster/check/value"
	"engine_race/cluster/service"
)

// Op is a put, or a deletion when Value is nil.
type Op = service.Op

const (
	headBytes   = 8
	opHeadBytes = 9
)

// Store is the map of records that all nodes share.
type Store struct {
	mu       sync.Mutex
	file     *os.File
	opBytes  int
	offset   int64
	closed   bool
	values   map[uint64][]byte
	previous map[uint64][]byte // the value before the newest, for stale reads
}

// OpenStore opens or makes the log at path, for values of a size.
func OpenStore(path string, values value.Size) (*Store, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &Store{file: file, opBytes: opHeadBytes + values.Bytes(),
		values: map[uint64][]byte{}, previous: map[uint64][]byte{}}, nil
}

// ValueBytes is the size of each value.
func (s *Store) ValueBytes() int { return s.opBytes - opHeadBytes }

// Close closes the log. Later calls of Do fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.file.Close()
}

// Do runs `step` while no other node can read or write, and appends the ops that it returns.
func (s *Store) Do(step func(values, previous map[uint64][]byte) []Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	if err := syscall.Flock(int(s.file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	defer syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN)
	if err := s.catchUp(); err != nil {
		return err
	}
	ops := step(s.values, s.previous)
	if len(ops) == 0 {
		return nil
	}
	entry := s.encode(ops)
	if _, err := s.file.WriteAt(entry, s.offset); err != nil {
		return errors.Join(err, s.file.Truncate(s.offset))
	}
	s.offset += int64(len(entry))
	s.apply(ops)
	return nil
}

// catchUp reads what other nodes have appended. It cuts the torn entry of a killed node off.
func (s *Store) catchUp() error {
	for {
		var head [headBytes]byte
		n, err := s.file.ReadAt(head[:], s.offset)
		if n == 0 && err == io.EOF {
			return nil
		}
		count := int(binary.LittleEndian.Uint32(head[:]))
		if n < headBytes || count > 1<<16 {
			return s.file.Truncate(s.offset)
		}
		body := make([]byte, count*s.opBytes)
		if _, err := s.file.ReadAt(body, s.offset+headBytes); err != nil && err != io.EOF {
			return err
		}
		if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(head[4:]) {
			return s.file.Truncate(s.offset)
		}
		s.offset += int64(headBytes + len(body))
		s.apply(s.decode(body))
	}
}

func (s *Store) apply(ops []Op) {
	for _, op := range ops {
		s.previous[op.Key] = s.values[op.Key]
		s.values[op.Key] = op.Value
	}
}

func (s *Store) encode(ops []Op) []byte {
	entry := make([]byte, headBytes+len(ops)*s.opBytes)
	body := entry[headBytes:]
	for i, op := range ops {
		at := body[i*s.opBytes:]
		binary.LittleEndian.PutUint64(at, op.Key)
		if op.Value != nil {
			at[8] = 1
			copy(at[opHeadBytes:s.opBytes], op.Value)
		}
	}
	binary.LittleEndian.PutUint32(entry, uint32(len(ops)))
	binary.LittleEndian.PutUint32(entry[4:], crc32.ChecksumIEEE(body))
	return entry
}

func (s *Store) decode(body []byte) []Op {
	ops := make([]Op, 0, len(body)/s.opBytes)
	for ; len(body) > 0; body = body[s.opBytes:] {
		op := Op{Key: binary.LittleEndian.Uint64(body)}
		if body[8] == 1 {
			op.Value = body[opHeadBytes:s.opBytes]
		}
		ops = append(ops, op)
	}
	return ops
}
