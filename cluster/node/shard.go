package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/files"
	"engine_race/cluster/keyspace"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// shard is a replica that runs here.
type shard struct {
	node      *Node
	shardID   uint64
	replicaID uint64
	replica   *replica.Replica // nil: the directory
	proposer  *proposer
	reader    *reader
	stopped   chan struct{}
	started   time.Time
	joined    bool // it was added: it is no founder

	leader atomic.Uint64 // a replica's ID; 0: none is known
	// Guards changes of the leader, the term of the last one, and the last term in which this
	// replica led.
	leaderMu  sync.Mutex
	term, led uint64
	// Set once the replica has applied all that was committed when it was started. Before that it
	// may show states that are older than those it showed before its restart.
	caughtUp atomic.Bool
	// It began without a vote, and was not seen to have one.
	learns atomic.Bool
	// The last comparison found other records here than most replicas have.
	differs atomic.Bool
	// A change of the bounds was proposed here in this term, and its outcome is not known. 0: none.
	changing atomic.Uint64
	// The version of the bounds outside of which this leader has deleted all records.
	tidied atomic.Uint64
	// Of maintainForever: the size of the log when it was to be shortened the last time.
	shortenedAt uint64
	// Of tendForever: when the shard was handed over, or its failure looked at, the last time.
	handedOver, tended time.Time
	load               load
}

func (n *Node) replicaDirectory(shardID, replicaID uint64) string {
	name := fmt.Sprintf("shard-%d-%d", shardID, replicaID)
	return filepath.Join(n.config.Directory, replicasName, name)
}

// start runs a replica. Members are those of the genesis, or nil for a replica that was added.
func (n *Node) start(shardID, replicaID uint64, members map[uint64]string, learns bool) error {
	s := &shard{node: n, shardID: shardID, replicaID: replicaID, stopped: make(chan struct{}),
		started: time.Now(), joined: members == nil}
	c := n.shardConfig(shardID, replicaID)
	c.IsNonVoting = learns
	s.learns.Store(learns)
	var launch func(members map[uint64]string) error
	if shardID == directoryShard {
		n.machine = newDirectoryMachine(&n.state.Genesis)
		launch = func(members map[uint64]string) error {
			return n.host.StartReplica(members, members == nil,
				func(uint64, uint64) statemachine.IStateMachine { return n.machine }, c)
		}
	} else {
		directory := n.replicaDirectory(shardID, replicaID)
		if err := files.MakeDirectory(directory); err != nil {
			return fmt.Errorf("start replica %d of shard %d: %w", replicaID, shardID, err)
		}
		entry := n.directory.Load().Shards[shardID]
		s.replica = replica.New(replica.Config{
			Directory:  directory,
			Lower:      entry.First,
			Upper:      entry.Last,
			Closed:     entry.Closed,
			ValueBytes: n.ValueBytes(),
			Options:    n.config.Engine,
			Logger:     n.config.Logger.With("shard", shardID, "replica", replicaID),
		})
		s.reader = newReader(n, shardID, s.replica)
		launch = func(members map[uint64]string) error {
			return n.host.StartOnDiskReplica(members, members == nil,
				func(uint64, uint64) statemachine.IOnDiskStateMachine { return s.replica }, c)
		}
	}
	err := launch(members)
	if errors.Is(err, dragonboat.ErrInvalidShardSettings) && members != nil {
		// UnsafeRecover has given the replica other members, which its log has.
		err = launch(nil)
	}
	if err != nil {
		if s.reader != nil {
			s.reader.stop()
		}
		return fmt.Errorf("start replica %d of shard %d: %w", replicaID, shardID, err)
	}
	s.proposer = newProposer(s)
	n.mu.Lock()
	n.shards[shardID] = s
	n.mu.Unlock()
	s.checkLeader()
	go s.catchUp()
	return nil
}

