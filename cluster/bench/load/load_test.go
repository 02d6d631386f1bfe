package load

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFillCallsOnceForEachRecord(t *testing.T) {
	var mutex sync.Mutex
	seen := map[uint64]int{}
	refused := map[uint64]bool{}
	figures, err := Run(Work{Kind: Fill, Clients: 3, Records: 100, ValueBytes: 72},
		func(_ int, keys []uint64, value []byte) (int, error) {
			mutex.Lock()
			defer mutex.Unlock()
			if len(keys) != 1 || len(value) != 72 {
				t.Errorf("%d keys, %d bytes", len(keys), len(value))
			}
			if keys[0]%3 == 0 && !refused[keys[0]] {
				refused[keys[0]] = true
				return 0, errors.New("refused")
			}
			seen[keys[0]]++
			return 0, nil
		})
	if err != nil || figures.Operations != 100 || len(seen) != 100 {
		t.Fatalf("%+v, %v, %d keys", figures, err, len(seen))
	}
	for record := range uint64(100) {
		if seen[Key(record)] != 1 {
			t.Errorf("record %d was written %d times", record, seen[Key(record)])
		}
	}
	if figures.Errors != uint64(len(refused)) || figures.FirstError != "refused" {
		t.Errorf("%+v", figures)
	}
}

func TestReadsDrawKnownKeysUntilTheEnd(t *testing.T) {
	known := map[uint64]bool{}
	for record := range uint64(8) {
		known[Key(record)] = true
	}
	synctest.Test(t, func(t *testing.T) {
		const clients, calls, depth = 2, 10, 5
		figures, err := Run(Work{Kind: LocalRead, Seconds: calls, Clients: clients, Records: 8,
			Depth: depth}, func(_ int, keys []uint64, _ []byte) (int, error) {
			for _, key := range keys {
				if !known[key] {
					t.Errorf("key %d is no record", key)
				}
			}
			time.Sleep(time.Second)
			return 1, nil
		})
		if err != nil || figures.Operations != clients*calls*depth ||
			figures.Missing != clients*calls {
			t.Fatalf("%+v, %v", figures, err)
		}
	})
}

func TestBadOrdersAreRefused(t *testing.T) {
	bad := []Work{{}, {Kind: Read, Clients: 1, Records: 1}, {Kind: Fill, Clients: 1}}
	for _, work := range bad {
		if _, err := Run(work, nil); err == nil {
			t.Errorf("%+v was taken", work)
		}
	}
}

func TestPercentilesAreAtMostASixteenthTooHigh(t *testing.T) {
	var own tally
	for i := 1; i <= 1000; i++ {
		own.note(time.Duration(i)*time.Microsecond, 1, 0, nil)
	}
	for share, wanted := range map[float64]time.Duration{0.5: 500, 0.99: 990, 0.001: 1} {
		wanted *= time.Microsecond
		got := own.percentile(share)
		if got < wanted || got > wanted+wanted/16+time.Microsecond {
			t.Errorf("percentile %g is %v instead of %v", share, got, wanted)
		}
	}
	for _, latency := range []time.Duration{0, 1, 15, 16, 17, 31, 32, 1000, 1 << 40} {
		if bucket := bucketOf(latency); upperEnd(bucket) <= latency {
			t.Errorf("%v lies above bucket %d, which ends at %v", latency, bucket, upperEnd(bucket))
		}
	}
}

func TestOrdersAreAnsweredInLines(t *testing.T) {
	ordersOut, ordersIn := io.Pipe()
	answersOut, answersIn := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(ordersOut, answersIn, func(work Work) (Figures, error) {
			// A library's own line must not disturb.
			if _, err := io.WriteString(answersIn, "some log\n"); err != nil {
				return Figures{}, err
			}
			return Figures{Operations: work.Records}, errors.New("broken")
		})
	}()
	figures, err := Ask(ordersIn, bufio.NewReader(answersOut), Work{Kind: Read, Records: 7})
	if err != nil || figures.Operations != 7 || figures.FirstError != "broken" ||
		figures.Errors != 1 {
		t.Errorf("%+v, %v", figures, err)
	}
	ordersIn.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	answersIn.Close()
	_, err = Ask(io.Discard, bufio.NewReader(answersOut), Work{})
	if !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
}

// A pause of the servers must not be made up for by more calls after it.
func TestASteadyRateMakesUpForNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, err := NewClients(Work{Kind: Write, Seconds: 3600, Clients: 2, Records: 9,
			PerSecond: 4})
		if err != nil {
			t.Fatal(err)
		}
		if apart := clients[1].due.Sub(clients[0].due); apart != time.Second/4 {
			t.Errorf("the clients begin %v apart", apart)
		}
		c := clients[0]
		c.due = time.Now().Add(-time.Hour)
		for range 3 {
			c.Next()
		}
		if wait := c.Wait(); wait != time.Second {
			t.Errorf("the call behind a pause and two others waits for %v", wait)
		}
	})
}
