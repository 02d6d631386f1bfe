package replica

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"engine_race/cluster/service"
)

func sizedConfig(directory string, valueBytes int) Config {
	config := configIn(directory)
	config.ValueBytes = valueBytes
	return config
}

// A store of another size would give each reader a part of a value, or of several.
func TestAStoreOfAnotherSizeIsRefused(t *testing.T) {
	directory := t.TempDir()
	r := New(sizedConfig(directory, 512))
	if _, err := r.Open(nil); err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte{7}, 512)
	update(t, r, 1, commandOf(t, false, service.Op{Key: 1, Value: value}))
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	close(stopped)
	other := New(sizedConfig(directory, 1024))
	if _, err := other.Open(stopped); err == nil {
		t.Fatal("the store was opened")
	}
	want := "value_bytes is 1024, but that of the store is 512"
	if failure := other.Failure(); failure == nil || !failure.Stopped ||
		!strings.Contains(failure.Err.Error(), want) {
		t.Fatalf("the failure is %+v", failure)
	}
	again := New(sizedConfig(directory, 512))
	if index, err := again.Open(nil); err != nil || index != 1 {
		t.Fatalf("index %d, %v", index, err)
	}
	defer again.Close()
	q := &ReadQuery{Keys: []uint64{1}, Values: make([]byte, 512), Results: make([]int32, 1)}
	if _, err := again.Lookup(q); err != nil || !bytes.Equal(q.Values, value) {
		t.Errorf("%v, a value of %d", err, q.Values[0])
	}
}

func TestACommandWithValuesOfAnotherSizeIsMalformed(t *testing.T) {
	r := New(sizedConfig(t.TempDir(), 512))
	if _, err := r.Open(nil); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, test := range []struct {
		size   int
		result uint64
	}{{512, ResultApplied}, {511, ResultMalformed}, {513, ResultMalformed},
		{4096, ResultMalformed}} {
		command := commandOf(t, false, service.Op{Key: 1, Value: make([]byte, test.size)})
		if got := update(t, r, uint64(i+1), command).Value; got != test.result {
			t.Errorf("%d bytes: result %d", test.size, got)
		}
	}
}

// Small records are more work than their bytes tell: these have 16 KiB, and take half a second at
// 1 MiB a second.
func TestSmallRecordsAreHashedAtTheirRate(t *testing.T) {
	r := New(sizedConfig(t.TempDir(), 24))
	if _, err := r.Open(nil); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const records, rate = 512, 1 << 20
	var ops []service.Op
	for i := range uint64(records) {
		ops = append(ops, service.Op{Key: spread(i), Value: make([]byte, 24)})
	}
	update(t, r, 1, commandOf(t, false, ops...))
	markOf(t, r, 2)
	began := time.Now()
	if _, err := r.Hash(t.Context(), 2, rate); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < time.Second/2 {
		t.Errorf("%d records took %v", records, took)
	}
}

// TestValuesTogetherHaveAboutTheSameBytes keeps large values from filling the memory of a node.
func TestValuesTogetherHaveAboutTheSameBytes(t *testing.T) {
	for _, test := range []struct{ size, step, ahead, batch int }{
		{8, 64, 64, 128}, {4096, 64, 32, 128}, {65536, 4, 2, 8}, {1 << 20, 1, 1, 1},
	} {
		config := sizedConfig(t.TempDir(), test.size)
		config.Options["memory_budget_bytes"] = "128m"
		r := New(config)
		if _, err := r.Open(nil); err != nil {
			t.Fatal(err)
		}
		if r.stepValues() != test.step || Prefetch(1000, test.size) != test.ahead ||
			Prefetch(1, test.size) != 1 {
			t.Errorf("%d bytes: %d values together, %d ahead", test.size, r.stepValues(),
				Prefetch(1000, test.size))
		}
		ops, batch := AppendOp(nil, service.Op{Value: make([]byte, test.size)}), 0
		for ; !r.writer.isFull(1); batch++ {
			if err := r.writer.batch.Append(ops); err != nil {
				t.Fatal(err)
			}
		}
		if batch != test.batch {
			t.Errorf("%d bytes: a batch has %d ops, not %d", test.size, batch, test.batch)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
