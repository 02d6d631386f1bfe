package node

import (
	"fmt"

	"github.com/lni/dragonboat/v4"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// finishProposal hands the outcome to the writes: at the commit to those whose calls ask for no
// more. The slot is free when the command was applied or the leader has changed: a proposal to a
// dead leader ends with its time-out alone.
func (p *proposer) finishProposal(request *dragonboat.RequestState, writes []*write, b basis,
	leaderChanged <-chan struct{}) {
	results := request.ResultC()
	done := false // the writes have their outcome
	var result dragonboat.RequestResult
	for ended := false; !ended; {
		select {
		case result = <-results:
			// A command that was applied was also committed.
			ended = result.Completed() || !result.Committed()
			if !ended && !done && !writes[0].counted &&
				p.shard.acknowledgesAtCommit(b.token, b.bounds) {
				handBack(nil, writes)
				done = true
				writes = nil // their memory is the callers'
			}
		case <-leaderChanged:
			leaderChanged = nil
			<-p.slots
		}
	}
	if leaderChanged != nil {
		<-p.slots
	}
	// Dragonboat may still be about to tell of the commit of a request that has ended otherwise. It
	// would tell the next one that uses the same memory.
	if result.Completed() {
		request.Release()
	}
	p.proposalEnded()
	if done {
		if isLate(result) || isMalformed(result) || isMoved(result) {
			panic("a command was acknowledged, and its replica refuses it")
		}
		return
	}
	// A proposal that was dropped has never reached a log, and a late one has changed nothing.
	if result.Dropped() || isLate(result) {
		p.resend(writes)
		return
	}
	handOut(result, writes)
}

func handOut(result dragonboat.RequestResult, writes []*write) {
	switch {
	case result.Completed() && result.GetResult().Value == replica.ResultApplied:
		handBack(result.GetResult().Data, writes)
	case isMoved(result):
		finish(writes, errMoved)
	case isMalformed(result):
		finish(writes, fmt.Errorf("%w: the command is malformed", service.ErrUnavailable))
	case result.Timeout():
		finish(writes, fmt.Errorf("%w: no answer in time", service.ErrUnknown))
	default:
		finish(writes, fmt.Errorf("%w: the replica stopped", service.ErrUnknown))
	}
}

func isMalformed(result dragonboat.RequestResult) bool {
	return result.Completed() && result.GetResult().Value == replica.ResultMalformed
}

func isMoved(result dragonboat.RequestResult) bool {
	return result.Completed() && result.GetResult().Value == replica.ResultMoved
}

func isLate(result dragonboat.RequestResult) bool {
	return result.Completed() && result.GetResult().Value == replica.ResultLate
}
