// Package load has the clients of the cluster bench. It draws keys, measures latencies, and answers
// the orders of the bench's runner, a line of JSON each. A module beside this one takes the same
// source over a link, so the package imports nothing but the standard library.
//
// Run starts goroutines and waits for them. Nothing else here is shared between goroutines.
package load

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Sizes in bytes.
const (
	KeyBytes          = 8
	DefaultValueBytes = 4096
)

// The kinds of Work.
const (
	Fill      = "fill"       // writes each record once, in the order of Index
	Write     = "write"      // writes drawn records
	Read      = "read"       // linearizable reads of drawn records
	LocalRead = "local_read" // reads of what the node has applied, Depth records at a time
	State     = "state"      // says only whether the process leads
)

// answerMark begins the lines that a driver sends. Libraries may print others.
const answerMark = "figures "

// ErrorPause keeps a client that is refused from spinning.
const ErrorPause = time.Millisecond

// Work is an order to a driver.
type Work struct {
	Kind    string  `json:"kind"`
	Seconds float64 `json:"seconds"`
	Clients int     `json:"clients"`
	Records uint64  `json:"records"` // how many different keys there are
	Depth   int     `json:"depth"`   // keys a call; 0 counts as 1
	Seed    uint64  `json:"seed"`
	// ValueBytes is the size of values, 8 or more. 0: DefaultValueBytes.
	ValueBytes int `json:"value_bytes,omitempty"`
	// Calls a second of all clients together; 0: as many as they can. A call that comes late makes
	// those after it no denser, so a pause of the servers is not made up for.
	PerSecond float64  `json:"per_second,omitempty"`
	Addresses []string `json:"addresses,omitempty"` // of servers, when the driver is no server
}

// Figures answer an order. A latency is that of one call.
type Figures struct {
	Operations uint64  `json:"operations"` // records that were written or read without an error
	Missing    uint64  `json:"missing"`    // reads that found no record
	Errors     uint64  `json:"errors"`     // calls that failed
	FirstError string  `json:"first_error,omitempty"`
	Seconds    float64 `json:"seconds"`
	P50Ms      float64 `json:"p50_ms"`
	P99Ms      float64 `json:"p99_ms"`
	MaxMs      float64 `json:"max_ms"`
	Leads      bool    `json:"leads"`
}

// PerSecond is the rate of operations.
func (f Figures) PerSecond() float64 {
	if f.Seconds <= 0 {
		return 0
	}
	return float64(f.Operations) / f.Seconds
}

// Call does the work of client number `client` on keys. The value is for writes; it changes after
// the call. A read says how many keys were missing.
type Call func(client int, keys []uint64, value []byte) (missing int, err error)

// Key spreads the numbers of records over all keys. Different numbers have different keys.
func Key(record uint64) uint64 {
	record += 0x9e3779b97f4a7c15
	record = (record ^ record>>30) * 0xbf58476d1ce4e5b9
	record = (record ^ record>>27) * 0x94d049bb133111eb
	return record ^ record>>31
}

// KeyText is a key as clients send it: 8 bytes, big-endian.
func KeyText(key uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, key)
}

// Size is the size of values.
func (w Work) Size() int { return cmp.Or(w.ValueBytes, DefaultValueBytes) }

// check refuses an order that has no end or nothing to do, and values without room for their keys.
func (w Work) check() error {
	if w.Size() < KeyBytes {
		return fmt.Errorf("values of %d bytes have no room for a key", w.Size())
	}
	if w.Clients <= 0 || w.Records == 0 || (w.Seconds <= 0 && w.Kind != Fill) {
		return fmt.Errorf("an order needs clients, records and seconds: %+v", w)
	}
	return nil
}

// Run lets the clients of an order call until its time is over, or until all records are filled.
func Run(work Work, call Call) (Figures, error) {
	clients, err := NewClients(work)
	if err != nil {
		return Figures{}, err
	}
	var wait sync.WaitGroup
	began := time.Now()
	for number, client := range clients {
		wait.Go(func() {
			for {
				time.Sleep(client.Wait())
				keys, value, more := client.Next()
				if !more {
					return
				}
				sent := time.Now()
				missing, err := call(number, keys, value)
				if !client.Note(time.Since(sent), missing, err) {
					time.Sleep(ErrorPause)
				}
			}
		})
	}
	wait.Wait()
	return Sum(clients, time.Since(began)), nil
}

// Client draws what a client calls for, and counts its calls. It is for one goroutine.
type Client struct {
	work   Work
	end    time.Time
	draws  *rand.Rand
	values *valueMaker
	keys   []uint64
	filled uint64 // the record that Fill writes next
	tally  tally
	due    time.Time // of the next call
}

