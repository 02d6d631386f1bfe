package respload

import (
	"net"
	"strings"
	"sync"
	"testing"

	"engine_race/cluster/bench/load"

	"github.com/tidwall/redcon"
)

// store is a server with the commands that the driver sends.
type store struct {
	mutex    sync.Mutex
	values   map[string]string
	readonly int
	wrong    bool // it answers with the value of another key
	refuses  bool
}

func (s *store) handle(conn redcon.Conn, command redcon.Command) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := strings.ToUpper(string(command.Args[0]))
	switch {
	case name == "READONLY":
		s.readonly++
		conn.WriteString("OK")
	case s.refuses:
		conn.WriteError("BUSY try again")
	case name == "SET":
		s.values[string(command.Args[1])] = string(command.Args[2])
		conn.WriteString("OK")
	case name == "GET":
		value, found := s.values[string(command.Args[1])]
		if !found {
			conn.WriteNull()
			return
		}
		if s.wrong {
			value = "12345678" + value[load.KeyBytes:]
		}
		conn.WriteBulkString(value)
	}
}

func start(t *testing.T) (*store, []string) {
	t.Helper()
	s := &store{values: map[string]string{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := redcon.NewServer(listener.Addr().String(), s.handle, nil, nil)
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return s, []string{listener.Addr().String()}
}

// answer sets how the server answers from now on.
func (s *store) answer(wrong, refuses bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.wrong, s.refuses = wrong, refuses
}

// counts returns the numbers of values and of connections that said READONLY.
func (s *store) counts() (values, readonly int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.values), s.readonly
}

func do(t *testing.T, work load.Work) load.Figures {
	t.Helper()
	figures, err := Do(work)
	if err != nil {
		t.Fatal(err)
	}
	return figures
}

// some repeats a work whose time was over before it did enough.
func some(t *testing.T, enough uint64, work load.Work) load.Figures {
	t.Helper()
	for {
		figures := do(t, work)
		if figures.Operations >= enough || figures.Errors != 0 {
			return figures
		}
	}
}

func TestRecordsAreWrittenAndRead(t *testing.T) {
	s, addresses := start(t)
	filled := do(t, load.Work{Kind: load.Fill, Clients: 4, Records: 40, Addresses: addresses})
	values, _ := s.counts()
	if filled.Operations != 40 || filled.Errors != 0 || values != 40 {
		t.Fatalf("%+v, %d values", filled, values)
	}
	read := some(t, 64, load.Work{Kind: load.Read, Clients: 2, Records: 80, Seconds: 0.1,
		Addresses: addresses})
	_, readonly := s.counts()
	if read.Errors != 0 || read.Missing == 0 || read.Missing >= read.Operations || readonly != 0 {
		t.Fatalf("%+v, %d readers", read, readonly)
	}
	// The time may be over before all three have begun.
	readers := 0
	for attempt := 0; readers != 3; attempt++ {
		if attempt == 100 {
			t.Fatalf("%d readers of 3", readers)
		}
		_, before := s.counts()
		local := do(t, load.Work{Kind: load.LocalRead, Clients: 3, Records: 40, Seconds: 0.1, Depth: 16,
			Addresses: addresses})
		_, readonly = s.counts()
		readers = readonly - before
		if local.Errors != 0 || local.Missing != 0 || local.Operations%16 != 0 || readers > 3 {
			t.Fatalf("%+v, %d readers", local, readers)
		}
	}
}

func TestWrongValuesAndRefusalsAreErrors(t *testing.T) {
	s, addresses := start(t)
	do(t, load.Work{Kind: load.Fill, Clients: 1, Records: 4, Addresses: addresses})
	s.answer(true, false)
	read := some(t, 1, load.Work{Kind: load.Read, Clients: 1, Records: 4, Seconds: 0.02,
		Addresses: addresses})
	if read.Errors == 0 || read.Operations != 0 ||
		!strings.Contains(read.FirstError, "has the value") {
		t.Errorf("%+v", read)
	}
	s.answer(true, true)
	write := some(t, 1, load.Work{Kind: load.Write, Clients: 1, Records: 4, Seconds: 0.02,
		Addresses: addresses})
	if write.Errors == 0 || write.Operations != 0 || write.FirstError != "BUSY try again" {
		t.Errorf("%+v", write)
	}
}
