package node

import (
	"slices"
	"sync/atomic"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// write is a call that waits to be proposed.
type write struct {
	ops      []service.Op
	size     int
	counted  bool
	sentOn   bool // another node has sent it to the leader: it is not sent on again
	deadline time.Time
	state    atomic.Int32
	done     chan outcome // has room for one
}

// A write that waits can be withdrawn: it was not sent. One that was refused waits again.
const (
	waiting = iota
	sent
	withdrawn
)

type outcome struct {
	existed []byte // of each op, with counted
	err     error
}

// claim gives the writes that were not withdrawn, and marks them as sent.
func claim(writes []*write) []*write {
	return slices.DeleteFunc(writes, func(w *write) bool {
		return !w.state.CompareAndSwap(waiting, sent)
	})
}

// unclaim lets writes wait again that were refused.
func unclaim(writes []*write) {
	for _, w := range writes {
		w.state.Store(waiting)
	}
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

func countedOps(writes []*write) int {
	count := 0
	for _, w := range writes {
		if w.counted {
			count += len(w.ops)
		}
	}
	return count
}

func commandOf(writes []*write) []byte {
	size := 0
	for _, w := range writes {
		size += w.size
	}
	command := replica.NewCommand(make([]byte, 0, size), writes[0].counted)
	for _, w := range writes {
		for _, op := range w.ops {
			command = replica.AppendOp(command, op)
		}
	}
	return command
}

// handBack tells the writes that they are done. With counted, existed has a byte of each op.
func handBack(existed []byte, writes []*write) {
	for _, w := range writes {
		answer := outcome{}
		if w.counted {
			answer.existed, existed = existed[:len(w.ops)], existed[len(w.ops):]
		}
		w.done <- answer
	}
}

func finish(writes []*write, err error) {
	for _, w := range writes {
		w.done <- outcome{err: err}
	}
}
