package node

import (
	"context"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// Shards that are asked side by side, which one after the other would take longer than a call may.
const (
	maxCounts     = 8
	maxScans      = 32
	maxValueScans = 4 // each may give as many values as a call
)

// Scan implements service.Service. Where shards have few records, it asks more and more of them
// side by side.
func (n *Node) Scan(ctx context.Context, lower uint64, upper *uint64, limit int, withValues bool,
	c service.Consistency) ([]service.Record, bool, error) {
	if limit <= 0 || upper != nil && *upper <= lower {
		return nil, false, nil
	}
	division, widest := divisionOf(&n.state.Genesis), maxScans
	if withValues {
		widest = maxValueScans
	}
	var records []service.Record
	first := division.Range(lower)
	for width := 1; ; width = min(2*width, widest) {
		parts := rangesFrom(division, first, upper, width)
		if len(parts) == 0 {
			return records, false, nil
		}
		if len(records) == limit {
			// A shard without records may follow: then the next call finds none.
			return records, true, nil
		}
		found := make([]*replica.ScanQuery, len(parts))
		wanted := replica.ScanQuery{Upper: upper, Limit: limit - len(records),
			WithValues: withValues}
		err := firstOf(forEach(parts, func(p part) (err error) {
			q := wanted
			q.Lower = max(lower, division.Lower(p.shardID-firstDataShard))
			found[p.number], err = n.scanShard(ctx, p.shardID, q, c)
			return err
		}))
		if err != nil {
			return nil, false, err
		}
		for _, q := range found {
			taken := min(len(q.Keys), limit-len(records))
			records = appendRecords(records, q, taken)
			if q.More || taken < len(q.Keys) {
				return records, true, nil
			}
		}
		first += uint64(len(parts))
	}
}

// rangesFrom gives up to `width` ranges from `first` on that have keys below *upper.
func rangesFrom(division keyspace.Division, first uint64, upper *uint64, width int) []part {
	var parts []part
	for r := first; r < division.Shards && len(parts) < width; r++ {
		if upper != nil && division.Lower(r) >= *upper {
			break
		}
		parts = append(parts, part{number: len(parts), shardID: firstDataShard + r})
	}
	return parts
}

func appendRecords(records []service.Record, q *replica.ScanQuery, count int) []service.Record {
	for i, key := range q.Keys[:count] {
		record := service.Record{Key: key}
		if q.WithValues {
			from, to := i*service.ValueBytes, (i+1)*service.ValueBytes
			record.Value = q.Values[from:to:to]
		}
		records = append(records, record)
	}
	return records
}

// scanShard fills a fresh query: one that was given up here may still be written to.
func (n *Node) scanShard(ctx context.Context, shardID uint64, wanted replica.ScanQuery,
	c service.Consistency) (*replica.ScanQuery, error) {
	var here error
	if s := n.serving(shardID, c); s != nil {
		q := wanted
		if here = s.look(ctx, &q, c); !othersMayAnswer(here) {
			return &q, here
		}
	}
	return &wanted, unlessDamaged(here, n.scanRemote(ctx, shardID, &wanted, c))
}

func (n *Node) countShard(ctx context.Context, shardID uint64) (uint64, error) {
	var here error
	if s := n.serving(shardID, service.Linearizable); s != nil {
		q := &replica.CountQuery{}
		if here = s.look(ctx, q, service.Linearizable); !othersMayAnswer(here) {
			return q.Count, here
		}
	}
	q := &replica.CountQuery{}
	err := n.lookRemote(ctx, shardID, pathCount, q, service.Linearizable)
	return q.Count, unlessDamaged(here, err)
}

// Count implements service.Service.
func (n *Node) Count(ctx context.Context) (uint64, error) {
	total := uint64(0)
	division := divisionOf(&n.state.Genesis)
	for first := uint64(0); first < division.Shards; first += maxCounts {
		parts := rangesFrom(division, first, nil, maxCounts)
		counts := make([]uint64, len(parts))
		err := firstOf(forEach(parts, func(p part) (err error) {
			counts[p.number], err = n.countShard(ctx, p.shardID)
			return err
		}))
		if err != nil {
			return 0, err
		}
		for _, count := range counts {
			total += count
		}
	}
	return total, nil
}
