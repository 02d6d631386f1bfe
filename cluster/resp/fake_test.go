package resp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"engine_race/cluster/service"
)

// fake is a service in memory. Its hooks may fail or delay calls.
type fake struct {
	mutex   sync.Mutex
	records map[uint64][]byte
	err     error                     // of every call
	before  func(ctx context.Context) // called first by Read and Write

	reads, writes, counted atomic.Int64
	transacts              atomic.Int64
	damaged                map[uint64]bool // for reads of Transact
	local                  atomic.Int64    // reads with service.Local
	largest                atomic.Int64    // ops of the largest Write
	valueBytes             int
}

func newFake() *fake {
	return &fake{records: map[uint64][]byte{}, valueBytes: service.DefaultValueBytes}
}

func (f *fake) ValueBytes() int { return f.valueBytes }

func (f *fake) enter(ctx context.Context) error {
	f.mutex.Lock()
	before, err := f.before, f.err
	f.mutex.Unlock()
	if before != nil {
		before(ctx)
	}
	return err
}

func (f *fake) set(err error, before func(ctx context.Context)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.err, f.before = err, before
}

func (f *fake) Write(ctx context.Context, ops []service.Op, counted bool) ([]bool, error) {
	f.writes.Add(1)
	f.mutex.Lock()
	f.largest.Store(max(f.largest.Load(), int64(len(ops))))
	f.mutex.Unlock()
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var existed []bool
	if counted {
		f.counted.Add(1)
		for _, op := range ops {
			existed = append(existed, f.records[op.Key] != nil)
		}
	}
	for _, op := range ops {
		if op.Value == nil {
			delete(f.records, op.Key)
		} else {
			f.records[op.Key] = bytes.Clone(op.Value)
		}
	}
	return existed, nil
}

func (f *fake) Transact(ctx context.Context, ops []service.Op) ([]service.Found, error) {
	f.transacts.Add(1)
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	found := make([]service.Found, len(ops))
	for i, op := range ops {
		there := f.records[op.Key]
		found[i].Existed = there != nil
		switch {
		case op.Read && f.damaged[op.Key]:
			found[i].Damaged = true
		case op.Read:
			found[i].Value = bytes.Clone(there)
		case op.Value == nil:
			delete(f.records, op.Key)
		default:
			f.records[op.Key] = bytes.Clone(op.Value)
		}
	}
	return found, nil
}

// ShardOf has a shard for each byte that keys may begin with.
func (f *fake) ShardOf(key uint64) uint64 { return key >> 56 }

func (f *fake) Read(ctx context.Context, keys []uint64, consistency service.Consistency) (
	[][]byte, func(), error) {
	f.reads.Add(1)
	if consistency == service.Local {
		f.local.Add(1)
	}
	if err := f.enter(ctx); err != nil {
		return nil, nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	values := make([][]byte, len(keys))
	for i, number := range keys {
		values[i] = bytes.Clone(f.records[number])
	}
	return values, func() {
		for _, value := range values {
			clear(value)
		}
	}, nil
}

func (f *fake) Scan(ctx context.Context, lower uint64, upper *uint64, limit int, withValues bool,
	consistency service.Consistency) ([]service.Record, bool, error) {
	if err := f.enter(ctx); err != nil {
		return nil, false, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var records []service.Record
	for number, value := range f.records {
		if number < lower || upper != nil && number >= *upper {
			continue
		}
		if !withValues {
			value = nil
		}
		records = append(records, service.Record{Key: number, Value: value})
	}
	slices.SortFunc(records, func(a, b service.Record) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	more := len(records) > limit
	return records[:min(limit, len(records))], more, nil
}

func (f *fake) Count(ctx context.Context) (uint64, error) {
	if err := f.enter(ctx); err != nil {
		return 0, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return uint64(len(f.records)), nil
}

func (f *fake) Info() []service.InfoSection {
	return []service.InfoSection{{Name: "Cluster", Fields: [][2]string{{"node_id", "1"}}}}
}

// start serves a fake with options; the test's end closes the server.
func start(t testing.TB, options Options) (*Server, *fake, string) {
	t.Helper()
	store, ok := options.Service.(*fake)
	if !ok {
		store = newFake()
		options.Service = store
	}
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, server, listener)
	return server, store, listener.Addr().String()
}

// serve serves clients of the listener; the test's end closes the server.
func serve(t testing.TB, server *Server, listener net.Listener) {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if held := server.BytesInFlight(); held != 0 {
			t.Errorf("%d bytes are held in flight after the end", held)
		}
		if open := server.Counters().ConnectionsOpen.Load(); open != 0 {
			t.Errorf("%d connections count as open after the end", open)
		}
	})
}

// pipes is a listener whose connections are pipes, so that a fake clock may move while they wait.
type pipes struct {
	server *Server
	conns  chan net.Conn
	once   sync.Once
	ended  chan struct{}
}

// startPiped serves a fake with options over pipes. It is for tests with a fake clock.
func startPiped(t testing.TB, options Options) *pipes {
	t.Helper()
	if options.Service == nil {
		options.Service = newFake()
	}
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	listener := &pipes{server: server, conns: make(chan net.Conn), ended: make(chan struct{})}
	serve(t, server, listener)
	return listener
}

func (p *pipes) dial(t testing.TB) *peer {
	conn, far := net.Pipe()
	p.conns <- far
	return newPeer(t, conn)
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// peer is a client that speaks the protocol byte by byte.
type peer struct {
	t      testing.TB
	conn   net.Conn
	reader *bufio.Reader
}

func dial(t testing.TB, address string) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, conn)
}

