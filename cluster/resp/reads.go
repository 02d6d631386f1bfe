package resp

import (
	"errors"
	"fmt"
	"time"

	"engine_race/cluster/budget"
	"engine_race/cluster/service"
)

func (c *client) consistency() service.Consistency {
	if c.local {
		return service.Local
	}
	return service.Linearizable
}

// appendReadKeys appends the keys that a read asks for. It leaves out those of other sizes: they
// are absent.
func (s *sizes) appendReadKeys(keys []uint64, r *request) ([]uint64, error) {
	named := r.command.keys(r.arguments)
	if len(named) > s.maxReadKeys {
		return keys, replyError(fmt.Sprintf("ERR %s takes at most %d keys, not %d",
			r.command.name, s.maxReadKeys, len(named)))
	}
	for _, argument := range named {
		if number, isKey := key(argument); isKey {
			keys = append(keys, number)
		}
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
			count > 0 && len(keys)+len(r.arguments)-1 > c.server.sizes.groupReadKeys {
			break
		}
		grown, err := c.server.sizes.appendReadKeys(keys, r)
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
	values, held, err := c.readKeys(keys)
	defer held.release()
	for i := range requests {
		r := &requests[i]
		failure := err
		if failure == nil {
			failure = c.replyRead(r, &values)
		}
		if failure != nil {
			c.fail(failure)
		}
		c.observe(r.command.name, begin, failure)
	}
}

// heldRead is what a read holds until its values are no longer used.
type heldRead struct {
	account *budget.Account
	bytes   int64
	free    func() // nil: the service holds nothing
}

func (h heldRead) release() {
	if h.free != nil {
		h.free()
	}
	if h.account != nil {
		h.account.Release(h.bytes)
	}
}

// readKeys gives the values of keys, nil for an absent one. They may be used until `held` is
// released, which holds bytes in flight until then.
func (c *client) readKeys(keys []uint64) (values [][]byte, held heldRead, err error) {
	if len(keys) == 0 {
		return nil, held, nil
	}
	reserved := int64(len(keys)) * int64(c.server.sizes.valueReplyBytes)
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		return nil, held, errBusyMemory
	}
	held.account, held.bytes = c.account, reserved
	values, held.free, err = c.server.service.Read(c.server.callContext(), keys, c.consistency())
	if err == nil && len(values) != len(keys) {
		err = errors.New("the service gave another number of values")
	}
	if err != nil {
		err = serviceReply(err, reading)
	}
	return values, held, err
}

// replyRead replies to a read. It takes the values of its keys from the front of `values`.
func (c *client) replyRead(r *request, values *[][]byte) error {
	c.flushFull()
	named, sized := r.command.keys(r.arguments), r.opCount()
	own := (*values)[:sized:sized]
	*values = (*values)[sized:]
	if sized == len(named) {
		return r.command.reply(c, r, own)
	}
	all := make([][]byte, len(named))
	for i, argument := range named {
		if len(argument) == service.KeyBytes {
			all[i], own = own[0], own[1:]
		}
	}
	return r.command.reply(c, r, all)
}

func (c *client) value(value []byte) {
	if value == nil {
		c.flushFull()
		c.null()
		return
	}
	c.bulk(value)
}

func (c *client) replyValue(_ *request, values [][]byte) error {
	c.value(values[0])
	return nil
}

func (c *client) replyValues(_ *request, values [][]byte) error {
	c.array(len(values))
	for _, value := range values {
		c.value(value)
	}
	return nil
}

func (c *client) replyExisting(_ *request, values [][]byte) error {
	existing := int64(0)
	for _, value := range values {
		if value != nil {
			existing++
		}
	}
	c.integer(existing)
	return nil
}

func (c *client) replyLength(_ *request, values [][]byte) error {
	c.integer(int64(len(values[0])))
	return nil
}

func (c *client) replyType(_ *request, values [][]byte) error {
	if values[0] == nil {
		c.simple("none")
		return nil
	}
	c.simple("string")
	return nil
}

// replyTimeLeft replies to TTL and PTTL: -2 for an absent key, -1 for one that does not expire.
func (c *client) replyTimeLeft(_ *request, values [][]byte) error {
	if values[0] == nil {
		c.integer(-2)
		return nil
	}
	c.integer(-1)
	return nil
}
