package resp

import (
	"fmt"
	"strconv"

	"engine_race/cluster/service"
)

// Bounds of counts that do not depend on the size of values.
const (
	mostGroupReadKeys   = 1024
	defaultRangeRecords = 1000
	// leastRecordBytes is what a record takes beside its value at least, in a read and in its reply.
	leastRecordBytes = 128
)

// sizes has the size of the cluster's values, and what follows from it.
type sizes struct {
	valueBytes int
	// valueReplyBytes is what a value holds while it is read: its reply, "$4096\r\n" value "\r\n".
	// At least leastRecordBytes. recordReplyBytes includes the key.
	valueReplyBytes, recordReplyBytes int
	// maxReadKeys bounds the keys of one MGET or EXISTS, and maxRangeRecords RANGE's LIMIT: replies
	// fit ReplyBytes. rangeRecords is the limit without LIMIT.
	maxReadKeys, maxRangeRecords, rangeRecords int
	// groupReadKeys is how many keys one Service.Read has, if more than one command of a round asks
	// for them.
	groupReadKeys int
	// maxTransactionReads bounds the keys that a transaction reads.
	maxTransactionReads int
}

func sizesOf(valueBytes int) sizes {
	value := len("$\r\n") + len(strconv.Itoa(valueBytes)) + valueBytes + len("\r\n")
	s := sizes{valueBytes: valueBytes, valueReplyBytes: max(value, leastRecordBytes),
		recordReplyBytes: max(keyReplyBytes+value, leastRecordBytes)}
	s.maxReadKeys = (ReplyBytes - headerReplyBytes) / s.valueReplyBytes
	s.maxRangeRecords = (ReplyBytes - headerReplyBytes) / s.recordReplyBytes
	s.rangeRecords = min(defaultRangeRecords, s.maxRangeRecords)
	s.groupReadKeys = service.ValuesIn(mostGroupReadKeys, valueBytes)
	s.maxTransactionReads = min(maxTransactionOps, s.maxReadKeys/writeCopies)
	return s
}

// refusal is the reply to a write of a wrong size.
func (s *sizes) refusal(key, value []byte) error {
	return replyError(fmt.Sprintf("ERR a key has 8 bytes and a value %d, not %d and %d", s.valueBytes,
		len(key), len(value)))
}

// keyRefusal is the reply to a command that has no values.
func (s *sizes) keyRefusal(key []byte) error {
	return replyError(fmt.Sprintf("ERR a key has 8 bytes and a value %d, but this key has %d",
		s.valueBytes, len(key)))
}
