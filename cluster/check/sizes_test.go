package check

import (
	"math/rand/v2"
	"reflect"
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

// TestReportsAreAddedUp: a count that is left out would hide what a cluster went through.
func TestReportsAreAddedUp(t *testing.T) {
	class := &Class{}
	fields := reflect.ValueOf(class).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetInt(int64(i) + 1)
	}
	part := newReport()
	part.Classes["none"] = class
	part.Ledger.Keys, part.Crashes, part.Failover = 2, 3, &Failover{Losses: 4}
	part.BlackHole = &Failover{Losses: 5}
	part.problem("a problem")
	sum := newReport()
	sum.add(part)
	if !reflect.DeepEqual(sum, part) {
		t.Errorf("%+v, not %+v", sum, part)
	}
	sum.add(part)
	fields = reflect.ValueOf(sum.Classes["none"]).Elem()
	for i := range fields.NumField() {
		if fields.Field(i).Int() != 2*int64(i)+2 {
			t.Errorf("%s is not added", fields.Type().Field(i).Name)
		}
	}
}