func newPeer(t testing.TB, conn net.Conn) *peer {
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &peer{t, conn, bufio.NewReaderSize(conn, 1<<16)}
}

func (p *peer) send(text string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// encode makes a command of words.
func encode(words ...string) string {
	text := redcon.AppendArray(nil, len(words))
	for _, word := range words {
		text = redcon.AppendBulkString(text, word)
	}
	return string(text)
}

// do sends a command and gives its reply.
func (p *peer) do(words ...string) string {
	p.t.Helper()
	p.send(encode(words...))
	return p.reply()
}

// reply reads a reply: "+OK", "-ERR ...", ":1", a bulk's bytes, "(nil)", or "[a b]". Of RESP3 come
// "(null)", "{k v}" for a map, "<a b>" for a set and "txt:..." for text.
func (p *peer) reply() string {
	p.t.Helper()
	text, err := p.tryReply()
	if err != nil {
		p.t.Fatalf("no reply: %v", err)
	}
	return text
}

func (p *peer) tryReply() (string, error) {
	line, err := p.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = line[:len(line)-2]
	var count int
	switch line[0] {
	case '_':
		return "(null)", nil
	case '$', '=':
		fmt.Sscan(line[1:], &count)
		if count < 0 {
			return "(nil)", nil
		}
		bulk := make([]byte, count+2)
		for read := 0; read < len(bulk); {
			n, err := p.reader.Read(bulk[read:])
			if err != nil {
				return "", err
			}
			read += n
		}
		return string(bulk[:count]), nil
	case '*', '%', '~':
		fmt.Sscan(line[1:], &count)
		if count < 0 {
			return "(nil)", nil
		}
		brackets := map[byte]string{'*': "[]", '%': "{}", '~': "<>"}[line[0]]
		if line[0] == '%' {
			count *= 2
		}
		elements := []string{}
		for range count {
			element, err := p.tryReply()
			if err != nil {
				return "", err
			}
			elements = append(elements, element)
		}
		return brackets[:1] + strings.Join(elements, " ") + brackets[1:], nil
	}
	return line, nil
}

// ended tells whether the server closes the connection cleanly, without a further reply.
func (p *peer) ended() error {
	text, err := p.tryReply()
	if err == nil {
		return fmt.Errorf("a reply instead of the end: %.80q", text)
	}
	if err.Error() != "EOF" {
		return err
	}
	return nil
}

// keyText gives the key of a number, valueText a value that names key and version.
func keyText(number uint64) string { return fmt.Sprintf("k%07d", number) }

func valueText(number uint64, version int) string {
	return sizedText(number, version, service.DefaultValueBytes)
}

func sizedText(number uint64, version, valueBytes int) string {
	text := fmt.Sprintf("%d/%d/", number, version)
	return text + strings.Repeat("x", valueBytes-len(text))
}

// text gives the value of a record.
func (f *fake) text(number uint64) string { return string(f.records[number]) }
