package resp

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"engine_race/cluster/service"
)

// scanArguments are those of SCAN.
type scanArguments struct {
	cursor  uint64
	count   int
	pattern []byte // nil: all keys
	others  bool   // keys of another type, of which there are none
}

// parseScan reads SCAN cursor [MATCH pattern] [COUNT count] [TYPE type].
func parseScan(arguments [][]byte) (scanArguments, error) {
	parsed := scanArguments{count: DefaultScanKeys}
	var err error
	if parsed.cursor, err = strconv.ParseUint(string(clip(arguments[1])), 10, 64); err != nil ||
		parsed.cursor >= scanBlocks {
		return parsed, replyError("ERR invalid cursor")
	}
	for rest := arguments[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return parsed, errSyntax
		}
		switch strings.ToLower(clip(rest[0])) {
		case "match":
			if len(rest[1]) > patternBytes {
				return parsed, errPattern(rest[1])
			}
			parsed.pattern = rest[1]
		case "count":
			count, ok := parseLength(rest[1], math.MaxInt32)
			if !ok {
				return parsed, errNotInteger
			}
			if count < 1 {
				return parsed, errSyntax
			}
			parsed.count = min(count, MaxScanKeys)
		case "type":
			parsed.others = !strings.EqualFold(clip(rest[1]), "string")
		default:
			return parsed, errSyntax
		}
	}
	return parsed, nil
}

// A cursor is the next key without its lowest bits: below 2^53, for some clients read it as a
// floating-point number. So a page never ends within the keys of one block, which differ in these
// bits alone. Every node understands it at all times, and it grows with each page.
const (
	scanBlockBits = 11
	scanBlockKeys = 1 << scanBlockBits
	scanBlocks    = 1 << (64 - scanBlockBits)
)

// scan serves SCAN. Keys that are there during a whole iteration come exactly once.
func (c *client) scan(arguments [][]byte) error {
	parsed, err := parseScan(arguments)
	if err != nil {
		return err
	}
	reserved := int64(parsed.count+1+scanBlockKeys) * scanKeyBytes
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		return errBusyMemory
	}
	defer c.account.Release(reserved)
	records, next, err := c.scanPage(parsed.cursor, parsed.count)
	if err != nil {
		return err
	}
	keys := matching(records, parsed.pattern)
	if parsed.others {
		keys = nil
	}
	c.array(2)
	c.word(strconv.FormatUint(next, 10))
	c.replyKeys(keys)
	return nil
}

// scanPage gives the keys from a cursor on, and the next cursor: 0 at the end. They are up to
// `count`, or all of one block.
func (c *client) scanPage(cursor uint64, count int) ([]service.Record, uint64, error) {
	ctx := c.server.callContext()
	records, more, err := c.server.service.Scan(ctx, cursor<<scanBlockBits, nil, count+1, false,
		c.consistency())
	if err != nil {
		return nil, 0, serviceReply(err, reading)
	}
	if len(records) <= count && !more {
		return records, 0, nil
	}
	if len(records) == 0 {
		return nil, 0, replyError("UNAVAILABLE nothing was done: the scan found no end")
	}
	last := records[len(records)-1].Key
	block := last >> scanBlockBits
	whole := len(records)
	for whole > 0 && records[whole-1].Key>>scanBlockBits == block {
		whole--
	}
	if whole > 0 {
		return records[:whole], block, nil
	}
	next := (block + 1) % scanBlocks
	if end := next << scanBlockBits; last+1 != end {
		var upper *uint64
		if next != 0 {
			upper = &end
		}
		rest, _, err := c.server.service.Scan(ctx, last+1, upper, scanBlockKeys, false,
			c.consistency())
		if err != nil {
			return nil, 0, serviceReply(err, reading)
		}
		records = append(records, rest...)
	}
	return records, next, nil
}

