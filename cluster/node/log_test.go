package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"engine_race/cluster/service"
)

// A peer that is unreachable must be seen at the level at which services run, but not for each of
// its shards and each attempt.
func TestWarningsOfRaftAreLoggedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newRaftLogger(slog.New(slog.NewTextHandler(&text, nil)))
		for i := range 5 {
			l.Warningf("%d became unreachable", i)
		}
		l.Warningf("deployment id does not match")
		time.Sleep(warningInterval)
		l.Warningf("%d became unreachable", 5)
		for line, want := range map[string]int{"level=WARN": 3, "0 became": 1, "1 became": 0,
			"deployment": 1, `5 became unreachable" unlogged=4`: 1} {
			if got := strings.Count(text.String(), line); got != want {
				t.Errorf("%d times %q, not %d, in\n%s", got, line, want, &text)
			}
		}
	})
}

// An error may wrap two kinds. Its kind tells another node what was done, so it may not vary.
func TestAnErrorOfTwoKindsHasOneName(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: %w", service.ErrUnavailable, errNotHere), "not-here"},
		{fmt.Errorf("%w: %w", errNotHere, service.ErrUnavailable), "not-here"},
		{fmt.Errorf("%w: %w", service.ErrFull, service.ErrUnknown), "unknown"},
		{fmt.Errorf("%w: %w", service.ErrUnavailable, service.ErrConflict), "conflict"},
		{fmt.Errorf("%w: %w", service.ErrUnavailable, service.ErrCorrupt), "corrupt"},
	} {
		for range 50 {
			if got := kindOf(c.err); got != c.want {
				t.Fatalf("%v is %q, not %q", c.err, got, c.want)
			}
		}
	}
}
