package fake

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"engine_race/cluster/check/wire"
	"engine_race/cluster/service"
)

// Faults has the probability of each fault, 0 to 1, for one request.
type Faults struct {
	StaleRead  float64 // a linearizable GET gives the value before the newest
	StaleLocal float64 // a READONLY GET gives the value before the newest
	LostWrite  float64 // a write is acknowledged and forgotten
	TwiceLate  float64 // a write is applied again 50 ms later
	MixedValue float64 // a SET keeps the second half of the old value
	TornMSet   float64 // an MSET stores its first key now, the others 20 ms later
	Unknown    float64 // a write is answered with UNKNOWN, and applied late or never
	Refuse     float64 // a request is refused with BUSY
	FalseBusy  float64 // a write is applied and refused with BUSY
	NoDrain    float64 // 1: SIGTERM ends the node at once

	// DrainSeconds is how long a stopping node still serves. No fault, but a busy machine needs
	// more than the default until all clients know. 0: drainTime.
	DrainSeconds float64
}

// Server serves a Store.
type Server struct {
	Store  *Store
	Faults Faults
	Check  func(write bool) string // an error reply, or ""; may be nil
}

// Start runs a node in the process of the test, until the test ends. Its Store is the file at path.
func Start(t *testing.T, path string, faults Faults, check func(write bool) string) wire.Dialer {
	t.Helper()
	store, err := OpenStore(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &Server{Store: store, Faults: faults, Check: check}
	go server.Serve(listener)
	t.Cleanup(func() {
		listener.Close()
		store.Close()
	})
	return wire.Dialer{Address: listener.Addr().String(), Timeout: 10 * time.Second}
}

type session struct{ local bool }

// Serve answers clients until the listener is closed.
func (s *Server) Serve(listener net.Listener) error {
	return redcon.Serve(listener, s.handle, func(conn redcon.Conn) bool {
		conn.SetContext(&session{})
		return true
	}, nil)
}

func (s *Server) handle(conn redcon.Conn, cmd redcon.Command) {
	state := conn.Context().(*session)
	name := strings.ToUpper(string(cmd.Args[0]))
	write := name == "SET" || name == "MSET" || name == "DEL"
	if s.Check != nil {
		if refusal := s.Check(write); refusal != "" {
			conn.WriteError(refusal)
			return
		}
	}
	if hit(s.Faults.Refuse) {
		conn.WriteError("BUSY nothing was done: on purpose")
		return
	}
	switch {
	case name == "PING":
		conn.WriteString("PONG")
	case name == "READONLY":
		state.local = true
		conn.WriteString("OK")
	case write:
		s.write(conn, name, cmd.Args[1:])
	case name == "GET" || name == "MGET":
		s.read(conn, name, cmd.Args[1:], state.local)
	case name == "RANGE":
		conn.WriteArray(0)
	default:
		conn.WriteError("ERR unknown command")
	}
}

func hit(probability float64) bool { return rand.Float64() < probability }

// parse copies the arguments, for redcon reuses their memory.
func (s *Server) parse(name string, args [][]byte) ([]Op, error) {
	step := 2
	if name == "DEL" {
		step = 1
	}
	var ops []Op
	for i := 0; i+step <= len(args); i += step {
		if len(args[i]) != service.KeyBytes {
			return nil, fmt.Errorf("a key has 8 bytes, not %d", len(args[i]))
		}
		op := Op{Key: binary.BigEndian.Uint64(args[i])}
		if step == 2 {
			if len(args[i+1]) != s.Store.ValueBytes() {
				return nil, fmt.Errorf("a value has %d bytes, not %d", s.Store.ValueBytes(),
					len(args[i+1]))
			}
			op.Value = append([]byte{}, args[i+1]...)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func (s *Server) write(conn redcon.Conn, name string, args [][]byte) {
	ops, err := s.parse(name, args)
	if err != nil {
		conn.WriteError("ERR " + err.Error())
		return
	}
	if hit(s.Faults.Unknown) {
		if hit(0.7) {
			s.later(50*time.Millisecond, ops)
		}
		conn.WriteError("UNKNOWN the write may or may not have been done: on purpose")
		return
	}
	if hit(s.Faults.LostWrite) {
		writeDone(conn, name, 1)
		return
	}
	now := ops
	if name == "MSET" && len(ops) > 1 && hit(s.Faults.TornMSet) {
		s.later(20*time.Millisecond, ops[1:])
		now = ops[:1]
	}
	existed := 0
	err = s.Store.Do(func(values, _ map[uint64][]byte) []Op {
		for i, op := range now {
			old := values[op.Key]
			if old != nil {
				existed++
			}
			if name == "SET" && old != nil && hit(s.Faults.MixedValue) {
				half := s.Store.ValueBytes() / 2
				now[i].Value = append(append([]byte{}, op.Value[:half]...), old[half:]...)
			}
		}
		return now
	})
	switch {
	case err != nil:
		conn.WriteError("UNKNOWN the write may or may not have been done: " + err.Error())
		return
	case hit(s.Faults.FalseBusy):
		conn.WriteError("BUSY nothing was done, it says")
		return
	}
	if hit(s.Faults.TwiceLate) {
		s.later(50*time.Millisecond, ops)
	}
	writeDone(conn, name, existed)
}

func (s *Server) later(delay time.Duration, ops []Op) {
	time.AfterFunc(delay, func() {
		_ = s.Store.Do(func(_, _ map[uint64][]byte) []Op { return ops })
	})
}

func writeDone(conn redcon.Conn, name string, existed int) {
	if name == "DEL" {
		conn.WriteInt(existed)
		return
	}
	conn.WriteString("OK")
}

func (s *Server) read(conn redcon.Conn, name string, args [][]byte, local bool) {
	keys, err := s.parse("DEL", args)
	if err != nil {
		conn.WriteError("ERR " + err.Error())
		return
	}
	found := make([][]byte, len(keys))
	err = s.Store.Do(func(values, previous map[uint64][]byte) []Op {
		for i, op := range keys {
			found[i] = values[op.Key]
			stale := !local && hit(s.Faults.StaleRead) || local && hit(s.Faults.StaleLocal)
			if stale {
				found[i] = previous[op.Key]
			}
		}
		return nil
	})
	if err != nil {
		conn.WriteError("UNAVAILABLE nothing was done: " + err.Error())
		return
	}
	if name == "MGET" {
		conn.WriteArray(len(found))
	}
	for _, value := range found {
		if value == nil {
			conn.WriteNull()
		} else {
			conn.WriteBulk(value)
		}
	}
}
