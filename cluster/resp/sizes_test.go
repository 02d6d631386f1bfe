package resp

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// startSized serves a cluster with values of this size.
func startSized(t *testing.T, valueBytes int) (*fake, *peer) {
	t.Helper()
	store := newFake()
	store.valueBytes = valueBytes
	_, _, address := start(t, Options{Service: store})
	return store, dial(t, address)
}

func TestErrorsNameTheSizeOfTheCluster(t *testing.T) {
	for _, size := range []int{8, 512, 65536} {
		_, p := startSized(t, size)
		value := sizedText(1, 1, size)
		for _, test := range []struct {
			words []string
			want  string
		}{
			{[]string{"SET", keyText(1), value}, "+OK"},
			{[]string{"GET", keyText(1)}, value},
			{[]string{"STRLEN", keyText(1)}, fmt.Sprintf(":%d", size)},
			{[]string{"SET", keyText(2), value[1:]}, fmt.Sprintf(
				"-ERR a key has 8 bytes and a value %d, not 8 and %d", size, size-1)},
			{[]string{"SET", "key", value}, fmt.Sprintf(
				"-ERR a key has 8 bytes and a value %d, not 3 and %d", size, size)},
			{[]string{"MSET", keyText(2), value, keyText(3), value + "x"}, fmt.Sprintf(
				"-ERR a key has 8 bytes and a value %d, not 8 and %d", size, size+1)},
			{[]string{"MGET", keyText(2), keyText(3)}, "[(nil) (nil)]"},
			{[]string{"RANGE", "key", "+"}, fmt.Sprintf(
				"-ERR a key has 8 bytes and a value %d, but this key has 3", size)},
		} {
			if got := p.do(test.words...); got != test.want {
				t.Errorf("%d bytes: %s: got %.80q, expected %.80q", size, test.words[0], got, test.want)
			}
		}
	}
}

// TestLargeValuesAreReadInSmallGroups counts the calls of the service for one round of reads. The
// values of a call lie in memory together. TCP may cut the round, so there may be more calls.
func TestLargeValuesAreReadInSmallGroups(t *testing.T) {
	const gets = 256
	for _, test := range []struct{ size, most int }{
		{8, 1024}, {4096, 1024}, {65536, 64}, {1 << 20, 4},
	} {
		store, p := startSized(t, test.size)
		p.send(strings.Repeat(encode("GET", keyText(1)), gets))
		for range gets {
			if got := p.reply(); got != "(nil)" {
				t.Fatalf("got %.80q", got)
			}
		}
		if calls, least := store.reads.Load(), int64(max(1, gets/test.most)); calls < least {
			t.Errorf("%d bytes: %d calls, expected %d at least", test.size, calls, least)
		}
		if most := sizesOf(test.size).groupReadKeys; most != test.most {
			t.Errorf("%d bytes: a call has up to %d keys, expected %d", test.size, most, test.most)
		}
	}
}

func TestATransactionReadsNoMoreThanAReplyHolds(t *testing.T) {
	store, p := startSized(t, 1<<20)
	store.records[keyNumber(keyText(1))] = []byte(sizedText(1, 1, 1<<20))
	run := func(last string) string {
		p.do("MULTI")
		for range 7 {
			if got := p.do("GET", keyText(1)); got != "+QUEUED" {
				t.Fatalf("got %.80q", got)
			}
		}
		if last != "" {
			if got := p.do("GET", keyText(1)); got != last {
				t.Errorf("the eighth: %.80q", got)
			}
		}
		return p.do("EXEC")
	}
	if got := run(""); strings.Count(got, "1/1/") != 7 {
		t.Errorf("%d values", strings.Count(got, "1/1/"))
	}
	if got := run("-ERR a transaction reads at most 7 keys"); !strings.HasPrefix(got, "-EXECABORT") {
		t.Errorf("got %.80q", got)
	}
}

// TestMaximumReply reads the greatest reply for several sizes of values: one more record would not
// fit.
func TestMaximumReply(t *testing.T) {
	for _, test := range []struct{ valueBytes, keys, records, standard int }{
		{512, 0, 31417, 1000}, {4096, 4087, 4073, 1000}, {65536, 255, 255, 255},
		{1 << 20, 15, 15, 15},
	} {
		t.Run(fmt.Sprint(test.valueBytes), func(t *testing.T) {
			store := newFake()
			store.valueBytes = test.valueBytes
			_, _, address := start(t, Options{Service: store})
			for i := range uint64(test.records + 1) {
				store.records[i] = []byte(sizedText(i, 1, test.valueBytes))
			}
			p := dial(t, address)
			p.send(encode("RANGE", "-", "+", "LIMIT", fmt.Sprint(test.records)) + encode("PING"))
			header, _ := p.reader.ReadString('\n')
			each := int64(len(encode(keyText(1), store.text(1))) - len("*2\r\n"))
			body := int64(test.records) * each
			if n, err := io.CopyN(io.Discard, p.reader, body); err != nil {
				t.Fatalf("%d of %d bytes: %v", n, body, err)
			}
			if got := p.reply(); got != "+PONG" {
				t.Errorf("behind the reply: %q", got)
			}
			if length := int64(len(header)) + body; length > ReplyBytes || length+each <= ReplyBytes {
				t.Errorf("the greatest reply has %d bytes", length)
			}
			got := p.do("RANGE", "-", "+", "LIMIT", fmt.Sprint(test.records+1))
			if want := fmt.Sprintf("-ERR LIMIT is a number from 1 to %d", test.records); got != want {
				t.Errorf("got %q, expected %q", got, want)
			}
			p.send(encode("RANGE", "-", "+"))
			header, _ = p.reader.ReadString('\n')
			if want := fmt.Sprintf("*%d\r\n", 2*test.standard); header != want {
				t.Errorf("without LIMIT: %q, expected %q", header, want)
			}
			if _, err := io.CopyN(io.Discard, p.reader, int64(test.standard)*each); err != nil {
				t.Fatal(err)
			}
			if test.keys == 0 {
				return // A command has no room for so many.
			}
			many := append([]string{"MGET"}, make([]string, test.keys+1)...)
			want := fmt.Sprintf("-ERR mget takes at most %d keys, not %d", test.keys, test.keys+1)
			if got := p.do(many...); got != want {
				t.Errorf("too many keys: %q", got)
			}
		})
	}
}
