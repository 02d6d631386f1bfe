package replica

// A shard knows which keys it has: its bounds, with their version. A command of its log changes
// them, and says from which version on. Clients' commands and queries with other keys are refused
// from that entry on, by all replicas alike. So nothing is written outside of its shard, whatever
// map of the ranges a node believes in.
//
// A shard that was split keeps the records of the keys that it has lost, until the other shard has
// copied them. The other one begins without keys. It gets its records first, by commands whose keys
// lie outside of its bounds, and then its bounds. From then on it refuses such commands, so that a
// copy that comes late does not hide what clients have written.

import (
	"encoding/binary"
	"fmt"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/service"
)

// changeBytes is the size of the former version and the bounds in a command.
const changeBytes = 8 + boundsBytes

func appendBounds(data []byte, b keyspace.Entry) []byte {
	data = binary.BigEndian.AppendUint64(data, b.First)
	data = binary.BigEndian.AppendUint64(data, b.Last)
	return binary.BigEndian.AppendUint64(data, b.Version)
}

func parseBounds(data []byte) keyspace.Entry {
	return keyspace.Entry{First: binary.BigEndian.Uint64(data),
		Last: binary.BigEndian.Uint64(data[8:]), Version: binary.BigEndian.Uint64(data[16:])}
}

func (p *position) hasBounds() bool { return p.bounds.Version != 0 }

// NewBounds makes a command that changes the bounds of a shard. Replicas refuse it unless the
// version of the present bounds is `from`.
func NewBounds(token, from uint64, to keyspace.Entry) []byte {
	command := NewCommand(nil, Header{Version: BoundsVersion, Bounds: true, Token: token})
	return appendBounds(binary.BigEndian.AppendUint64(command, from), to)
}

// Bounds gives the keys of the shard. Version 0: it has none yet.
func (r *Replica) Bounds() keyspace.Entry { return *r.bounds.Load() }

// StoreBounds gives the keys that the store may have records of.
func (r *Replica) StoreBounds() keyspace.Entry {
	return keyspace.Entry{First: r.config.Lower, Last: r.config.Upper}
}

func (r *Replica) setBounds(at position) {
	b := at.bounds
	if !at.hasBounds() && !r.config.Closed {
		b = r.StoreBounds()
		b.Version = 1
	}
	r.bounds.Store(&b)
}

// hasAll tells whether bounds have all keys from `first` to `last`.
func hasAll(b keyspace.Entry, first, last uint64) bool {
	return b.Version != 0 && b.Has(first) && b.Has(last)
}

// HasKey tells whether the shard has a key.
func (r *Replica) HasKey(key uint64) bool { return hasAll(r.Bounds(), key, key) }

// HasKeys tells whether the shard has the keys of ops in a command that was checked.
func (r *Replica) HasKeys(ops []byte) bool { return r.mayApply(Header{}, ops) }

// mayApply tells whether the keys of ops lie within the bounds, or outside of them if the command
// says so.
func (r *Replica) mayApply(h Header, ops []byte) bool {
	bounds := r.Bounds()
	for len(ops) > 0 {
		var op service.Op
		if op, ops = r.next(ops); hasAll(bounds, op.Key, op.Key) == h.Outside {
			return false
		}
	}
	return true
}

// changeBounds applies a command of NewBounds.
func (r *Replica) changeBounds(entry *statemachine.Entry, change []byte, at *position) error {
	from, to := binary.BigEndian.Uint64(change), parseBounds(change[8:])
	if to.Version <= from || to.Last < to.First || to.First < r.config.Lower ||
		to.Last > r.config.Upper {
		entry.Result.Value = ResultMalformed
		return nil
	}
	if r.Bounds().Version != from {
		entry.Result.Value = ResultMoved
		return nil
	}
	// Lookups see the bounds from here on. Records of new keys are in the store by then, and those of
	// former ones are deleted by later entries alone.
	if err := r.writer.flush(); err != nil {
		return err
	}
	at.bounds = to
	r.setBounds(*at)
	r.config.Logger.Info("the shard has other bounds", "first", fmt.Sprintf("%016x", to.First),
		"last", fmt.Sprintf("%016x", to.Last), "version", to.Version)
	entry.Result.Value = ResultApplied
	return nil
}

// within calls a look-up that is of all keys from `first` to `last`. It fails if the shard has not
// all of them, or loses some meanwhile: records of these may be missing.
func (r *Replica) within(first, last uint64, look func() error) error {
	before := r.Bounds()
	if !hasAll(before, first, last) {
		return ErrMoved
	}
	err := look()
	if err == nil && r.Bounds() != before {
		return ErrMoved
	}
	return err
}

// ScanCopied is a scan of the records that a shard without keys has got so far.
func (r *Replica) ScanCopied(q *ScanQuery) error {
	return r.withStore(func() error {
		if r.Bounds().Version != 0 {
			return ErrMoved
		}
		return r.scan(q)
	})
}

// outside calls a look-up of keys that the shard has no longer, and which it will not get again.
func (r *Replica) outside(first, last uint64, look func() error) error {
	bounds := r.Bounds()
	if bounds.Version == 0 || first <= bounds.Last && last >= bounds.First {
		return ErrMoved
	}
	return look()
}
