package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Writes that wait are proposed together, up to this size.
	maxProposalBytes = 1 << 20
	// Proposals up to this size share their memory. A single write may be larger.
	maxKeptBytes = 2 * maxProposalBytes
	// An op counts for at least these bytes: each one is looked up or applied, and few bytes may be
	// many.
	leastOpBytes = 64
	// Proposals of one shard that are under way at one time.
	maxProposals = 4
	// Between two tries of a proposal that was dropped before it was sent.
	retryDelay = 5 * time.Millisecond
	// The least time that dragonboat is given: it counts in ticks.
	minProposalTime = 100 * time.Millisecond
)

var (
	errNoLeader = fmt.Errorf("%w: there was no leader in time", service.ErrUnavailable)
	// The replica stops here. Nothing was done, and another node may do it.
	errStopping = fmt.Errorf("%w: %w", service.ErrUnavailable, errNotHere)
)

// proposer joins the writes of one shard into proposals, in the order in which they come. Where
// another node leads the shard, it sends them there: a leader that does not take a proposal tells
// its own node alone.
type proposer struct {
	shard   *shard
	host    *dragonboat.NodeHost
	session *client.Session
	slots   chan struct{}
	stopped chan struct{}

	// While it is held, nothing is proposed here: the leader is about to move, and would drop it.
	held atomic.Bool
	// Proposals here whose outcome is not known.
	proposed atomic.Int64

	// Guards the memory of calls against their end, from the claim of their writes until these are
	// encoded.
	encoding sync.Mutex
	memory   []byte // of proposals: dragonboat copies them

	mu     sync.Mutex
	queue  []*write
	closed bool
	wakeup chan struct{}

	leaderChanged signal
	// Another leader, the end of a hold, or the end of the last proposal under way.
	stirred signal
}

func newProposer(s *shard) *proposer {
	p := &proposer{
		shard:   s,
		host:    s.node.host,
		session: s.node.host.GetNoOPSession(s.shardID),
		slots:   make(chan struct{}, maxProposals),
		stopped: make(chan struct{}),
		wakeup:  make(chan struct{}, 1),
	}
	go p.run()
	return p
}

// stop refuses writes that wait. It is called once.
func (p *proposer) stop() { close(p.stopped) }

func (p *proposer) noteLeaderChange() {
	p.leaderChanged.raise()
	p.stirred.raise()
}

// take gives the writes of the next proposal.
func (p *proposer) take() []*write {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.queue) > 0 && now.After(p.queue[0].deadline) {
		finish(p.queue[:1], errNoLeader)
		p.queue = p.queue[1:]
	}
	size, count := 0, 0
	for count < len(p.queue) {
		w := p.queue[count]
		first := p.queue[0]
		cost := max(w.bytes(), w.opCount*leastOpBytes)
		if count > 0 && (size+cost > maxProposalBytes || w.counted != first.counted || w.reads ||
			first.reads) {
			break
		}
		size += cost
		count++
	}
	writes := p.queue[:count:count]
	p.queue = p.queue[count:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	return writes
}

func (p *proposer) run() {
	for {
		select {
		case <-p.stopped:
			p.refuseAll()
			return
		case <-p.wakeup:
		}
		for {
			select {
			case p.slots <- struct{}{}:
			case <-p.stopped:
				p.refuseAll()
				return
			}
			// Lets clients run that are about to write, so that they share the proposal.
			runtime.Gosched()
			writes := p.take()
			if len(writes) == 0 {
				<-p.slots
				break
			}
			p.propose(writes)
		}
	}
}

func (p *proposer) refuseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	finish(p.queue, errStopping)
	p.queue, p.closed = nil, true
}

// propose sends the writes to the leader, and gives their slot back when they have ended or the
// shard has another leader. Until they were sent, they are tried again: nothing was done then.
func (p *proposer) propose(writes []*write) {
	for {
		leaderChanged := p.leaderChanged.wait()
		leader, err := p.awaitLeader(latest(writes))
		if err != nil {
			<-p.slots
			finish(writes, err)
			return
		}
		here := leader == p.shard.replicaID
		if !here {
			writes = refuseSentOn(writes)
		}
		var command []byte
		var basis basis
		if command, basis, writes = p.prepare(writes, here); len(writes) == 0 {
			<-p.slots
			return
		}
		if !here {
			go p.sendTo(leader, command, writes, leaderChanged)
			return
		}
		p.proposed.Add(1)
		request, err := p.host.Propose(p.session, command, timeLeft(writes))
		if err == nil {
			go p.finishProposal(request, writes, basis, leaderChanged)
			return
		}
		p.proposalEnded()
		if !isPassing(err) {
			<-p.slots
			finish(writes, refusal(err))
			return
		}
		if writes = unclaim(writes); len(writes) == 0 {
			<-p.slots
			return
		}
		p.pause()
	}
}

