package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"engine_race/cluster/engine"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Records of the default size that are copied together, and keys that are deleted together: a
	// proposal of each.
	copiedRecords = 128
	deletedKeys   = 4096
	// A copy is brought up to date until so few keys have changed meanwhile, or so often. The rest
	// is copied while nobody can use the keys: see fewChangesOf.
	fewChanges  = 256
	mostUpdates = 16
	// Changes are taken after so many copied records.
	takenRecords = 8192
	// How long the shard that was split may take to give its upper keys up.
	giveUpTimeout = time.Minute
)

// copiedRecordsOf is how many records are copied together.
func copiedRecordsOf(valueBytes int) int {
	return service.RecordsIn(copiedRecords, valueBytes)
}

// fewChangesOf is how many changed keys are few: large values take longer to copy.
func fewChangesOf(valueBytes int) int { return service.RecordsIn(fewChanges, valueBytes) }

// copier gives a new shard the records of its range, which another shard has. All its commands have
// the term in which it began as their token. So nothing of it is applied behind a command of a
// later leader, who copies anew.
type copier struct {
	node   *Node
	to     *shard
	entry  ShardEntry // of the new shard
	term   uint64
	source *replica.Replica // of the other shard, on this node; nil: there is none
}

// fill copies the records, while clients go on. Then the map gives the keys to the new shard, and
// the other one gives them up. The changes since then are copied at last.
func (n *Node) fill(ctx context.Context, s *shard, d *Directory) (term uint64, err error) {
	c := &copier{node: n, to: s, entry: d.Shards[s.shardID], term: s.ledTerm()}
	if from := n.shard(c.entry.Source); from != nil && from.caughtUp.Load() &&
		from.failure() == nil {
		c.source = from.replica
	}
	_, isCut := d.Ranges.Of(s.shardID)
	if !isCut && c.source == nil {
		// A cut would keep all clients from the keys until the last record is copied.
		return 0, fmt.Errorf("%w: shard %d has no replica here that knows its newest records",
			service.ErrUnavailable, c.entry.Source)
	}
	if err := c.begin(ctx); err != nil {
		return 0, err
	}
	var tracker *replica.Tracker
	if !isCut {
		tracker = c.source.Track(ctx, c.entry.First, c.entry.Last)
		defer tracker.Stop()
		if err := c.copyAll(ctx, false, tracker); err != nil {
			return 0, err
		}
		if err := c.update(ctx, tracker); err != nil {
			return 0, err
		}
	}
	if !isCut {
		attempt, cancel := context.WithTimeout(ctx, followTimeout)
		defer cancel()
		cut := controlRequest{Op: controlCut, ShardID: s.shardID}
		if _, err := n.ask(attempt, directoryShard, cut); err != nil {
			return 0, err
		}
	}
	if tracker != nil {
		isUpToDate, err := c.finish(ctx, tracker)
		if err != nil || isUpToDate {
			return c.term, err
		}
	}
	return c.term, c.copyAll(ctx, true, nil)
}

// begin lets all commands of earlier leaders be applied or be late.
func (c *copier) begin(ctx context.Context) error {
	return c.node.untilFollowed(ctx, c.to, func(ctx context.Context) error {
		if err := c.propose(ctx, c.command(), 1); err != nil {
			return err
		}
		return c.to.barrier(ctx)
	})
}

func (c *copier) command() []byte {
	return replica.NewCommand(nil,
		replica.Header{Version: replica.BoundsVersion, Outside: true, Token: c.term})
}

// propose proposes a command of some ops, and waits until it is applied.
func (c *copier) propose(ctx context.Context, command []byte, ops int) error {
	if ops == 0 {
		return nil
	}
	return c.node.untilFollowed(ctx, c.to, func(ctx context.Context) error {
		// A later lead of this replica would let a command of the earlier one, which is on its way still,
		// be applied behind newer copies.
		if c.to.ledTerm() != c.term || !c.to.leadsIn(c.term) {
			return fmt.Errorf("%w: the lead was lost meanwhile", service.ErrConflict)
		}
		attempt, cancel := context.WithTimeout(ctx, c.node.inTicks(controlTimeout))
		defer cancel()
		err := c.node.proposeHere(attempt, c.to, command)
		if errors.Is(err, errMoved) {
			return fmt.Errorf("%w: another leader has gone on", service.ErrConflict)
		}
		return err
	})
}

// copyAll makes the records of the range equal to those of the other shard. `isGivenUp`: that shard
// has to have given the keys up, so that they do not change any more. Else it copies what `tracker`
// has from time to time, so that the tracker loses nothing.
func (c *copier) copyAll(ctx context.Context, isGivenUp bool, tracker *replica.Tracker) error {
	copied, taken, began := 0, 0, time.Now()
	for next, isLast := c.entry.First, false; !isLast; {
		wanted := replica.ScanQuery{Lower: next, Last: c.entry.Last,
			Limit: copiedRecordsOf(c.node.ValueBytes()), WithValues: true, Outside: isGivenUp}
		page, err := c.page(ctx, wanted)
		if err != nil {
			return err
		}
		last := c.entry.Last
		if isLast = !page.More; !isLast {
			last = page.Keys[len(page.Keys)-1]
		}
		command, ops := c.command(), 0
		for _, record := range appendRecords(nil, page, len(page.Keys), c.node.ValueBytes()) {
			command = replica.AppendOp(command, service.Op{Key: record.Key, Value: record.Value})
			ops++
		}
		// A leader before this one may have copied records that were deleted since.
		extra, err := c.extra(next, last, page.Keys)
		if err != nil {
			return err
		}
		if err := c.propose(ctx, command, ops); err != nil {
			return err
		}
		for chunk := range slices.Chunk(extra, deletedKeys) {
			command := c.command()
			for _, key := range chunk {
				command = replica.AppendOp(command, service.Op{Key: key})
			}
			if err := c.propose(ctx, command, len(chunk)); err != nil {
				return err
			}
		}
		copied += len(page.Keys)
		next = last + 1
		if tracker != nil && copied-taken >= takenRecords {
			taken = copied
			if _, err := c.take(ctx, tracker); err != nil {
				return err
			}
		}
		if !isGivenUp && !c.rest(began, copied) {
			return errStopping
		}
	}
	c.node.config.Logger.Info("a shard has copied records", "shard", c.to.shardID, "source",
		c.entry.Source, "records", copied, "final", isGivenUp)
	return nil
}

