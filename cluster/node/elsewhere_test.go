package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"engine_race/cluster/service"
)

func TestALongReadOutlivesASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		placements := []Placement{{NodeID: 1}, {NodeID: 2}, {NodeID: 3}}
		took := 2 * readAttempt
		answer, err := askSideBySide(soon(t), placements,
			func(ctx context.Context, p Placement) ([]byte, error) {
				if p.NodeID == 3 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(took):
					return []byte{byte(p.NodeID)}, nil
				}
			})
		if err != nil || len(answer) != 1 {
			t.Fatal(answer, err)
		}
	})
}

func TestAReadIsRefusedWhenAllNodesHaveRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		start := time.Now()
		_, err := askSideBySide(soon(t), make([]Placement, 3),
			func(context.Context, Placement) ([]byte, error) {
				asked++
				return nil, fmt.Errorf("%w: number %d", service.ErrLoading, asked)
			})
		if !errors.Is(err, service.ErrLoading) || asked != 3 || time.Since(start) != 0 {
			t.Fatal(asked, err)
		}
	})
}

// A replica that is behind does not know yet which keys its shard has.
func TestOthersAnswerForAReplicaThatIsBehind(t *testing.T) {
	answers := map[uint64]error{1: errMoved, 2: nil}
	ask := func(_ context.Context, p Placement) ([]byte, error) {
		return []byte{byte(p.NodeID)}, answers[p.NodeID]
	}
	placements := []Placement{{NodeID: 1}, {NodeID: 2}}
	for name, in := range map[string]func(context.Context, []Placement,
		func(context.Context, Placement) ([]byte, error)) ([]byte, error){
		"in turn": askInTurn, "side by side": askSideBySide,
	} {
		answers[2] = nil
		if answer, err := in(soon(t), placements, ask); err != nil || answer[0] != 2 {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
		answers[2] = service.ErrLoading
		if _, err := in(soon(t), placements, ask); !errors.Is(err, errMoved) {
			t.Errorf("%s: the call is not routed again: %v", name, err)
		}
	}
}

func TestErrorsOfPartsKeepTheirKind(t *testing.T) {
	corrupt := fmt.Errorf("%w: key 1", service.ErrCorrupt)
	parts := []part{{number: 0}, {number: 1}}
	errs := forEach(parts, func(p part) error { return []error{nil, corrupt}[p.number] })
	if err := firstOf(errs); err != corrupt {
		t.Error(err)
	}
	if err := writeError(errs); !errors.Is(err, service.ErrUnknown) {
		t.Error(err)
	}
	refused := []error{service.ErrUnavailable, service.ErrFull}
	if err := writeError(refused); errors.Is(err, service.ErrUnknown) || err == nil {
		t.Error(err)
	}
}

// A write that meets the end of a connection would be unknown.
func TestOthersLeaveANodeThatDrains(t *testing.T) {
	c := newCluster(t, 4, 1, 3)
	c.awaitReady()
	// Node 4 has no replica.
	put(t, c.nodes[4], 1, 1)
	answered, _ := c.nodes[4].answered.Load(uint64(firstDataShard))
	c.nodes[answered.(uint64)].draining.Store(true)
	put(t, c.nodes[4], 1, 2)
	if now, _ := c.nodes[4].answered.Load(uint64(firstDataShard)); now == answered {
		t.Fatalf("node %d has answered while it drains", now)
	}
	expect(t, c.nodes[4], 1, 2, service.Linearizable)
}
