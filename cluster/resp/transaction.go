package resp

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"engine_race/cluster/service"
)

// maxTransactionOps bounds the keys of one transaction, each as often as it is named.
const maxTransactionOps = 1024

// transaction has the commands of a connection since MULTI. One shard has all their keys, so that
// EXEC can do them in one step.
type transaction struct {
	open     bool
	failed   bool // a command was refused: EXEC does nothing, and nothing is kept
	begun    time.Time
	requests []request
	shard    uint64
	ops      int
	readKeys int
	bytes    int   // of the arguments, which are copies
	held     int64 // bytes in flight
}

// endTransaction forgets the commands that are queued.
func (c *client) endTransaction() {
	c.account.Release(c.queued.held)
	c.queued = transaction{}
}

// failTransaction forgets them when one was refused. EXEC is still to come.
func (c *client) failTransaction() {
	if c.queued.open {
		begun := c.queued.begun
		c.endTransaction()
		c.queued = transaction{open: true, failed: true, begun: begun}
	}
}

func (c *client) multi([][]byte) error {
	if c.queued.open {
		return replyError("ERR MULTI calls can not be nested")
	}
	c.queued = transaction{open: true, begun: time.Now()}
	c.ok()
	return nil
}

func (c *client) discardQueued([][]byte) error {
	if !c.queued.open {
		return replyError("ERR DISCARD without MULTI")
	}
	c.endTransaction()
	c.ok()
	return nil
}

// queue keeps a command for EXEC.
func (c *client) queue(r *request) error {
	if r.command.kind == single {
		return replyError("ERR " + strings.ToUpper(r.command.name) + " is not possible in a" +
			" transaction: it takes commands on keys alone")
	}
	ops, err := c.server.sizes.appendOps(nil, r)
	if err != nil {
		return err
	}
	q := &c.queued
	if q.failed {
		c.simple("QUEUED")
		return nil
	}
	for i, op := range ops {
		switch shard := c.server.service.ShardOf(op.Key); {
		case q.ops+i == 0:
			q.shard = shard
		case shard != q.shard:
			return replyError("ERR the keys of a transaction must lie in one shard: they lie in" +
				" several")
		}
	}
	size := 0
	for _, argument := range r.arguments {
		size += len(argument)
	}
	limits := &c.server.limits
	if q.ops+len(ops) > maxTransactionOps || len(q.requests) >= maxTransactionOps ||
		q.bytes+size > limits.CommandBytes {
		return replyError(fmt.Sprintf("ERR a transaction has at most %d commands, %d keys and %d"+
			" bytes", maxTransactionOps, maxTransactionOps, limits.CommandBytes))
	}
	readKeys := 0
	if r.command.kind == reads {
		readKeys = len(ops)
	}
	if most := c.server.sizes.maxTransactionReads; q.readKeys+readKeys > most {
		return replyError(fmt.Sprintf("ERR a transaction reads at most %d keys", most))
	}
	// The copies of the arguments, those that the service makes, and the values of reads.
	held := int64((1+writeCopies)*size + len(r.arguments)*spanBytes + len(ops)*writeOpBytes)
	held += int64(readKeys * writeCopies * c.server.sizes.valueReplyBytes)
	if !c.account.Acquire(held, limits.BusyWait) {
		return errBusyMemory
	}
	kept := request{command: r.command, arguments: make([][]byte, len(r.arguments))}
	for i, argument := range r.arguments {
		kept.arguments[i] = bytes.Clone(argument)
	}
	q.requests = append(q.requests, kept)
	q.ops, q.bytes, q.held = q.ops+len(ops), q.bytes+size, q.held+held
	q.readKeys += readKeys
	c.simple("QUEUED")
	return nil
}

// appendOps appends the ops of a command on keys.
func (s *sizes) appendOps(ops []service.Op, r *request) ([]service.Op, error) {
	if r.command.kind == writes {
		return s.appendWriteOps(ops, r)
	}
	return appendKeyOps(ops, r.command.keys(r.arguments) /* read */, true), nil
}

// exec serves EXEC: all commands in one step, or none.
func (c *client) exec([][]byte) error {
	if !c.queued.open {
		return replyError("ERR EXEC without MULTI")
	}
	defer c.endTransaction()
	if c.queued.failed {
		return replyError("EXECABORT Transaction discarded because of previous errors.")
	}
	requests := c.queued.requests
	var ops []service.Op
	reading := true
	for i := range requests {
		ops, _ = c.server.sizes.appendOps(ops, &requests[i]) // It was looked at when it was queued.
		reading = reading && requests[i].command.kind == reads
	}
	if reading {
		return c.execReads(requests, ops)
	}
	var found []service.Found
	if len(ops) > 0 {
		var err error
		found, err = c.server.service.Transact(c.server.callContext(), ops)
		if err == nil && len(found) != len(ops) {
			err = fmt.Errorf("the service gave another number of answers")
		}
		if err != nil {
			return serviceReply(err, writing)
		}
	}
	c.array(len(requests))
	for i := range requests {
		r := &requests[i]
		count := r.opCount()
		if err := c.replyQueued(r, ops[:count], found[:count]); err != nil {
			c.fail(err)
		}
		ops, found = ops[count:], found[count:]
	}
	return nil
}

// execReads serves an EXEC without writes: the keys of one shard are read at one moment.
func (c *client) execReads(requests []request, ops []service.Op) error {
	keys := make([]uint64, len(ops))
	for i, op := range ops {
		keys[i] = op.Key
	}
	values, held, err := c.readKeys(keys)
	defer held.release()
	if err != nil {
		return err
	}
	c.array(len(requests))
	for i := range requests {
		if err := c.replyRead(&requests[i], &values); err != nil {
			c.fail(err)
		}
	}
	return nil
}

// replyQueued replies to a command of a transaction with writes.
func (c *client) replyQueued(r *request, ops []service.Op, found []service.Found) error {
	c.flushFull()
	deleted := int64(0)
	values := make([][]byte, len(found))
	for i := range found {
		if found[i].Damaged {
			return replyError("CORRUPT the other commands were done: stored data failed its checksum")
		}
		if values[i] = found[i].Value; found[i].Existed {
			deleted++
		}
	}
	switch {
	case r.command.kind == reads:
		return c.replyRead(r, &values)
	case r.command.deletes():
		c.integer(deleted)
	default:
		c.ok()
	}
	return nil
}
