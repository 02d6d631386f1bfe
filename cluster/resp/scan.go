package resp

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"engine_race/cluster/service"
)

// scanArguments are those of SCAN.
type scanArguments struct {
	cursor  uint64
	count   int
	pattern []byte // nil: all keys
}

// parseScan reads SCAN cursor [MATCH pattern] [COUNT count].
func parseScan(arguments [][]byte) (scanArguments, error) {
	parsed := scanArguments{count: DefaultScanKeys}
	var err error
	if parsed.cursor, err = strconv.ParseUint(string(clip(arguments[1])), 10, 64); err != nil {
		return parsed, replyError("ERR invalid cursor")
	}
	for rest := arguments[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return parsed, errSyntax
		}
		switch strings.ToLower(clip(rest[0])) {
		case "match":
			if len(rest[1]) > patternBytes {
				return parsed, replyError(fmt.Sprintf("ERR a pattern has at most %d bytes, not %d",
					patternBytes, len(rest[1])))
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
		default:
			return parsed, errSyntax
		}
	}
	return parsed, nil
}

// scan serves SCAN. The cursor is the next key as a decimal number. Keys that are there during a
// whole iteration come exactly once.
func (c *client) scan(arguments [][]byte) error {
	parsed, err := parseScan(arguments)
	if err != nil {
		return err
	}
	reserved := int64(parsed.count) * scanKeyBytes
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		return errBusyMemory
	}
	defer c.account.Release(reserved)
	ctx := c.server.callContext()
	records, more, err := c.server.service.Scan(ctx, parsed.cursor, nil, parsed.count, false,
		c.consistency())
	if err != nil {
		return serviceReply(err, reading)
	}
	next := uint64(0)
	if more {
		if len(records) == 0 {
			return replyError("UNAVAILABLE nothing was done: the scan found no end")
		}
		next = records[len(records)-1].Key + 1 // 0 behind the greatest key: the end.
	}
	keys := records[:0]
	for _, record := range records {
		var text [service.KeyBytes]byte
		binary.BigEndian.PutUint64(text[:], record.Key)
		if parsed.pattern == nil || matchGlob(parsed.pattern, text[:]) {
			keys = append(keys, record)
		}
	}
	c.out = redcon.AppendArray(c.out, 2)
	c.out = redcon.AppendBulkString(c.out, strconv.FormatUint(next, 10))
	c.out = redcon.AppendArray(c.out, len(keys))
	for i := range keys {
		c.appendKey(keys[i].Key)
	}
	return nil
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
func parseRange(arguments [][]byte) (rangeArguments, error) {
	parsed := rangeArguments{limit: DefaultRangeRecords}
	if len(arguments) != 3 && len(arguments) != 5 {
		return parsed, errSyntax
	}
	var err error
	switch lower := arguments[1]; {
	case string(lower) == "-":
	case string(lower) == "+":
		parsed.empty = true
	default:
		if parsed.lower, err = key(lower); err != nil {
			return parsed, err
		}
	}
	switch upper := arguments[2]; {
	case string(upper) == "+":
	case string(upper) == "-":
		parsed.empty = true
	default:
		number, err := key(upper)
		if err != nil {
			return parsed, err
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
	if !ok || limit < 1 || limit > MaxRangeRecords {
		return parsed, replyError(fmt.Sprintf("ERR LIMIT is a number from 1 to %d",
			MaxRangeRecords))
	}
	parsed.limit = limit
	return parsed, nil
}

// rangeRecords serves RANGE.
func (c *client) rangeRecords(arguments [][]byte) error {
	parsed, err := parseRange(arguments)
	if err != nil {
		return err
	}
	if parsed.empty {
		c.out = redcon.AppendArray(c.out, 0)
		return nil
	}
	reserved := int64(parsed.limit) * (keyReplyBytes + valueReplyBytes)
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
	c.out = redcon.AppendArray(c.out, 2*len(records))
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
	c.out = redcon.AppendUint(c.out, count)
	return nil
}