// NewClients gives the clients of an order, whose time begins now.
func NewClients(work Work) ([]*Client, error) {
	if err := work.check(); err != nil {
		return nil, err
	}
	begin := time.Now()
	end := begin.Add(time.Duration(work.Seconds * float64(time.Second)))
	clients := make([]*Client, work.Clients)
	for i := range clients {
		draws := rand.New(rand.NewPCG(work.Seed, uint64(i)))
		clients[i] = &Client{work: work, end: end, draws: draws,
			values: newValueMaker(draws, work.Size()),
			keys:   make([]uint64, max(work.Depth, 1)), filled: uint64(i)}
		if work.PerSecond > 0 {
			share := float64(i) / work.PerSecond
			clients[i].due = begin.Add(time.Duration(share * float64(time.Second)))
		}
	}
	return clients, nil
}

// Wait is how long the client should wait before its next call.
func (c *Client) Wait() time.Duration { return time.Until(c.due) }

// Next gives the keys of the next call, and a value for them if it writes. Both may be used until
// Next is called again. It gives false for `more` when the client's work is done.
func (c *Client) Next() (keys []uint64, value []byte, more bool) {
	if c.work.Kind == Fill {
		if c.filled >= c.work.Records || c.tally.errors > maxFillErrors {
			return nil, nil, false
		}
		c.keys = append(c.keys[:0], Key(c.filled))
	} else {
		if !time.Now().Before(c.end) {
			return nil, nil, false
		}
		for i := range c.keys {
			c.keys[i] = Key(c.draws.Uint64N(c.work.Records))
		}
	}
	if c.work.Kind == Fill || c.work.Kind == Write {
		value = c.values.make(c.keys[0])
	}
	if c.work.PerSecond > 0 {
		interval := time.Duration(float64(c.work.Clients) / c.work.PerSecond * float64(time.Second))
		c.due = c.due.Add(interval)
		if now := time.Now(); c.due.Before(now) {
			c.due = now
		}
	}
	return c.keys, value, true
}

// Note counts a call and how it ended. It returns false if the call failed: the client then pauses
// for ErrorPause.
func (c *Client) Note(took time.Duration, missing int, err error) bool {
	c.tally.note(took, len(c.keys), missing, err)
	if err != nil {
		return false
	}
	c.filled += uint64(c.work.Clients)
	return true
}

// Sum gives the figures of all clients together.
func Sum(clients []*Client, took time.Duration) Figures {
	var total tally
	for _, client := range clients {
		total.add(&client.tally)
	}
	return total.figures(took)
}

// maxFillErrors is how many calls of one client may fail before it gives up filling.
const maxFillErrors = 1000

// leastNoise is how many windows there are at least.
const leastNoise = 15 * DefaultValueBytes

// valueMaker makes values that do not compress, cheaply: windows of random bytes.
type valueMaker struct {
	draws *rand.Rand
	noise []byte
	value []byte
}

func newValueMaker(draws *rand.Rand, valueBytes int) *valueMaker {
	noise := make([]byte, (valueBytes+max(valueBytes, leastNoise))/8*8+8)
	for i := 0; i < len(noise); i += 8 {
		binary.LittleEndian.PutUint64(noise[i:], draws.Uint64())
	}
	return &valueMaker{draws: draws, noise: noise, value: make([]byte, valueBytes)}
}

func (m *valueMaker) make(key uint64) []byte {
	copy(m.value, m.noise[m.draws.IntN(len(m.noise)-len(m.value)):])
	binary.BigEndian.PutUint64(m.value, key)
	return m.value
}

// Serve answers each order from `orders` with a line on `answers`, until the input ends.
func Serve(orders io.Reader, answers io.Writer, do func(Work) (Figures, error)) error {
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		var work Work
		if err := json.Unmarshal(lines.Bytes(), &work); err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		figures, err := do(work)
		if err != nil {
			figures.Errors++
			figures.FirstError = err.Error()
		}
		line, err := json.Marshal(figures)
		if err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
		if _, err := fmt.Fprintf(answers, "%s%s\n", answerMark, line); err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
	}
	return lines.Err()
}

// ErrNoAnswer: the driver ended before it answered.
var ErrNoAnswer = errors.New("the driver ended without an answer")

// Ask sends an order to a driver and waits for the answer.
func Ask(orders io.Writer, answers *bufio.Reader, work Work) (Figures, error) {
	line, err := json.Marshal(work)
	if err != nil {
		return Figures{}, fmt.Errorf("writing an order: %w", err)
	}
	if _, err := fmt.Fprintf(orders, "%s\n", line); err != nil {
		return Figures{}, fmt.Errorf("sending an order: %w", err)
	}
	for {
		text, err := answers.ReadString('\n')
		if err != nil {
			return Figures{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		found, isAnswer := strings.CutPrefix(text, answerMark)
		if !isAnswer {
			continue
		}
		var figures Figures
		if err := json.Unmarshal([]byte(found), &figures); err != nil {
			return Figures{}, fmt.Errorf("reading an answer: %w", err)
		}
		return figures, nil
	}
}