// prepare claims the writes and gives their command: one to be proposed here, or to be sent to the
// leader's node. The process may stop anywhere here for long, while another replica leads. So the
// term is older than the look at the deadlines. The leader refuses writes of keys that the shard
// does not have, as the replicas would.
func (p *proposer) prepare(writes []*write, here bool) (command []byte, b basis, _ []*write) {
	if len(writes) == 0 {
		return nil, b, nil
	}
	counted, reads := writes[0].counted, writes[0].reads
	header := sentHeader(counted, reads)
	if here {
		header = p.header(counted, reads)
		b = basis{header.Token, p.shard.replica.Bounds()}
	}
	p.encoding.Lock()
	defer p.encoding.Unlock()
	if writes = claim(writes); here {
		writes = refuseMoved(writes, p.shard.replica)
	}
	if len(writes) == 0 || !here {
		return commandOf(nil, writes, header), b, writes
	}
	command = commandOf(p.memory, writes, header)
	p.memory = nil
	if cap(command) <= maxKeptBytes {
		p.memory = command
	}
	return command, b, writes
}

// basis is what a proposal was made on: the term in which this replica led, and the shard's bounds.
type basis struct {
	token  uint64
	bounds keyspace.Entry
}

// header is that of a command which is proposed here, with the term in which this replica leads.
func (p *proposer) header(counted, reads bool) replica.Header {
	header := replica.Header{Version: uint8(p.shard.node.commands()), Counted: counted, Reads: reads,
		Token: p.shard.ledTerm()}
	if reads {
		header.Reader = p.shard.replica.Reader()
	}
	return header
}

// pause waits before the next try.
func (p *proposer) pause() {
	select {
	case <-time.After(retryDelay):
	case <-p.stopped:
	}
}

// sendTo sends the writes to the node of the leader. The slot is free when the answer is there or
// the leader has changed. A node that is gone may never answer.
func (p *proposer) sendTo(leader uint64, command []byte, writes []*write,
	leaderChanged <-chan struct{}) {
	answered := make(chan struct{})
	go func() {
		select {
		case <-answered:
		case <-leaderChanged:
		}
		<-p.slots
	}()
	ctx, cancel := context.WithDeadline(context.Background(), latest(writes))
	defer cancel()
	existed, err := p.shard.node.writeAt(ctx, p.shard.shardID, leader, command)
	close(answered)
	switch {
	case err == nil && !isOutcome(existed, writes):
		finish(writes, fmt.Errorf("%w: an answer of %d bytes", service.ErrUnknown, len(existed)))
	case err == nil:
		handBack(existed, writes)
	case errors.Is(err, service.ErrUnknown), errors.Is(err, errMoved):
		finish(writes, err)
	default:
		// Nothing was done there: the leader may be another one by now.
		p.resend(writes)
	}
}

// waiting tells how many writes wait.
func (p *proposer) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// refusal turns an error of dragonboat, which has done nothing, into one of the service.
func refusal(err error) error {
	if errors.Is(err, dragonboat.ErrShardNotFound) || errors.Is(err, dragonboat.ErrShardClosed) {
		return fmt.Errorf("%w: %w", errStopping, err)
	}
	return fmt.Errorf("%w: %w", service.ErrUnavailable, err)
}

// isPassing tells whether dragonboat refused a call that may succeed soon.
func isPassing(err error) bool {
	return errors.Is(err, dragonboat.ErrSystemBusy) ||
		errors.Is(err, dragonboat.ErrShardNotReady) ||
		errors.Is(err, dragonboat.ErrShardNotInitialized)
}

// resend puts writes that were refused back to the front.
func (p *proposer) resend(writes []*write) {
	writes = unclaim(writes)
	p.pause()
	p.enqueue(writes, true)
}

// enqueue queues writes, or refuses them when the proposer has stopped.
func (p *proposer) enqueue(writes []*write, front bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		finish(writes, errStopping)
		return
	case front:
		p.queue = append(slices.Clip(writes), p.queue...)
	default:
		p.queue = append(p.queue, writes...)
	}
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// do proposes a write and waits for its outcome.
func (p *proposer) do(ctx context.Context, w *write) ([]byte, error) {
	if p.shard.replica.Full() {
		return nil, fmt.Errorf("%w: shard %d", service.ErrFull, p.shard.shardID)
	}
	if p.shard.leads() {
		p.shard.load.writes.Add(uint64(w.opCount))
	}
	w.deadline, _ = ctx.Deadline()
	w.done = make(chan outcome, 1)
	p.enqueue([]*write{w}, false)
	select {
	case o := <-w.done:
		return o.existed, o.err
	case <-ctx.Done():
		p.encoding.Lock()
		maybeSent := w.end()
		p.encoding.Unlock()
		if maybeSent {
			return nil, fmt.Errorf("%w: %w", service.ErrUnknown, ctx.Err())
		}
		p.forget(w)
		return nil, errNoLeader
	}
}

// forget frees the memory of a write that was withdrawn. It may wait in the queue for long, and its
// call, which held bytes of the budget for it, has ended.
func (p *proposer) forget(w *write) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.forget()
	p.queue = slices.DeleteFunc(p.queue, func(queued *write) bool { return queued == w })
}