// rest waits until these records may have been copied: clients go on meanwhile. False: the node
// stops.
func (c *copier) rest(began time.Time, copied int) bool {
	perSecond := c.node.config.CatchUpBytesPerS
	if perSecond <= 0 {
		return true
	}
	due := began.Add(copyTime(copied, c.node.ValueBytes(), perSecond))
	return time.Until(due) <= 0 || c.node.pause(time.Until(due))
}

// copyTime is how long records take at a rate.
func copyTime(copied, valueBytes int, bytesPerSecond int64) time.Duration {
	seconds := float64(copied*service.WorkBytes(valueBytes)) / float64(bytesPerSecond)
	return time.Duration(seconds * float64(time.Second))
}

// page gives records of the other shard. Those that it has given up may come from any node.
func (c *copier) page(ctx context.Context, q replica.ScanQuery) (page *replica.ScanQuery,
	err error) {
	if !q.Outside {
		_, err = c.source.Lookup(&q)
		return &q, lookupError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, giveUpTimeout)
	defer cancel()
	err = c.node.untilDone(ctx, func() (err error) {
		if !c.to.leads() {
			return fmt.Errorf("%w: another node leads", service.ErrConflict)
		}
		page, err = c.node.scanShard(ctx, c.entry.Source, q, service.Local)
		return err
	})
	return page, err
}

// extra gives the keys that the new shard has from `first` to `last`, and the other one has not.
func (c *copier) extra(first, last uint64, keys []uint64) ([]uint64, error) {
	var all []uint64
	for {
		q := &replica.ScanQuery{Lower: first, Last: last, Limit: deletedKeys}
		if err := c.to.replica.ScanCopied(q); err != nil {
			return nil, lookupError(err)
		}
		for _, key := range q.Keys {
			if _, known := slices.BinarySearch(keys, key); !known {
				all = append(all, key)
			}
		}
		if !q.More {
			return all, nil
		}
		first = q.Keys[len(q.Keys)-1] + 1
	}
}

// update copies what has changed meanwhile, until that is little.
func (c *copier) update(ctx context.Context, tracker *replica.Tracker) error {
	for range mostUpdates {
		count, err := c.take(ctx, tracker)
		if err != nil {
			return err
		}
		if count <= fewChangesOf(c.node.ValueBytes()) {
			break
		}
	}
	return nil
}

// take copies the changes that the tracker has, and gives their count. It fails when the tracker
// has lost some: the copy begins anew then, while clients still have the keys.
func (c *copier) take(ctx context.Context, tracker *replica.Tracker) (int, error) {
	keys, isWhole := tracker.Take(ctx)
	if !isWhole {
		return 0, fmt.Errorf("%w: too many keys of shard %d have changed, or a snapshot has replaced "+
			"them: the copy begins anew", service.ErrUnavailable, c.entry.Source)
	}
	return len(keys), c.copyKeys(ctx, keys)
}

// finish copies the last changes when the other shard's replica here has given the keys up. False:
// some changes are not known.
func (c *copier) finish(ctx context.Context, tracker *replica.Tracker) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, giveUpTimeout)
	defer cancel()
	err := c.node.untilDone(ctx, func() error {
		if !c.to.leads() {
			return fmt.Errorf("%w: another node leads", service.ErrConflict)
		}
		if c.source.Bounds().Last >= c.entry.First {
			return fmt.Errorf("%w: shard %d has not given its upper keys up", service.ErrUnavailable,
				c.entry.Source)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	keys, isWhole := tracker.Take(ctx)
	if !isWhole {
		return false, nil
	}
	return true, c.copyKeys(ctx, keys)
}

// copyKeys copies the present state of keys of the other shard's replica here.
func (c *copier) copyKeys(ctx context.Context, keys []uint64) error {
	valueBytes := c.node.ValueBytes()
	for chunk := range slices.Chunk(keys, copiedRecordsOf(valueBytes)) {
		q := replica.ReadQuery{Keys: chunk, Values: make([]byte, len(chunk)*valueBytes),
			Results: make(engine.Results, len(chunk))}
		if _, err := c.source.Lookup(&q); err != nil {
			return lookupError(err)
		}
		command := c.command()
		for i, key := range chunk {
			op := service.Op{Key: key}
			if err := q.Results.Err(i); err == nil {
				op.Value = q.Values[i*valueBytes : (i+1)*valueBytes]
			} else if !errors.Is(err, engine.ErrNotFound) {
				return lookupError(err)
			}
			command = replica.AppendOp(command, op)
		}
		if err := c.propose(ctx, command, len(chunk)); err != nil {
			return err
		}
	}
	return nil
}
