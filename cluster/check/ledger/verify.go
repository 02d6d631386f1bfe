package ledger

import (
	"context"
	"slices"
	"time"

	"engine_race/cluster/check/wire"
)

// Verify reads all keys from all nodes: first linearizable, then local until the node has caught
// up or `settle` is over. It gives the report of the whole run. Call it once, after Run.
func (l *Ledger) Verify(ctx context.Context, settle time.Duration) Report {
	all := slices.Concat(l.entries, l.cold)
	tooOldAt := make([]int, len(all)) // the number of nodes that gave too old a version
	for node := range l.options.Dialers {
		reader := &reader{ledger: l, dialer: l.options.Dialers[node]}
		for i, e := range all {
			version, err := reader.fetch(ctx, e.key, settle)
			if l.final(node, e, version, err) == tooOld {
				tooOldAt[i]++
			}
		}
		reader.close()
	}
	for i, e := range all {
		switch {
		case tooOldAt[i] == 0:
		case tooOldAt[i] == len(l.options.Dialers):
			l.report.Lost++
			l.report.sample("key %d: no node has version %d, which was acknowledged", e.key, e.acked)
		default:
			l.report.Stale += tooOldAt[i]
			l.report.sample("key %d: %d nodes do not give version %d", e.key, tooOldAt[i], e.acked)
		}
	}
	for node := range l.options.Dialers {
		l.verifyLocal(ctx, node, all, tooOldAt, settle)
	}
	return l.report
}

// final judges a read at the end, and counts what is wrong for sure.
func (l *Ledger) final(node int, e *entry, version uint64, err error) judgement {
	switch {
	case version == mixed:
		l.report.Impossible++
		l.report.sample("node %d: %v", node+1, err)
		return impossible
	case err != nil:
		l.report.Unread++
		l.report.sample("node %d, key %d: %v", node+1, e.key, err)
		return valid
	}
	judgement := e.judge(version)
	if judgement == impossible {
		l.report.Impossible++
		l.report.sample("node %d, key %d: version %d was never written", node+1, e.key, version)
	}
	return judgement
}

// verifyLocal reads the keys that are not lost from the node's own replicas. A local read may lag,
// so it is repeated while there is time.
func (l *Ledger) verifyLocal(ctx context.Context, node int, all []*entry, lost []int,
	settle time.Duration) {
	reader := &reader{ledger: l, dialer: l.options.Dialers[node], local: true}
	defer reader.close()
	limit := time.Now().Add(settle)
	for i, e := range all {
		if lost[i] > 0 {
			continue
		}
		for {
			version, err := reader.fetch(ctx, e.key, time.Until(limit))
			fresh := err == nil && e.judge(version) != tooOld
			if !fresh && err == nil && time.Now().Before(limit) && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if l.final(node, e, version, err) == tooOld {
				l.report.Stale++
				l.report.sample("node %d, key %d: local reads stay at version %d, %d was acknowledged",
					node+1, e.key, version, e.acked)
			}
			break
		}
	}
}

// reader asks one node, with repeated attempts.
type reader struct {
	ledger *Ledger
	dialer wire.Dialer
	local  bool
	conn   *wire.Conn
}

func (r *reader) close() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// fetch tries again until patience is over. A mixed value is final.
func (r *reader) fetch(ctx context.Context, key uint64, patience time.Duration) (uint64, error) {
	limit := time.Now().Add(patience)
	for {
		version, err := r.attempt(ctx, key)
		if err == nil || version == mixed || ctx.Err() != nil || time.Now().After(limit) {
			return version, err
		}
		r.close()
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *reader) attempt(ctx context.Context, key uint64) (uint64, error) {
	if r.conn == nil {
		conn, err := r.dialer.Dial(ctx)
		if err != nil {
			return 0, err
		}
		r.conn = conn
		if r.local {
			if err := conn.ReadOnly(); err != nil {
				return 0, err
			}
		}
	}
	return r.ledger.fetch(r.conn, key)
}
