package node

import "time"

// hold says whether proposals wait here, because the leader is about to move.
func (p *proposer) hold(held bool) {
	p.held.Store(held)
	p.stirred.raise()
}

// proposalEnded is called when the outcome of a proposal is known.
func (p *proposer) proposalEnded() {
	if p.proposed.Add(-1) == 0 {
		p.stirred.raise()
	}
}

// until waits until something is done that stirs the proposer, for a time at most.
func (p *proposer) until(limit time.Duration, done func() bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		stirred := p.stirred.wait()
		if done() {
			return
		}
		select {
		case <-stirred:
		case <-timer.C:
			return
		case <-p.stopped:
			return
		}
	}
}

// awaitLeader gives the replica that leads the shard.
func (p *proposer) awaitLeader(deadline time.Time) (uint64, error) {
	leader := uint64(0)
	p.until(time.Until(deadline), func() bool {
		leader = p.shard.leader.Load()
		if p.held.Load() && leader == p.shard.replicaID {
			leader = 0
		}
		return leader != 0
	})
	select {
	case <-p.stopped:
		return 0, errStopping
	default:
	}
	if leader == 0 {
		return 0, errNoLeader
	}
	return leader, nil
}
