package resp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/redcon"

	"engine_race/cluster/service"
)

// batch has memory that rounds of one connection use again.
type batch struct {
	requests []request
	keys     []uint64
	ops      []service.Op
	groups   []writeGroup
	groupOf  map[uint64]int // key -> the group with ops of it
}

// shrink drops memory that few rounds need.
func (b *batch) shrink() {
	clear(b.ops)
	clear(b.requests)
	if cap(b.requests) > baseSpans {
		b.requests = nil
	}
	if cap(b.keys) > baseSpans || cap(b.ops) > baseSpans {
		b.keys, b.ops = nil, nil
	}
	if len(b.groupOf) > baseSpans {
		b.groupOf = nil
	}
}

// key reads a key's 8 bytes.
func key(argument []byte) (uint64, error) {
	if len(argument) != service.KeyBytes {
		return 0, replyError(fmt.Sprintf(errKeyFormat, len(argument)))
	}
	return binary.BigEndian.Uint64(argument), nil
}

func (c *client) consistency() service.Consistency {
	if c.local {
		return service.Local
	}
	return service.Linearizable
}

// appendReadKeys appends the keys that a GET, MGET or EXISTS asks for.
func appendReadKeys(keys []uint64, r *request) ([]uint64, error) {
	if len(r.arguments)-1 > MaxReadKeys {
		return keys, replyError(fmt.Sprintf("ERR %s takes at most %d keys, not %d",
			r.command.name, MaxReadKeys, len(r.arguments)-1))
	}
	before := len(keys)
	for _, argument := range r.arguments[1:] {
		number, err := key(argument)
		if err != nil {
			return keys[:before], err
		}
		keys = append(keys, number)
	}
	return keys, nil
}

// executeReads joins the reads that the requests begin with into one Service.Read. It answers how
// many requests it replied to.
func (c *client) executeReads(requests []request) int {
	c.setLast(&requests[0])
	begin := time.Now()
	keys := c.batch.keys[:0]
	count := 0
	for count < len(requests) {
		r := &requests[count]
		if c.refusal(r) != nil || r.command.kind != reads ||
			count > 0 && len(keys)+len(r.arguments)-1 > groupReadKeys {
			break
		}
		grown, err := appendReadKeys(keys, r)
		if err != nil && count == 0 {
			c.refuse(r, err)
			return 1
		}
		if err != nil {
			break
		}
		keys = grown
		count++
	}
	c.batch.keys = keys
	c.readAndReply(requests[:count], keys, begin)
	return count
}

// readAndReply reads the keys of all requests in one call.
func (c *client) readAndReply(requests []request, keys []uint64, begin time.Time) {
	reserved := int64(len(keys)) * valueReplyBytes
	var values [][]byte
	err := error(errBusyMemory)
	if c.account.Acquire(reserved, c.server.limits.BusyWait) {
		defer c.account.Release(reserved)
		var free func()
		values, free, err = c.server.service.Read(c.server.callContext(), keys, c.consistency())
		if err == nil {
			defer free()
			if len(values) != len(keys) {
				err = errors.New("the service gave another number of values")
			}
		}
		if err != nil {
			err = serviceReply(err, reading)
		}
	}
	for i := range requests {
		r := &requests[i]
		if err != nil {
			c.fail(err)
		} else {
			c.replyValues(r, values[:len(r.arguments)-1])
			values = values[len(r.arguments)-1:]
		}
		c.observe(r.command.name, begin, err)
	}
}

// replyValues replies to a GET, MGET or EXISTS.
func (c *client) replyValues(r *request, values [][]byte) {
	c.flushFull()
	if r.command.name == "exists" {
		existing := int64(0)
		for _, value := range values {
			if value != nil {
				existing++
			}
		}
		c.out = redcon.AppendInt(c.out, existing)
		return
	}
	if r.command.name == "mget" {
		c.out = redcon.AppendArray(c.out, len(values))
	}
	for _, value := range values {
		if value == nil {
			c.flushFull()
			c.out = redcon.AppendNull(c.out)
		} else {
			c.bulk(value)
		}
	}
}
