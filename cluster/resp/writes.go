package resp

import (
	"fmt"
	"sync"
	"time"

	"engine_race/cluster/service"
)

const errOptions = replyError("ERR SET takes a key and a value alone: options such as EX or NX" +
	" would depend on time or state, which no operation here does")

// writeGroup is one Service.Write: the ops of some requests, by their indices.
type writeGroup struct {
	firstRequest, lastRequest int
	firstOp, lastOp           int
	counted                   bool // it has a DEL
	existed                   []bool
	err                       error
}

// appendWriteOps appends the ops of a SET, MSET or DEL. Keys of other sizes are absent: DEL leaves
// them out.
func (s *sizes) appendWriteOps(ops []service.Op, r *request) ([]service.Op, error) {
	arguments := r.arguments[1:]
	switch {
	case r.command.deletes():
		return appendKeyOps(ops, arguments /* read */, false), nil
	case r.command.name == "set":
		if len(arguments) != 2 {
			return ops, errOptions
		}
	case len(arguments)%2 != 0:
		return ops, wrongCount(r.command.name)
	}
	before := len(ops)
	for i := 0; i < len(arguments); i += 2 {
		value := arguments[i+1]
		number, isKey := key(arguments[i])
		if !isKey || len(value) != s.valueBytes {
			return ops[:before], s.refusal(arguments[i], value)
		}
		ops = append(ops, service.Op{Key: number, Value: value})
	}
	return ops, nil
}

// opCount gives the count of ops of a command on keys: those of the right size.
func (r *request) opCount() int {
	if r.command.kind == writes && !r.command.deletes() {
		return (len(r.arguments) - 1) / 2
	}
	count := 0
	for _, argument := range r.command.keys(r.arguments) {
		if len(argument) == service.KeyBytes {
			count++
		}
	}
	return count
}

// executeWrites joins the writes that the requests begin with into groups. Each group is one call,
// the calls are concurrent, and no two of them have a key in common. It answers how many requests
// it replied to.
func (c *client) executeWrites(requests []request) int {
	c.setLast(&requests[0])
	begin := time.Now()
	b := &c.batch
	b.ops, b.groups = b.ops[:0], b.groups[:0]
	count := 0
	for count < len(requests) {
		r := &requests[count]
		if c.refusal(r) != nil || r.command.kind != writes {
			break
		}
		before := len(b.ops)
		grown, err := c.server.sizes.appendWriteOps(b.ops, r)
		if err != nil && count == 0 {
			c.refuse(r, err)
			return 1
		}
		if err != nil {
			break
		}
		b.ops = grown
		if !b.join(count, before, r.command.deletes()) {
			b.ops = b.ops[:before]
			break
		}
		count++
	}
	c.write()
	for i := range b.groups {
		c.replyWrites(&b.groups[i], requests, begin)
	}
	return count
}

// join puts request `index`, whose ops are those from `firstOp` on, into the last group or a new
// one. It answers false if an op's key is in another group: the request must wait for that one.
func (b *batch) join(index, firstOp int, counted bool) bool {
	last := len(b.groups) - 1
	isNew := last < 0 || len(b.ops)-b.groups[last].firstOp > groupWriteOps
	if isNew {
		last++
	}
	if last > 0 {
		if last == 1 && isNew {
			b.groupOf = make(map[uint64]int, 4*groupWriteOps)
			for _, op := range b.ops[:firstOp] {
				b.groupOf[op.Key] = 0
			}
		}
		for _, op := range b.ops[firstOp:] {
			if group, ok := b.groupOf[op.Key]; ok && group != last {
				return false
			}
		}
		for _, op := range b.ops[firstOp:] {
			b.groupOf[op.Key] = last
		}
	}
	if isNew {
		b.groups = append(b.groups, writeGroup{firstRequest: index, firstOp: firstOp})
	}
	group := &b.groups[last]
	group.lastRequest, group.lastOp = index+1, len(b.ops)
	group.counted = group.counted || counted
	return true
}

// write calls the service for each group and waits for all. It holds bytes for the copies of the
// ops that the service makes.
func (c *client) write() {
	var running sync.WaitGroup
	groups := c.batch.groups
	reserved := int64(0)
	for _, op := range c.batch.ops[:groups[len(groups)-1].lastOp] {
		reserved += writeOpBytes + writeCopies*int64(len(op.Value))
	}
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		for i := range groups {
			groups[i].err = errBusyMemory
		}
		return
	}
	defer c.account.Release(reserved)
	for i := range groups[1:] {
		running.Go(func() { c.writeGroup(&groups[i+1]) })
	}
	c.writeGroup(&groups[0])
	running.Wait()
}

func (c *client) writeGroup(group *writeGroup) {
	ops := c.batch.ops[group.firstOp:group.lastOp:group.lastOp]
	if len(ops) == 0 {
		return // A DEL of keys of other sizes.
	}
	group.existed, group.err = c.server.service.Write(c.server.callContext(), ops, group.counted)
	if group.err == nil && group.counted && len(group.existed) != len(ops) {
		group.err = fmt.Errorf("the service gave another number of answers")
	}
	if group.err != nil {
		group.err = serviceReply(group.err, writing)
	}
}

// replyWrites replies to the requests of a group.
func (c *client) replyWrites(group *writeGroup, requests []request, begin time.Time) {
	// Keys that earlier ops of the group have changed. The service tells which keys were there before
	// the whole group.
	var present map[uint64]bool
	if group.counted && group.lastOp-group.firstOp > 1 {
		present = make(map[uint64]bool, group.lastOp-group.firstOp)
	}
	ops := c.batch.ops[group.firstOp:group.lastOp]
	next := 0
	for i := group.firstRequest; i < group.lastRequest; i++ {
		r := &requests[i]
		count := r.opCount()
		deleted := int64(0)
		for ; group.err == nil && group.counted && count > 0; count-- {
			op := &ops[next]
			existed, known := present[op.Key]
			if !known {
				existed = group.existed[next]
			}
			if existed && op.Value == nil {
				deleted++
			}
			if present != nil {
				present[op.Key] = op.Value != nil
			}
			next++
		}
		c.flushFull()
		switch {
		case group.err != nil:
			c.fail(group.err)
		case r.command.deletes():
			c.integer(deleted)
		default:
			c.ok()
		}
		c.observe(r.command.name, begin, group.err)
	}
}
