package node

import (
	"slices"
	"sync/atomic"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// write is a call that waits to be proposed. Its ops lie in the memory of the call, which waits
// until they are encoded into a command or the write is withdrawn: see proposer.encoding.
type write struct {
	ops      []service.Op
	encoded  []byte // the ops as another node has encoded them, instead of ops
	opCount  int
	counted  bool
	reads    bool // some ops are reads: the outcome has their values; counted, too
	sentOn   bool // another node has sent it to the leader: it is not sent on again
	deadline time.Time
	state    atomic.Int32
	done     chan outcome // has room for one
}

// A write that waits can be withdrawn: it was not sent. One that was refused waits again, unless
// its call has ended meanwhile with an unknown outcome.
const (
	waiting = iota
	sent
	withdrawn
	abandoned
)

type outcome struct {
	existed []byte // of each op, with counted; with reads as replica.ParseFound reads it
	err     error
}

func newWrite(ops []service.Op, counted bool) *write {
	return &write{ops: ops, opCount: len(ops), counted: counted, reads: hasReads(ops)}
}

// bytes is the size of the write's ops in a command.
func (w *write) bytes() int { return len(w.encoded) + replica.OpsBytes(w.ops) }

func (w *write) forget() { w.ops, w.encoded = nil, nil }

// end is called when the call no longer waits. False: the write was not sent, and never will be.
func (w *write) end() (maybeSent bool) {
	for {
		if w.state.CompareAndSwap(waiting, withdrawn) {
			return false
		}
		// It can be refused, and wait again, between the two.
		if w.state.CompareAndSwap(sent, abandoned) {
			return true
		}
	}
}

// claim gives the writes whose calls still wait, and marks them as sent. It refuses those whose
// time is over: their calls may be about to end.
func claim(writes []*write) []*write {
	now := time.Now()
	return slices.DeleteFunc(writes, func(w *write) bool {
		if now.After(w.deadline) {
			finish([]*write{w}, errNoLeader)
			return true
		}
		return !w.state.CompareAndSwap(waiting, sent)
	})
}

// unclaim lets writes wait again that were refused. It leaves out those whose calls have ended.
func unclaim(writes []*write) []*write {
	return slices.DeleteFunc(writes, func(w *write) bool {
		return !w.state.CompareAndSwap(sent, waiting)
	})
}

// refuseSentOn gives the writes that may be sent to the leader's node. It refuses those that come
// from another node: that node looks for the leader itself.
func refuseSentOn(writes []*write) []*write {
	return slices.DeleteFunc(writes, func(w *write) bool {
		if w.sentOn {
			finish([]*write{w}, errStopping)
		}
		return w.sentOn
	})
}

// refuseMoved gives the writes of keys that the shard has.
func refuseMoved(writes []*write, of *replica.Replica) []*write {
	return slices.DeleteFunc(writes, func(w *write) bool {
		lacks := func(op service.Op) bool { return !of.HasKey(op.Key) }
		if of.HasKeys(w.encoded) && !slices.ContainsFunc(w.ops, lacks) {
			return false
		}
		finish([]*write{w}, errMoved)
		return true
	})
}

func latest(writes []*write) time.Time {
	deadline := writes[0].deadline
	for _, w := range writes {
		if w.deadline.After(deadline) {
			deadline = w.deadline
		}
	}
	return deadline
}

// timeLeft is at least what dragonboat takes.
func timeLeft(writes []*write) time.Duration {
	return max(time.Until(latest(writes)), minProposalTime)
}

// isOutcome tells whether an answer of another node may be that of the writes. Answers with values
// have no fixed size: Transact parses them.
func isOutcome(existed []byte, writes []*write) bool {
	return writes[0].reads || len(existed) == countedOps(writes)
}

func countedOps(writes []*write) int {
	count := 0
	for _, w := range writes {
		if w.counted {
			count += w.opCount
		}
	}
	return count
}

// sentHeader is that of a command for another node, which makes a command of its own of it.
func sentHeader(counted, reads bool) replica.Header {
	if reads {
		return replica.Header{Version: replica.ReadsVersion, Counted: counted, Reads: true}
	}
	return replica.Header{Version: 1, Counted: counted}
}

// commandOf encodes a command into `memory`, or into new memory if that is too small.
func commandOf(memory []byte, writes []*write, h replica.Header) []byte {
	size := replica.HeaderBytes
	for _, w := range writes {
		size += w.bytes()
	}
	command := replica.NewCommand(slices.Grow(memory[:0], size), h)
	for _, w := range writes {
		command = append(command, w.encoded...)
		for _, op := range w.ops {
			command = replica.AppendOp(command, op)
		}
	}
	return command
}

// handBack tells the writes that they are done. With counted, existed has a byte of each op. A
// write with reads is alone.
func handBack(existed []byte, writes []*write) {
	if writes[0].reads {
		writes[0].done <- outcome{existed: existed}
		return
	}
	for _, w := range writes {
		answer := outcome{}
		if w.counted {
			answer.existed, existed = existed[:w.opCount], existed[w.opCount:]
		}
		w.done <- answer
	}
}

func finish(writes []*write, err error) {
	for _, w := range writes {
		w.done <- outcome{err: err}
	}
}
