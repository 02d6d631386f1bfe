package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"engine_race/cluster/engine"
	"engine_race/cluster/service"
)

// A command is the payload of a proposal: a header, then its ops. The header is the version, flags
// and from version 2 on a token of 8 bytes. With reads, 8 bytes more name the replica that proposed
// it: it alone reads, because nobody else waits for the values. The ops are encoded as engine.Batch
// takes them.
//
// The token is the term in which the proposing node led the shard. A replica refuses a command
// whose token is below the highest that it has applied. A node that was stopped while it led can
// hold a write for long. Its client has given up and has written again, through a later leader. The
// late command then finds the later leader's token, and changes nothing. All replicas decide alike,
// because the decision depends on the log alone and on no clock.
const (
	// Version is the newest version of commands that this program knows, and firstVersion the
	// oldest. A node proposes the version on which all nodes have agreed: see Directory.Commands.
	Version      = 5
	firstVersion = 1
	// ReadsVersion is the first version with reads among the ops, and BoundsVersion the first one
	// with changes of the bounds. From version 5 on values may have another size than 4096 bytes: a
	// cluster has one size, so that no command names it.
	ReadsVersion  = 3
	BoundsVersion = 4

	opDelete      = engine.OpDelete
	opPut         = engine.OpPut
	opRead        = engine.OpRead // in commands with flagReads alone
	opHeaderBytes = 1 + service.KeyBytes

	flagCounted = 1
	flagMark    = 2 // from version 2 on: remember this moment, for a comparison of replicas
	flagReads   = 4 // from version 3 on: some ops are reads
	flagBounds  = 8 // from version 4 on: other bounds instead of ops
	// From version 4 on: the keys lie outside of the shard's bounds.
	flagOutside = 16
	knownFlags  = flagCounted | flagMark | flagReads | flagBounds | flagOutside

	// HeaderBytes come before the ops of a command, at most.
	HeaderBytes      = tokenHeaderBytes + 8
	tokenHeaderBytes = 10
	firstHeaderBytes = 2
)

// Results of a command. They must be the same on every replica, unlike the values that it read.
const (
	ResultApplied   = 1
	ResultMalformed = 2 // nothing was applied
	ResultStopped   = 3 // the replica was stopped; others apply the command
	ResultLate      = 4 // nothing was applied: a later leader has written
	ResultMoved     = 5 // nothing was applied: the bounds are other ones than the proposer believed
)

var (
	errMalformed = errors.New("a malformed command")
	// ErrMoved: the shard does not have all the keys of a command or of a query.
	ErrMoved = errors.New("the range of keys has another shard, or is being moved")
	// errNewer: a newer program has proposed the command. A replica that left it out would differ
	// from the others for ever.
	errNewer = errors.New("a command of a newer version than this program knows: install a newer one")
)

// Header is what a command says besides its ops.
type Header struct {
	Version uint8
	Counted bool // the result tells of each op whether its key was there
	Mark    bool
	Reads   bool // ops may be reads, whose values the result has; Counted, too
	Bounds  bool // see NewBounds
	// Outside: the ops are of keys that the shard is about to get, or no longer has. A command whose
	// keys lie within the bounds is refused then: clients write there.
	Outside bool
	Token   uint64
	Reader  uint64 // of a command with reads: see Replica.Reader
}

// OpsBytes is the size of these ops in a command.
func OpsBytes(ops []service.Op) int {
	size := 0
	for _, op := range ops {
		size += opHeaderBytes
		if op.Value != nil {
			size += len(op.Value)
		}
	}
	return size
}

// NewCommand begins a command in `memory`, which is overwritten.
func NewCommand(memory []byte, h Header) []byte {
	flags := byte(0)
	if h.Counted {
		flags |= flagCounted
	}
	if h.Mark {
		flags |= flagMark
	}
	if h.Reads {
		flags |= flagReads
	}
	if h.Bounds {
		flags |= flagBounds
	}
	if h.Outside {
		flags |= flagOutside
	}
	command := append(memory[:0], h.Version, flags)
	if h.Version == firstVersion {
		return command
	}
	command = binary.BigEndian.AppendUint64(command, h.Token)
	if h.Reads {
		command = binary.BigEndian.AppendUint64(command, h.Reader)
	}
	return command
}

// AppendOp adds an op to a command. A value that is not nil has the size of the cluster.
func AppendOp(command []byte, op service.Op) []byte {
	if op.Value == nil {
		opcode := byte(opDelete)
		if op.Read {
			opcode = opRead
		}
		command = append(command, opcode)
		return binary.BigEndian.AppendUint64(command, op.Key)
	}
	command = append(command, opPut)
	command = binary.BigEndian.AppendUint64(command, op.Key)
	return append(command, op.Value...)
}

