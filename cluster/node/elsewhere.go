package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"engine_race/cluster/service"
)

// elsewhere calls the nodes with a replica of the shard, until one of them has answered: first the
// one that answered last. A call that may have done something is not sent again, unless it is a
// read.
func (n *Node) elsewhere(ctx context.Context, shardID uint64, path, query string, body []byte,
	reads bool) ([]byte, error) {
	d := n.directory.Load()
	placements := slices.DeleteFunc(slices.Clone(d.Shards[shardID].Replicas),
		func(p Placement) bool { return p.NodeID == n.state.NodeID })
	if answered, known := n.answered.Load(shardID); known {
		slices.SortStableFunc(placements, func(a, b Placement) int {
			return cmp.Compare(btoi(a.NodeID != answered), btoi(b.NodeID != answered))
		})
	}
	if len(placements) == 0 {
		return nil, fmt.Errorf("%w: no node is known to have shard %d", service.ErrUnavailable,
			shardID)
	}
	ask := func(ctx context.Context, p Placement) ([]byte, error) {
		answer, err := n.post(ctx, d.Nodes[p.NodeID].AdminAddress, path,
			fmt.Sprintf("shard=%d&%s", shardID, query), body)
		if err == nil {
			n.answered.Store(shardID, p.NodeID)
		}
		return answer, err
	}
	var answer []byte
	var err error
	if reads {
		answer, err = askSideBySide(ctx, placements, ask)
		err = readError(err)
	} else {
		answer, err = askInTurn(ctx, placements, ask)
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, service.ErrUnknown)) {
		n.answered.Delete(shardID)
	}
	if errors.Is(err, errNotHere) {
		err = fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	return answer, err
}

// A replica that is behind, or that has stopped, may have the bounds of before. So errMoved counts
// only when no other node has an answer.
func askInTurn(ctx context.Context, placements []Placement,
	ask func(context.Context, Placement) ([]byte, error)) (answer []byte, err error) {
	var moved error
	for _, p := range placements {
		answer, err = ask(ctx, p)
		if err == nil || ctx.Err() != nil || errors.Is(err, service.ErrUnknown) {
			return answer, err
		}
		if errors.Is(err, errMoved) {
			moved = err
		}
	}
	return answer, cmp.Or(moved, err)
}

// askSideBySide asks a further node when those before it have failed or are silent for a while. A
// long read goes on meanwhile: the others may be no faster.
func askSideBySide(ctx context.Context, placements []Placement,
	ask func(context.Context, Placement) ([]byte, error)) ([]byte, error) {
	type outcome struct {
		answer []byte
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan outcome, len(placements))
	var moved error // see askInTurn
	for asked, failed := 0, 0; ; {
		if asked < len(placements) {
			p := placements[asked]
			asked++
			go func() {
				answer, err := ask(ctx, p)
				outcomes <- outcome{answer, err}
			}()
		}
		var further <-chan time.Time
		if asked < len(placements) {
			further = time.After(readAttempt)
		}
		select {
		case o := <-outcomes:
			if errors.Is(o.err, errMoved) {
				moved = o.err
			}
			if failed++; o.err == nil || failed < len(placements) && ctx.Err() != nil {
				return o.answer, o.err
			}
			if failed == len(placements) {
				return nil, cmp.Or(moved, o.err)
			}
		case <-further:
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
