package check

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistoriesAreSharedOut(t *testing.T) {
	for _, test := range []struct {
		count int
		parts []int
	}{{7, []int{3, 2, 2}}, {6, []int{3, 3}}, {1, []int{1, 0}}, {0, []int{0, 0}}, {5, []int{5}}} {
		var parts []int
		for i := range test.parts {
			parts = append(parts, shareOf(test.count, i, len(test.parts)))
		}
		if !slices.Equal(parts, test.parts) {
			t.Errorf("%d histories: %v, expected %v", test.count, parts, test.parts)
		}
	}
}

func TestFaultsTakeTurns(t *testing.T) {
	const faults = 5
	order := &turns{random: rand.New(rand.NewPCG(1, 0))}
	counts := make([]int, faults)
	for range 3 * faults {
		counts[order.next(faults)]++
	}
	if slices.Min(counts) != 3 || slices.Max(counts) != 3 {
		t.Errorf("the faults came %v times", counts)
	}
}
