package node

import (
	"context"
	"errors"
	"slices"

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
	widest := maxScans
	if withValues {
		widest = maxValueScans
	}
	var records []service.Record
	for width := 1; ; width = min(2*width, widest) {
		d := n.directory.Load()
		ranges := rangesFrom(d.Ranges, lower, upper, width)
		if len(records) == limit {
			// A shard without records may follow: then the next call finds none.
			return records, true, nil
		}
		found := make([]*replica.ScanQuery, len(ranges))
		wanted := replica.ScanQuery{Upper: upper, Limit: limit - len(records),
			WithValues: withValues}
		err := firstOf(forEach(partsOf(ranges), func(p part) (err error) {
			q := wanted
			q.Lower, q.Last = max(lower, ranges[p.number].First), ranges[p.number].Last
			found[p.number], err = n.scanShard(ctx, p.shardID, q, c)
			return err
		}))
		if errors.Is(err, errMoved) && n.awaitRoute(ctx, d) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		for _, q := range found {
			taken := min(len(q.Keys), limit-len(records))
			records = appendRecords(records, q, taken, n.ValueBytes())
			if q.More || taken < len(q.Keys) {
				return records, true, nil
			}
		}
		last := ranges[len(ranges)-1].Last
		if last == ^uint64(0) || upper != nil && last+1 >= *upper {
			return records, false, nil
		}
		lower = last + 1
	}
}

// rangesFrom gives up to `width` ranges that have keys from `lower` on and below *upper.
func rangesFrom(m keyspace.Map, lower uint64, upper *uint64, width int) keyspace.Map {
	first := m.Find(lower)
	end := first + 1
	for end < len(m) && end < first+width && (upper == nil || m[end].First < *upper) {
		end++
	}
	return m[first:end]
}

func partsOf(ranges keyspace.Map) []part {
	parts := make([]part, len(ranges))
	for i, e := range ranges {
		parts[i] = part{number: i, shardID: e.Shard}
	}
	return parts
}

func appendRecords(records []service.Record, q *replica.ScanQuery,
	count, valueBytes int) []service.Record {
	for i, key := range q.Keys[:count] {
		record := service.Record{Key: key}
		if q.WithValues {
			from, to := i*valueBytes, (i+1)*valueBytes
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

func (n *Node) countRange(ctx context.Context, e keyspace.Entry) (uint64, error) {
	var here error
	if s := n.serving(e.Shard, service.Linearizable); s != nil {
		q := &replica.CountQuery{First: e.First, Last: e.Last}
		if here = s.look(ctx, q, service.Linearizable); !othersMayAnswer(here) {
			return q.Count, here
		}
	}
	q := &replica.CountQuery{First: e.First, Last: e.Last}
	err := n.lookRemote(ctx, e.Shard, pathCount, q, service.Linearizable)
	return q.Count, unlessDamaged(here, err)
}

// Count implements service.Service. A range that is split meanwhile lets it begin again.
func (n *Node) Count(ctx context.Context) (uint64, error) {
	for {
		d := n.directory.Load()
		total, err := n.countAll(ctx, d.Ranges)
		if !errors.Is(err, errMoved) || !n.awaitRoute(ctx, d) {
			return total, err
		}
	}
}

func (n *Node) countAll(ctx context.Context, m keyspace.Map) (uint64, error) {
	total := uint64(0)
	for ranges := range slices.Chunk(m, maxCounts) {
		counts := make([]uint64, len(ranges))
		err := firstOf(forEach(partsOf(ranges), func(p part) (err error) {
			counts[p.number], err = n.countRange(ctx, ranges[p.number])
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
