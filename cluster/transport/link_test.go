package transport

import (
	"context"
	"testing"
	"time"

	"engine_race/cluster/testkit"
)

// TestALinkEndsWithItsContext: dragonboat waits for its senders before it closes the transport, and
// a silent peer would hold one up.
func TestALinkEndsWithItsContext(t *testing.T) {
	one := newNode(t, newPeers(), 1, "127.0.0.1").start(t)
	ctx, cancel := context.WithCancel(context.Background())
	connection, err := one.GetConnection(ctx, testkit.FreeAddresses(t, "127.0.0.1", 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	cancel()
	select {
	case <-connection.(*link).ctx.Done():
	case <-time.After(patience):
		t.Fatal("the link goes on")
	}
}

// TestAPeerThatEndsConnectionsAtOnceIsLeftAlone for a while, or both would do nothing else.
func TestAPeerThatEndsConnectionsAtOnceIsLeftAlone(t *testing.T) {
	for _, test := range []struct{ before, lived, want time.Duration }{
		{0, time.Hour, 0}, {longestPause, longestPause, 0}, {0, 0, firstPause},
		{firstPause, time.Millisecond, 2 * firstPause}, {longestPause, 0, longestPause},
	} {
		if got := pauseAfter(test.before, test.lived); got != test.want {
			t.Errorf("after %v and a life of %v: %v", test.before, test.lived, got)
		}
	}
}