// catchUp waits for a first read index.
func (s *shard) catchUp() {
	for {
		request, err := s.node.host.ReadIndex(s.shardID, s.node.inTicks(time.Second))
		if err == nil {
			select {
			case result := <-request.ResultC():
				request.Release()
				if result.Completed() {
					s.caughtUp.Store(true)
					return
				}
			case <-s.stopped:
				return
			}
		}
		select {
		case <-s.stopped:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// checkLeader asks dragonboat for the leader. Events are lost that come before the node knows the
// shard.
func (s *shard) checkLeader() {
	leader, term, _, err := s.node.host.GetLeaderID(s.shardID)
	if err != nil {
		// The replica has ended: no event follows.
		leader, term = 0, math.MaxUint64
	}
	s.noteAnswer(leader, term)
}

// noteLeader takes an event. They come in their order.
func (s *shard) noteLeader(leader, term uint64) {
	s.leaderMu.Lock()
	defer s.leaderMu.Unlock()
	s.setLeader(leader, term)
}

// noteAnswer takes dragonboat's answer, which may be older than its last event.
func (s *shard) noteAnswer(leader, term uint64) {
	s.leaderMu.Lock()
	defer s.leaderMu.Unlock()
	if term > s.term {
		s.setLeader(leader, term)
	}
}

func (s *shard) setLeader(leader, term uint64) {
	s.term = term
	if leader == s.replicaID {
		s.led = term
	}
	if s.leader.Swap(leader) == leader {
		return
	}
	if leader != 0 {
		s.load.elections.Add(1)
	}
	s.proposer.noteLeaderChange()
	if s.node != nil {
		s.node.leadersMoved.raise()
	}
	if s.reader != nil {
		s.reader.noteLeaderChange()
	}
}

// ledTerm gives the last term in which this replica led. It is no other leader's, even if the
// replica has ceased to lead a moment ago.
func (s *shard) ledTerm() uint64 {
	s.leaderMu.Lock()
	defer s.leaderMu.Unlock()
	return s.led
}

// leadsIn tells whether this replica leads in a term, and no later one is known to dragonboat. A
// committed command with the term as its token is applied by every replica if so. An entry of a
// later term is committed by answers that come after that term is known. So the command's entry is
// of this term, and those before it are of no later one. No token is above its entry's term.
func (s *shard) leadsIn(term uint64) bool {
	leader, now, known, err := s.node.host.GetLeaderID(s.shardID)
	return err == nil && known && leader == s.replicaID && now == term
}

// acknowledgesAtCommit tells whether a committed command with the term as its token may be
// acknowledged before this replica has applied it. A replica that has stopped may be given up with
// its log, which holds one of the copies of the entry. `bounds` are those in which its keys lie.
func (s *shard) acknowledgesAtCommit(term uint64, bounds keyspace.Entry) bool {
	failure := s.failure()
	return (failure == nil || !failure.Stopped) && s.keeps(term, bounds) && s.leadsIn(term)
}

// keeps tells whether no command before the one with this token changes the bounds. One of an
// earlier term comes before all commands of this term, and a command of this term was applied. One
// of this term was proposed here, and its outcome is known.
func (s *shard) keeps(term uint64, bounds keyspace.Entry) bool {
	return s.replica.Token() >= term && s.changing.Load() != term && s.replica.Bounds() == bounds
}

// handOver asks another replica to lead. Proposals wait meanwhile: a leader that gives up drops
// them, and raft tells nobody of those that it had sent on.
func (s *shard) handOver(to uint64) error {
	s.proposer.hold(true)
	defer s.proposer.hold(false)
	s.proposer.until(transferInterval, func() bool { return s.proposer.proposed.Load() == 0 })
	if err := s.node.host.RequestLeaderTransfer(s.shardID, to); err != nil {
		return err
	}
	s.proposer.until(transferInterval, func() bool { return !s.leads() })
	return nil
}

// stop ends what waits for the replica. It is called once; dragonboat closes the replica itself.
func (s *shard) stop() {
	close(s.stopped)
	s.proposer.stop()
	if s.reader != nil {
		s.reader.stop()
		s.replica.Stop()
	}
}

// failure gives what is wrong with the replica, or nil.
func (s *shard) failure() *replica.Failure {
	if s.replica == nil {
		return nil
	}
	return s.replica.Failure()
}

func (s *shard) leads() bool { return s.leader.Load() == s.replicaID }

func (s *shard) ready() error {
	switch {
	case s.failure() != nil:
		return fmt.Errorf("%w: shard %d: %w", service.ErrCorrupt, s.shardID, s.failure().Err)
	case s.leader.Load() == 0:
		return fmt.Errorf("%w: shard %d has no leader", service.ErrUnavailable, s.shardID)
	case !s.caughtUp.Load():
		return fmt.Errorf("%w: shard %d", service.ErrLoading, s.shardID)
	case !s.hasVote():
		return fmt.Errorf("%w: shard %d has no vote yet", service.ErrLoading, s.shardID)
	case s.replica != nil && s.replica.Full():
		return fmt.Errorf("%w: shard %d", service.ErrFull, s.shardID)
	}
	return nil
}

// hasVote tells whether the replica, which has caught up, counts towards the majority. Until then
// no other node may be stopped.
func (s *shard) hasVote() bool {
	if s.learns.Load() && !s.node.isLearner(s.shardID) {
		s.learns.Store(false)
	}
	return !s.learns.Load()
}

// read answers for keys of the shard.
func (s *shard) read(ctx context.Context, keys []uint64, c service.Consistency) (values [][]byte,
	release func(), err error) {
	s.load.reads.Add(uint64(len(keys)))
	if c == service.Local {
		if !s.caughtUp.Load() {
			return nil, nil, fmt.Errorf("%w: shard %d", service.ErrLoading, s.shardID)
		}
		return readKeys(s.replica, keys)
	}
	if len(keys) == 1 {
		r := newKeyRead(ctx, keys[0])
		if err := s.reader.do(r); err != nil {
			return nil, nil, err
		}
		r.values[0] = r.value
		return r.values[:], r.free, nil
	}
	return s.readTogether(ctx, keys)
}

// readTogether reads keys at one moment. A call that gives up leaves the results to the look-up,
// which may still be under way.
func (s *shard) readTogether(ctx context.Context, keys []uint64) (values [][]byte, release func(),
	err error) {
	var got [][]byte
	var free func()
	if err := s.reader.look(ctx, func(from *replica.Replica) (err error) {
		got, free, err = readKeys(from, keys)
		return err
	}); err != nil {
		return nil, nil, err
	}
	return got, free, nil
}

// barrier waits until the replica has applied all that was committed before the call.
func (s *shard) barrier(ctx context.Context) error {
	return s.reader.look(ctx, func(*replica.Replica) error { return nil })
}

// look calls a lookup of another kind.
func (s *shard) look(ctx context.Context, query any, c service.Consistency) error {
	look := func(from *replica.Replica) error {
		_, err := from.Lookup(query)
		return err
	}
	if c == service.Local {
		if !s.caughtUp.Load() {
			return fmt.Errorf("%w: shard %d", service.ErrLoading, s.shardID)
		}
		return lookupError(look(s.replica))
	}
	return s.reader.look(ctx, look)
}
