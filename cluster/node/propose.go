package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

const (
	// Writes that wait are proposed together, up to this size.
	maxProposalBytes = 1 << 20
	// Proposals of one shard that are under way at one time.
	maxProposals = 4
	// Between two tries of a proposal that was dropped before it was sent.
	retryDelay = 5 * time.Millisecond
	// How long proposals to a lost leader are waited for: the next leader may have them.
	lostLeaderGrace = 200 * time.Millisecond
)

var (
	errNoLeader = fmt.Errorf("%w: there was no leader in time", service.ErrUnavailable)
	// The replica stops here. Nothing was done, and another node may do it.
	errStopping = fmt.Errorf("%w: %w", service.ErrUnavailable, errNotHere)
)

// write is a call that waits to be proposed.
type write struct {
	ops      []service.Op
	size     int
	counted  bool
	deadline time.Time
	done     chan outcome // has room for one
}

type outcome struct {
	existed []byte // of each op, with counted
	err     error
}

// proposer joins the writes of one shard into proposals, in the order in which they come.
type proposer struct {
	host    *dragonboat.NodeHost
	session *client.Session
	slots   chan struct{}
	stopped chan struct{}

	mu     sync.Mutex
	queue  []*write
	wakeup chan struct{}
	// Closed and replaced when the shard's leader changes.
	leaderLost chan struct{}
}

func newProposer(host *dragonboat.NodeHost, shardID uint64) *proposer {
	p := &proposer{
		host:       host,
		session:    host.GetNoOPSession(shardID),
		slots:      make(chan struct{}, maxProposals),
		stopped:    make(chan struct{}),
		wakeup:     make(chan struct{}, 1),
		leaderLost: make(chan struct{}),
	}
	go p.run()
	return p
}

// stop refuses writes that wait. It is called once.
func (p *proposer) stop() { close(p.stopped) }

func (p *proposer) noteLeaderChange() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.leaderLost)
	p.leaderLost = make(chan struct{})
}

// submit queues a write. Its outcome comes through w.done.
func (p *proposer) submit(w *write) {
	p.mu.Lock()
	p.queue = append(p.queue, w)
	p.mu.Unlock()
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
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
		if count > 0 && (size+w.size > maxProposalBytes || w.counted != p.queue[0].counted) {
			break
		}
		size += w.size
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
	p.queue = nil
}

func finish(writes []*write, err error) {
	for _, w := range writes {
		w.done <- outcome{err: err}
	}
}

// propose sends a proposal, and gives its slot back when it has ended or its leader is lost. Until
// it was sent, it is tried again: nothing was done then.
func (p *proposer) propose(writes []*write) {
	command, err := commandOf(writes)
	if err != nil {
		<-p.slots
		finish(writes, err)
		return
	}
	deadline := writes[0].deadline
	for _, w := range writes {
		if w.deadline.After(deadline) {
			deadline = w.deadline
		}
	}
	p.mu.Lock()
	leaderLost := p.leaderLost
	p.mu.Unlock()
	request, err := p.send(command, deadline)
	if err != nil {
		<-p.slots
		finish(writes, err)
		return
	}
	go func() {
		retry := p.await(request, writes, leaderLost)
		<-p.slots
		if retry {
			p.resend(writes)
		}
	}()
}

func commandOf(writes []*write) ([]byte, error) {
	size := 2
	for _, w := range writes {
		size += w.size
	}
	command := replica.NewCommand(make([]byte, 0, size), writes[0].counted)
	for _, w := range writes {
		for _, op := range w.ops {
			var err error
			if command, err = replica.AppendOp(command, op); err != nil {
				return nil, err
			}
		}
	}
	return command, nil
}

// send proposes until dragonboat takes the proposal.
func (p *proposer) send(command []byte, deadline time.Time) (*dragonboat.RequestState, error) {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return nil, errNoLeader
		}
		request, err := p.host.Propose(p.session, command, left)
		if err == nil {
			return request, nil
		}
		if !isPassing(err) {
			return nil, refusal(err)
		}
		select {
		case <-time.After(retryDelay):
		case <-p.stopped:
			return nil, errStopping
		}
	}
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

// await hands the outcome to the writes. It answers true, and hands out nothing, if the proposal
// was dropped before it was sent.
func (p *proposer) await(request *dragonboat.RequestState, writes []*write,
	leaderLost chan struct{}) (retry bool) {
	var grace <-chan time.Time
	for {
		select {
		case result := <-request.AppliedC():
			defer request.Release()
			if result.Dropped() {
				return true
			}
			handOut(result, writes)
			return false
		case <-leaderLost:
			leaderLost = nil
			grace = time.After(lostLeaderGrace)
		case <-grace:
			finish(writes, fmt.Errorf("%w: the leader was lost", service.ErrUnknown))
			return false
		}
	}
}

func handOut(result dragonboat.RequestResult, writes []*write) {
	switch {
	case result.Completed() && result.GetResult().Value == replica.ResultApplied:
		existed := result.GetResult().Data
		for _, w := range writes {
			answer := outcome{}
			if w.counted {
				answer.existed, existed = existed[:len(w.ops)], existed[len(w.ops):]
			}
			w.done <- answer
		}
	case result.Completed():
		finish(writes, fmt.Errorf("%w: the command is malformed", service.ErrUnavailable))
	case result.Timeout():
		finish(writes, fmt.Errorf("%w: no answer in time", service.ErrUnknown))
	default:
		finish(writes, fmt.Errorf("%w: the replica stopped", service.ErrUnknown))
	}
}

// resend puts writes that were dropped back to the front.
func (p *proposer) resend(writes []*write) {
	select {
	case <-time.After(retryDelay):
	case <-p.stopped:
	}
	now := time.Now()
	var again []*write
	for _, w := range writes {
		if now.After(w.deadline) {
			finish([]*write{w}, errNoLeader)
			continue
		}
		again = append(again, w)
	}
	p.mu.Lock()
	p.queue = append(again, p.queue...)
	p.mu.Unlock()
	select {
	case <-p.stopped:
		p.refuseAll()
	case p.wakeup <- struct{}{}:
	default:
	}
}

// do proposes ops and waits for their outcome.
func (p *proposer) do(ctx context.Context, ops []service.Op, counted bool) ([]byte, error) {
	deadline, _ := ctx.Deadline()
	w := &write{ops: ops, size: replica.CommandBytes(ops), counted: counted, deadline: deadline,
		done: make(chan outcome, 1)}
	p.submit(w)
	select {
	case o := <-w.done:
		return o.existed, o.err
	case <-ctx.Done():
		if p.withdraw(w) {
			return nil, errNoLeader
		}
		return nil, fmt.Errorf("%w: %w", service.ErrUnknown, ctx.Err())
	}
}

// withdraw takes a write off the queue. False: it may have been proposed.
func (p *proposer) withdraw(w *write) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.queue, w)
	if i < 0 {
		return false
	}
	p.queue = slices.Delete(slices.Clone(p.queue), i, i+1)
	return true
}
