package load

import (
	"math/bits"
	"time"
)

// Latencies are counted in buckets: 16 for each power of two of nanoseconds. So a percentile is at
// most 1/16 above the true one.
const (
	bucketBits  = 4
	bucketCount = 64 << bucketBits
)

type tally struct {
	operations, missing, errors uint64
	firstError                  string
	max                         time.Duration
	calls                       uint64
	buckets                     [bucketCount]uint64
}

func bucketOf(latency time.Duration) int {
	nanoseconds := uint64(max(latency, 1))
	power := bits.Len64(nanoseconds) - 1
	if power < bucketBits {
		return int(nanoseconds)
	}
	return (power-bucketBits+1)<<bucketBits + int(nanoseconds>>(power-bucketBits)&(1<<bucketBits-1))
}

// upperEnd is the first latency above a bucket.
func upperEnd(bucket int) time.Duration {
	if bucket < 1<<bucketBits {
		return time.Duration(bucket + 1)
	}
	shift := bucket>>bucketBits - 1
	return time.Duration((1<<bucketBits + bucket&(1<<bucketBits-1) + 1) << shift)
}

func (t *tally) note(latency time.Duration, keys, missing int, err error) {
	if err != nil {
		if t.errors == 0 {
			t.firstError = err.Error()
		}
		t.errors++
		return
	}
	t.operations += uint64(keys)
	t.missing += uint64(missing)
	t.calls++
	t.buckets[bucketOf(latency)]++
	t.max = max(t.max, latency)
}

func (t *tally) add(other *tally) {
	t.operations += other.operations
	t.missing += other.missing
	t.errors += other.errors
	if t.firstError == "" {
		t.firstError = other.firstError
	}
	t.calls += other.calls
	t.max = max(t.max, other.max)
	for i, count := range other.buckets {
		t.buckets[i] += count
	}
}

// percentile is the latency that the part `share` of the calls did not exceed; 0 without calls.
func (t *tally) percentile(share float64) time.Duration {
	rank := uint64(share * float64(t.calls))
	for bucket, count := range t.buckets {
		if count > rank {
			return min(upperEnd(bucket), t.max)
		}
		rank -= count
	}
	return t.max
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (t *tally) figures(took time.Duration) Figures {
	return Figures{
		Operations: t.operations, Missing: t.missing, Errors: t.errors, FirstError: t.firstError,
		Seconds: took.Seconds(), P50Ms: milliseconds(t.percentile(0.5)),
		P99Ms: milliseconds(t.percentile(0.99)), MaxMs: milliseconds(t.max),
	}
}
