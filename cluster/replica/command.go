package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"engine_race/cluster/service"
)

// A command is the payload of a proposal: two bytes of header, then its ops. An op is an opcode,
// the key as 8 bytes big-endian, and for a put the value.
const (
	commandVersion = 1
	opDelete       = 0
	opPut          = 1
	opHeaderBytes  = 1 + service.KeyBytes
	putBytes       = opHeaderBytes + service.ValueBytes
	flagCounted    = 1

	// HeaderBytes come before the ops of a command.
	HeaderBytes = 2
)

// Results of a command. They must be the same on every replica.
const (
	ResultApplied   = 1
	ResultMalformed = 2 // nothing was applied
	ResultStopped   = 3 // the replica was stopped; others apply the command
)

var errMalformed = errors.New("a malformed command")

// OpsBytes is the size of these ops in a command.
func OpsBytes(ops []service.Op) int {
	size := 0
	for _, op := range ops {
		size += opHeaderBytes
		if op.Value != nil {
			size += service.ValueBytes
		}
	}
	return size
}

// NewCommand begins a command in `memory`, which is overwritten. With counted the result tells of
// each op whether its key was there.
func NewCommand(memory []byte, counted bool) []byte {
	flags := byte(0)
	if counted {
		flags = flagCounted
	}
	return append(memory[:0], commandVersion, flags)
}

// AppendOp adds an op to a command. A value that is not nil has 4096 bytes.
func AppendOp(command []byte, op service.Op) []byte {
	if op.Value == nil {
		command = append(command, opDelete)
		return binary.BigEndian.AppendUint64(command, op.Key)
	}
	command = append(command, opPut)
	command = binary.BigEndian.AppendUint64(command, op.Key)
	return append(command, op.Value...)
}

// parse checks a command as a whole, and gives its ops.
func parse(command []byte) (ops []byte, counted bool, err error) {
	if len(command) < HeaderBytes || command[0] != commandVersion || command[1] > flagCounted {
		return nil, false, errMalformed
	}
	ops = command[HeaderBytes:]
	return ops, command[1] == flagCounted, check(ops)
}

// next takes the first op off ops that were checked. Its value lies in the command.
func next(ops []byte) (op service.Op, rest []byte) {
	op.Key = binary.BigEndian.Uint64(ops[1:])
	if ops[0] == opDelete {
		return op, ops[opHeaderBytes:]
	}
	op.Value = ops[opHeaderBytes:putBytes]
	return op, ops[putBytes:]
}

// checkRange fails if a key of ops that were checked lies outside of the bounds.
func checkRange(ops []byte, lower, upper uint64) error {
	for len(ops) > 0 {
		var op service.Op
		if op, ops = next(ops); op.Key < lower || op.Key > upper {
			return fmt.Errorf("%w: key %016x lies in another shard", errMalformed, op.Key)
		}
	}
	return nil
}

func check(ops []byte) error {
	for len(ops) > 0 {
		size := 0
		switch ops[0] {
		case opDelete:
			size = opHeaderBytes
		case opPut:
			size = putBytes
		}
		if size == 0 || len(ops) < size {
			return errMalformed
		}
		ops = ops[size:]
	}
	return nil
}

// CheckCommand gives the ops of a command for this replica, as they are encoded, and their count.
// They lie in the command.
func (r *Replica) CheckCommand(command []byte) (ops []byte, count int, counted bool, err error) {
	if ops, counted, err = r.parse(command); err != nil {
		return nil, 0, false, err
	}
	for rest := ops; len(rest) > 0; count++ {
		_, rest = next(rest)
	}
	return ops, count, counted, nil
}

// parse checks a command and the range of its keys. A command that the store would refuse must not
// get that far: every replica would fail for good.
func (r *Replica) parse(command []byte) (ops []byte, counted bool, err error) {
	ops, counted, err = parse(command)
	if err == nil {
		err = checkRange(ops, r.config.Lower, r.config.Upper)
	}
	return ops, counted, err
}
