// Package history runs clients against a cluster and records what each of their requests did and
// when. Packages model and ledger judge what it records. A Workload belongs to one goroutine; its
// clients are goroutines of their own, which end before Run returns.
package history

import "engine_race/cluster/check/wire"

// Kind is the command of an operation.
type Kind uint8

// The commands that clients send.
const (
	Set Kind = iota
	Get
	Del
	MSet
	MGet
)

// String names the command.
func (k Kind) String() string { return [...]string{"SET", "GET", "DEL", "MSET", "MGET"}[k] }

// MarshalText names the command in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MaxGroupKeys is the largest number of keys in a group.
const MaxGroupKeys = 4

// Operation is a request with its outcome. Keys are places in the group, from 0 on.
type Operation struct {
	Process int      `json:"process"` // a new one after each unknown outcome of its client
	Node    int      `json:"node"`    // that answered last, or was asked last
	Group   int      `json:"group"`
	Kind    Kind     `json:"kind"`
	Keys    []int    `json:"keys"`
	Written []uint64 `json:"written,omitempty"` // ids, one for each key
	Read    []uint64 `json:"read,omitempty"`    // ids, one for each key; 0: absent
	Deleted int      `json:"deleted,omitempty"` // the answer of DEL
	CallNS  int64    `json:"call_ns"`           // since the history's start
	// RefusedNS is when it was refused for the first time; 0: it was not.
	RefusedNS int64        `json:"refused_ns,omitempty"`
	DoneNS    int64        `json:"done_ns"` // since the history's start
	Outcome   wire.Outcome `json:"outcome"`
	Error     string       `json:"error,omitempty"`
}

// IsRead says whether the operation changes nothing.
func (o *Operation) IsRead() bool { return o.Kind == Get || o.Kind == MGet }

// History is what all clients did.
type History struct {
	Name       string       `json:"name"`
	Groups     [][]uint64   `json:"keys"` // the keys of each group
	Operations []*Operation `json:"operations"`
	Mixed      []string     `json:"mixed,omitempty"` // values that come from no single write
	EndNS      int64        `json:"end_ns"`
}

// Count gives the number of operations with an outcome.
func (h *History) Count(outcome wire.Outcome) int {
	count := 0
	for _, operation := range h.Operations {
		if operation.Outcome == outcome {
			count++
		}
	}
	return count
}