// keys serves KEYS pattern. It refuses patterns that many keys match, and walks no longer than a
// request may take.
func (c *client) keys(arguments [][]byte) error {
	pattern := arguments[1]
	if len(pattern) > patternBytes {
		return errPattern(pattern)
	}
	const reserved = 2 * MaxScanKeys * scanKeyBytes // A page, and the keys that match.
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		return errBusyMemory
	}
	defer c.account.Release(reserved)
	ctx := c.server.callContext()
	var found []service.Record
	for lower, more := uint64(0), true; more; {
		page, further, err := c.server.service.Scan(ctx, lower, nil, MaxScanKeys, false,
			c.consistency())
		if err != nil {
			return serviceReply(err, reading)
		}
		if len(page) > 0 {
			lower = page[len(page)-1].Key + 1
		}
		more = further && len(page) > 0 && lower != 0
		if found = append(found, matching(page, pattern)...); len(found) > MaxScanKeys {
			return replyError(fmt.Sprintf("ERR KEYS gives at most %d keys, and more match: SCAN"+
				" gives all of them", MaxScanKeys))
		}
	}
	c.replyKeys(found)
	return nil
}

func (c *client) replyKeys(records []service.Record) {
	c.array(len(records))
	for i := range records {
		c.appendKey(records[i].Key)
	}
}

// matching leaves those of the records whose keys match a pattern; nil: all of them.
func matching(records []service.Record, pattern []byte) []service.Record {
	if pattern == nil {
		return records
	}
	matched := records[:0]
	for _, record := range records {
		var text [service.KeyBytes]byte
		binary.BigEndian.PutUint64(text[:], record.Key)
		if matchGlob(pattern, text[:]) {
			matched = append(matched, record)
		}
	}
	return matched
}

func errPattern(pattern []byte) error {
	return replyError(fmt.Sprintf("ERR a pattern has at most %d bytes, not %d", patternBytes,
		len(pattern)))
}

func (c *client) appendKey(number uint64) {
	c.flushFull()
	c.out = append(c.out, "$8\r\n"...)
	c.out = binary.BigEndian.AppendUint64(c.out, number)
	c.out = append(c.out, "\r\n"...)
}

// rangeArguments are those of RANGE.
type rangeArguments struct {
	lower uint64
	upper *uint64 // nil: open
	limit int
	empty bool // no key can be in the range
}

// parseRange reads RANGE lower upper [LIMIT count]. As a bound, `-` is before the first key and `+`
// is behind the last one.
func (s *sizes) parseRange(arguments [][]byte) (rangeArguments, error) {
	parsed := rangeArguments{limit: s.rangeRecords}
	if len(arguments) != 3 && len(arguments) != 5 {
		return parsed, errSyntax
	}
	switch lower := arguments[1]; {
	case string(lower) == "-":
	case string(lower) == "+":
		parsed.empty = true
	default:
		isKey := false
		if parsed.lower, isKey = key(lower); !isKey {
			return parsed, s.keyRefusal(lower)
		}
	}
	switch upper := arguments[2]; {
	case string(upper) == "+":
	case string(upper) == "-":
		parsed.empty = true
	default:
		number, isKey := key(upper)
		if !isKey {
			return parsed, s.keyRefusal(upper)
		}
		parsed.upper = &number
		parsed.empty = parsed.empty || number <= parsed.lower
	}
	if len(arguments) == 3 {
		return parsed, nil
	}
	if !strings.EqualFold(clip(arguments[3]), "limit") {
		return parsed, errSyntax
	}
	limit, ok := parseLength(arguments[4], math.MaxInt32)
	if !ok || limit < 1 || limit > s.maxRangeRecords {
		return parsed, replyError(fmt.Sprintf("ERR LIMIT is a number from 1 to %d",
			s.maxRangeRecords))
	}
	parsed.limit = limit
	return parsed, nil
}

// rangeRecords serves RANGE.
func (c *client) rangeRecords(arguments [][]byte) error {
	parsed, err := c.server.sizes.parseRange(arguments)
	if err != nil {
		return err
	}
	if parsed.empty {
		c.array(0)
		return nil
	}
	reserved := int64(parsed.limit) * int64(c.server.sizes.recordReplyBytes)
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		return errBusyMemory
	}
	defer c.account.Release(reserved)
	ctx := c.server.callContext()
	records, _, err := c.server.service.Scan(ctx, parsed.lower, parsed.upper, parsed.limit, true,
		c.consistency())
	if err != nil {
		return serviceReply(err, reading)
	}
	c.array(2 * len(records))
	for i := range records {
		c.appendKey(records[i].Key)
		c.bulk(records[i].Value)
	}
	return nil
}

// dbsize serves DBSIZE.
func (c *client) dbsize([][]byte) error {
	ctx := c.server.callContext()
	count, err := c.server.service.Count(ctx)
	if err != nil {
		return serviceReply(err, reading)
	}
	c.integer(int64(count))
	return nil
}
