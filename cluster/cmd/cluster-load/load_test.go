package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"engine_race/cluster/resp"
	"engine_race/cluster/service"
)

// memory is a service of a map. Calls that it does not have panic.
type memory struct {
	service.Service
	mutex   sync.Mutex
	records map[uint64][]byte
	err     error

	valueBytes int
}

func (m *memory) ValueBytes() int { return m.valueBytes }

func (m *memory) Write(_ context.Context, ops []service.Op, _ bool) ([]bool, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, op := range ops {
		m.records[op.Key] = slices.Clone(op.Value)
	}
	return nil, m.err
}

func (m *memory) Read(_ context.Context, keys []uint64, _ service.Consistency) ([][]byte, func(),
	error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = m.records[key]
	}
	return values, func() {}, m.err
}

func serve(t *testing.T, valueBytes int) (*memory, string) {
	t.Helper()
	store := &memory{records: map[uint64][]byte{}, valueBytes: valueBytes}
	server, err := resp.New(resp.Options{Service: store})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return store, listener.Addr().String()
}

// load runs the program with flags, again if its time was over before it did anything.
func load(t *testing.T, flags string) (*Summary, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out.json")
	o, err := parse(append(strings.Fields(flags), "--json", file))
	if err != nil {
		t.Fatal(err)
	}
	failure := report(o, run(context.Background(), o))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	summary := &Summary{}
	if err := json.Unmarshal(text, summary); err != nil {
		t.Fatal(err)
	}
	if summary.Operations == 0 && len(summary.Errors) == 0 {
		return load(t, flags)
	}
	return summary, failure
}

func TestFillAndVerify(t *testing.T) {
	for _, size := range []int{8, 16, 100, 4096} {
		t.Run(strconv.Itoa(size), func(t *testing.T) { fillAndVerify(t, size) })
	}
}

func fillAndVerify(t *testing.T, size int) {
	store, address := serve(t, size)
	base := fmt.Sprintf("--addresses %s --clients 4 --keys 500 --verify --value-bytes %d ", address,
		size)
	s, err := load(t, base+"--fill --pipeline 7")
	if err != nil || s.Writes != 500 || len(store.records) != 500 {
		t.Fatalf("fill: %v, %d writes, %d records", err, s.Writes, len(store.records))
	}
	for _, flags := range []string{"--workload get --pipeline 300", "--workload mixed --rate 2000",
		"--workload set --distribution zipf", "--pipeline 1000 --readonly", "--workload get"} {
		s, err := load(t, base+"--seconds 0.2 "+flags)
		if err != nil || s.Operations == 0 || s.Missing > 0 || len(s.Errors) > 0 {
			t.Errorf("%s: %v %+v", flags, err, s)
		}
		if len(store.records) != 500 {
			t.Errorf("%s: %d records", flags, len(store.records))
		}
	}
	for _, value := range store.records {
		value[size-1] ^= 1
	}
	if size == 16 {
		return // The damage makes it another write's.
	}
	if s, err := load(t, base+"--seconds 0.3 --workload get"); err == nil || s.Wrong == 0 {
		t.Errorf("damaged values: %v, %d wrong", err, s.Wrong)
	}
}

func TestErrorsAreCountedByKind(t *testing.T) {
	store, address := serve(t, 4096)
	store.err = service.ErrBusy
	s, err := load(t, "--addresses "+address+" --clients 2 --seconds 0.1")
	if err == nil || s.Operations != 0 || s.Errors["BUSY"] == 0 {
		t.Errorf("%v %+v", err, s)
	}
	s, err = load(t, "--addresses 127.0.0.1:1 --clients 1 --seconds 0.1")
	if err == nil || s.Errors["connection"] == 0 {
		t.Errorf("%v %+v", err, s)
	}
}

func TestAnotherSizeIsAnError(t *testing.T) {
	_, address := serve(t, 512)
	base := "--addresses " + address + " --clients 1 --keys 1 --value-bytes "
	if s, err := load(t, base+"256 --fill"); err == nil || s.Errors["ERR"] == 0 {
		t.Errorf("writes: %v %+v", err, s)
	}
	if _, err := load(t, base+"512 --fill"); err != nil {
		t.Fatal(err)
	}
	if s, err := load(t, base+"256 --workload get --seconds 0.1"); err == nil ||
		s.Errors["connection"] == 0 {
		t.Errorf("reads: %v %+v", err, s)
	}
}

func TestValues(t *testing.T) {
	value := make([]byte, 4093)
	for key := range uint64(50) {
		fillValue(value, mix(key), key*3)
		if !verifyValue(value, mix(key)) || verifyValue(value, mix(key+1)) {
			t.Fatalf("key %d", key)
		}
		for _, i := range []int{0, 8, 15, 16, 2000, 4088, 4092} {
			value[i] ^= 0x10
			if verifyValue(value, mix(key)) {
				t.Errorf("damage of byte %d was not found", i)
			}
			value[i] ^= 0x10
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	var all []uint64
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		value := uint64(1) << random.IntN(40)
		value += random.Uint64N(value)
		all = append(all, value)
		h.add(time.Duration(value), 1)
		if index := bucket(value); upper(index) < value || index > 0 && upper(index-1) >= value {
			t.Fatalf("value %d is in bucket %d", value, index)
		}
	}
	slices.Sort(all)
	for _, share := range []float64{0.5, 0.95, 0.99, 1} {
		exact := all[int(share*float64(len(all)))-1] / 1000
		got := h.microseconds(share)
		if got < exact || float64(got) > float64(exact)*1.02+2 {
			t.Errorf("%v: %d us, exactly %d", share, got, exact)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, flags := range []string{"--clients 0", "--workload x", "--distribution x", "--keys 0",
		"--read-percent 101", "--seconds 0", "x", "--tls-ca /nowhere",
		"--value-bytes 7", "--value-bytes 1048577"} {
		if _, err := parse(strings.Fields(flags)); err == nil {
			t.Errorf("%q was accepted", flags)
		}
	}
}
