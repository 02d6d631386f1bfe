package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// The map of ranges says which keys each shard should have. A shard has those that the commands of
// its own log say. The node that leads a shard brings them to those of the map. Each step may be
// repeated, so another leader goes on where this one has ended:
//
//  1. A shard that is to be split goes on, while the new shard copies the records of its upper
//     keys: see copy.go.
//  2. The map gives the upper keys to the new shard. The shard that was split gives them up. From
//     then on it refuses them, and keeps their records as they are.
//  3. The new shard copies what has changed meanwhile, and then takes the keys. From then on it
//     refuses further copies.
//  4. The directory notes that. The shard that was split deletes the records.
const (
	// Between two looks of the leader of a shard at the map.
	followInterval = 100 * time.Millisecond
	// How long one step may take. A step is repeated, or another node takes it.
	followTimeout = 10 * time.Second
	// After a step that did not succeed.
	retryFollow = time.Second
)

// followForever brings the shards that are led here to the map of ranges, each by itself: a copy
// may take long.
func (n *Node) followForever() {
	ctx, cancel := n.untilStopped()
	defer cancel()
	busy := newBusyShards()
	defer busy.wait()
	for n.pause(followInterval) {
		d := n.directory.Load()
		wanted := map[uint64]keyspace.Entry{}
		for _, e := range d.Ranges {
			wanted[e.Shard] = e
		}
		for _, s := range n.localShards() {
			if s.replica != nil && s.leads() && d.needsStep(s, wanted[s.shardID]) {
				busy.run(s.shardID, func() {
					if err := n.follow(ctx, s, d); err != nil {
						n.config.Logger.Warn("a shard does not have the range of the map yet", "shard",
							s.shardID, "error", err)
						n.pause(retryFollow)
					}
				})
			}
		}
	}
}

// needsStep tells whether the shard's range is another one than the map's, or the shard has records
// of other ranges.
func (d *Directory) needsStep(s *shard, wanted keyspace.Entry) bool {
	return d.Shards[s.shardID].Source != 0 || s.replica.Bounds().Version < wanted.Version ||
		d.mayTidy(s, wanted)
}

// mayTidy tells whether the records outside of the shard's range may go, and have not gone yet.
func (d *Directory) mayTidy(s *shard, wanted keyspace.Entry) bool {
	bounds := s.replica.Bounds()
	if s.tidied.Load() == bounds.Version || bounds.Version != wanted.Version ||
		s.replica.StoreBounds().First == bounds.First && s.replica.StoreBounds().Last == bounds.Last {
		return false
	}
	for _, entry := range d.Shards {
		if entry.Source == s.shardID {
			return false
		}
	}
	return true
}

func (n *Node) follow(ctx context.Context, s *shard, d *Directory) error {
	wanted, _ := d.Ranges.Of(s.shardID)
	entry := d.Shards[s.shardID]
	// The replica here may be behind the log: the steps below would be refused.
	if err := n.untilFollowed(ctx, s, s.barrier); err != nil {
		return err
	}
	bounds, term := s.replica.Bounds(), s.ledTerm()
	switch {
	case bounds.Version == 0 && entry.Source == 0:
		// Only a recovery from a replica that was behind brings that.
		n.config.Logger.Warn("a shard gets its keys without a copy: records may be lost", "shard",
			s.shardID)
	case bounds.Version == 0:
		var err error
		if term, err = n.fill(ctx, s, d); err != nil {
			return fmt.Errorf("copy the records of shard %d: %w", entry.Source, err)
		}
		wanted = keyspace.Entry{First: entry.First, Last: entry.Last, Version: 1}
	}
	if bounds.Version < wanted.Version {
		if err := n.proposeBounds(ctx, s, term, bounds.Version, wanted); err != nil {
			return err
		}
	}
	if entry.Source != 0 {
		attempt, cancel := context.WithTimeout(ctx, followTimeout)
		defer cancel()
		_, err := n.ask(attempt, directoryShard, controlRequest{Op: controlFilled, ShardID: s.shardID})
		return err
	}
	if d.mayTidy(s, wanted) {
		return n.tidy(ctx, s)
	}
	return nil
}

// untilFollowed tries a step again until it has a result, the time of a step is over, or another
// node leads.
func (n *Node) untilFollowed(ctx context.Context, s *shard,
	do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	return n.untilDone(ctx, func() error {
		if !s.leads() {
			cancel()
		}
		return do(ctx)
	})
}

// proposeHere proposes a command in the term in which this replica leads, and waits until it is
// applied.
func (n *Node) proposeHere(ctx context.Context, s *shard, command []byte) error {
	if !s.leads() {
		return errNotHere
	}
	result, err := n.host.SyncPropose(ctx, s.proposer.session, command)
	switch {
	case err != nil:
		return unknown(err)
	case result.Value == replica.ResultMoved:
		return errMoved
	case result.Value != replica.ResultApplied:
		return fmt.Errorf("%w: the shard has another leader", service.ErrConflict)
	}
	return nil
}

// proposeBounds changes the keys of a shard. It notes the term first: until the outcome is known,
// no write is acknowledged that an entry before it may refuse.
func (n *Node) proposeBounds(ctx context.Context, s *shard, term, from uint64,
	to keyspace.Entry) error {
	if n.commands() < replica.BoundsVersion {
		return errors.New("a node runs an earlier version")
	}
	s.changing.Store(term)
	attempt, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	err := n.proposeHere(attempt, s, replica.NewBounds(term, from, to))
	// A change that may still be under way counts for all of this term.
	if err == nil || errors.Is(err, errMoved) {
		s.changing.Store(0)
	}
	return err
}

// tidy deletes the records outside of the shard's keys.
func (n *Node) tidy(ctx context.Context, s *shard) error {
	bounds, all := s.replica.Bounds(), s.replica.StoreBounds()
	c := &copier{node: n, to: s, term: s.ledTerm()}
	deleted := uint64(0)
	for next := bounds.Last + 1; next != 0 && next <= all.Last; {
		q := replica.ScanQuery{Lower: next, Last: all.Last, Limit: deletedKeys, Outside: true}
		if err := s.look(ctx, &q, service.Local); err != nil {
			return err
		}
		command := c.command()
		for _, key := range q.Keys {
			command = replica.AppendOp(command, service.Op{Key: key})
		}
		if err := c.propose(ctx, command, len(q.Keys)); err != nil {
			return err
		}
		deleted += uint64(len(q.Keys))
		if !q.More {
			break
		}
		next = q.Keys[len(q.Keys)-1] + 1
	}
	s.tidied.Store(bounds.Version)
	n.config.Logger.Info("a shard has deleted the records that another one has", "shard", s.shardID,
		"records", deleted)
	return nil
}