// parseHeader gives the header of a command and the rest.
func parseHeader(command []byte) (h Header, rest []byte, err error) {
	if len(command) < firstHeaderBytes {
		return h, nil, errMalformed
	}
	flags := command[1]
	h = Header{Version: command[0], Counted: flags&flagCounted != 0, Mark: flags&flagMark != 0,
		Reads: flags&flagReads != 0, Bounds: flags&flagBounds != 0, Outside: flags&flagOutside != 0}
	rest = command[firstHeaderBytes:]
	switch {
	case h.Version == firstVersion && flags <= flagCounted:
		return h, rest, nil
	case h.Version <= firstVersion:
		return h, nil, errMalformed
	case h.Version > Version || flags&^knownFlags != 0:
		return h, nil, fmt.Errorf("%w (version %d, flags %#x)", errNewer, h.Version, flags)
	case len(command) < tokenHeaderBytes, h.Reads &&
		(h.Version < ReadsVersion || !h.Counted || len(command) < HeaderBytes),
		(h.Bounds || h.Outside) && (h.Version < BoundsVersion || h.Counted || h.Mark),
		h.Bounds && (h.Outside || len(command) != tokenHeaderBytes+changeBytes):
		return h, nil, errMalformed
	}
	h.Token = binary.BigEndian.Uint64(rest)
	if h.Reads {
		h.Reader = binary.BigEndian.Uint64(command[tokenHeaderBytes:])
		return h, command[HeaderBytes:], nil
	}
	return h, command[tokenHeaderBytes:], nil
}

// parse checks a command as a whole, and gives its ops.
func parse(command []byte, valueBytes int) (h Header, ops []byte, err error) {
	h, ops, err = parseHeader(command)
	if err == nil && !h.Bounds {
		err = check(ops, h.Reads, valueBytes)
	}
	return h, ops, err
}

// next takes the first op off ops that were checked. Its value lies in the command.
func next(ops []byte, valueBytes int) (op service.Op, rest []byte) {
	op.Key = binary.BigEndian.Uint64(ops[1:])
	if ops[0] != opPut {
		op.Read = ops[0] == opRead
		return op, ops[opHeaderBytes:]
	}
	rest = ops[opHeaderBytes+valueBytes:]
	op.Value = ops[opHeaderBytes : opHeaderBytes+valueBytes]
	return op, rest
}

// next takes the first op off ops of this replica.
func (r *Replica) next(ops []byte) (op service.Op, rest []byte) {
	return next(ops, r.config.ValueBytes)
}

func check(ops []byte, reads bool, valueBytes int) error {
	for len(ops) > 0 {
		size := 0
		switch ops[0] {
		case opDelete:
			size = opHeaderBytes
		case opPut:
			size = opHeaderBytes + valueBytes
		case opRead:
			if reads {
				size = opHeaderBytes
			}
		}
		if size == 0 || len(ops) < size {
			return errMalformed
		}
		ops = ops[size:]
	}
	return nil
}

// CheckCommand gives the header and the ops of a command for this replica, as they are encoded.
// They lie in the command. It counts them, and the reads among them. The error is ErrMoved if a key
// is not one of the shard. Bounds and keys outside of them are no client's to write.
func (r *Replica) CheckCommand(command []byte) (h Header, ops []byte, count, reads int, err error) {
	h, ops, err = parse(command, r.config.ValueBytes)
	switch {
	case err != nil:
	case h.Bounds || h.Outside:
		err = errMalformed
	case !r.mayApply(h, ops):
		err = ErrMoved
	}
	if err != nil {
		return h, nil, 0, 0, err
	}
	for rest := ops; len(rest) > 0; count++ {
		var op service.Op
		if op, rest = r.next(rest); op.Read {
			reads++
		}
	}
	return h, ops, count, reads, nil
}

// A result has one of these bytes for each op. Where a read found a value, the value follows.
const (
	foundNothing = 0
	foundThere   = 1
	foundDamaged = 2 // of a read: its record failed its checksum
)

// FoundBytes is the most that a result tells of a read.
func (r *Replica) FoundBytes() int { return 1 + r.config.ValueBytes }

// ParseFound gives what the result of a counted command tells of its ops. Values lie in the result,
// and have this size.
func ParseFound(ops []service.Op, result []byte, valueBytes int) ([]service.Found, error) {
	found := make([]service.Found, len(ops))
	for i, op := range ops {
		if len(result) == 0 {
			return nil, errMalformed
		}
		kind := result[0]
		result = result[1:]
		found[i] = service.Found{Existed: kind != foundNothing, Damaged: kind == foundDamaged}
		if op.Read && kind == foundThere {
			if len(result) < valueBytes {
				return nil, errMalformed
			}
			found[i].Value = result[:valueBytes:valueBytes]
			result = result[valueBytes:]
		}
	}
	if len(result) > 0 {
		return nil, errMalformed
	}
	return found, nil
}

// parse checks a command and the range of its keys. A command that the store would refuse must not
// get that far: every replica would fail for good.
func (r *Replica) parse(command []byte) (h Header, ops []byte, err error) {
	h, ops, err = parse(command, r.config.ValueBytes)
	for rest := ops; err == nil && !h.Bounds && len(rest) > 0; {
		var op service.Op
		if op, rest = r.next(rest); op.Key < r.config.Lower || op.Key > r.config.Upper {
			err = fmt.Errorf("%w: the shard has never had the key %016x", errMalformed, op.Key)
		}
	}
	return h, ops, err
}
