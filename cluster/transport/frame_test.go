package transport

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// pieces is a connection that gives what was written in pieces of certain sizes, and counts them.
type pieces struct {
	net.Conn
	written []byte
	size    func() int
	reads   int
}

func (p *pieces) Write(some []byte) (int, error) {
	p.written = append(p.written, some...)
	return len(some), nil
}

func (p *pieces) Read(to []byte) (int, error) {
	p.reads++
	if len(p.written) == 0 {
		return 0, io.EOF
	}
	n := copy(to[:min(len(to), p.size())], p.written)
	p.written = p.written[n:]
	return n, nil
}

func (p *pieces) SetReadDeadline(time.Time) error  { return nil }
func (p *pieces) SetWriteDeadline(time.Time) error { return nil }

func all() int { return 1 << 30 }

func payloadOf(size int) []byte {
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(i + size)
	}
	return payload
}

func writeFrames(t *testing.T, conn net.Conn, sizes ...int) {
	t.Helper()
	out := writer{conn: conn}
	for _, size := range sizes {
		if err := out.write(messageFrame, payloadOf(size), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func expectFrames(t *testing.T, in *reader, sizes ...int) {
	t.Helper()
	for i, size := range sizes {
		payload, err := in.next(time.Time{}, messageFrame)
		if err != nil || !bytes.Equal(payload, payloadOf(size)) {
			t.Fatalf("frame %d: %d bytes, not %d: %v", i, len(payload), size, err)
		}
	}
}

// frameSizes lie at the edges of what is read at once and of what is kept.
var frameSizes = []int{0, 1, readAhead - frameHeader - 1, readAhead - frameHeader, readAhead,
	5, 3 * readAhead, 7, pieceBytes, 0, pieceBytes + 1, keptBytes, 9, 3*keptBytes + 5, 2, 1000}

func TestFramesComeInPiecesOfAnySize(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, size := range map[string]func() int{
		"all at once": all,
		"in few":      func() int { return 1 + random.IntN(100_000) },
		"in many":     func() int { return 1 + random.IntN(500) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, ahead := range []int{0, readAhead} {
				conn := &pieces{size: size}
				writeFrames(t, conn, frameSizes...)
				in := &reader{conn: conn, ahead: ahead}
				expectFrames(t, in, frameSizes...)
				if _, err := in.next(time.Time{}, messageFrame); !errors.Is(err, io.EOF) {
					t.Errorf("behind the last frame: %v", err)
				}
				if cap(in.buffer) > keptBytes {
					t.Errorf("%d bytes are kept", cap(in.buffer))
				}
			}
		})
	}
}

func TestShortFramesComeTogether(t *testing.T) {
	conn := &pieces{size: all}
	sizes := make([]int, 100)
	for i := range sizes {
		sizes[i] = i
	}
	writeFrames(t, conn, sizes...)
	expectFrames(t, &reader{conn: conn, ahead: readAhead}, sizes...)
	if conn.reads != 1 {
		t.Errorf("%d reads", conn.reads)
	}
}

// TestAGreetingIsReadAlone: another reader goes on behind it.
func TestAGreetingIsReadAlone(t *testing.T) {
	conn := &pieces{size: all}
	writeFrames(t, conn, 100, 200)
	expectFrames(t, &reader{conn: conn}, 100)
	expectFrames(t, &reader{conn: conn, ahead: readAhead}, 200)
}

func TestAFrameThatEndsEarlyIsRefused(t *testing.T) {
	for _, left := range []int{1, frameHeader - 1, frameHeader, frameHeader + 50} {
		conn := &pieces{size: all}
		writeFrames(t, conn, 100)
		conn.written = conn.written[:left]
		in := &reader{conn: conn, ahead: readAhead}
		if payload, err := in.next(time.Time{}, messageFrame); err == nil {
			t.Errorf("%d bytes were read as a frame of %d", left, len(payload))
		}
	}
}
