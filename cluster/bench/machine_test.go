package bench

import (
	"math"
	"testing"
)

func TestStolenTimeIsAShareOfAllTime(t *testing.T) {
	// Guests' time, the last two fields, is a part of the first two.
	before := parseMachineTime("cpu  100 0 50 800 20 1 9 20 30 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	after := parseMachineTime("cpu  160 5 60 880 30 2 13 50 90 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if got := after.stolenPercent(before); got != 15 {
		t.Errorf("30 of 200 ticks are 15 percent, not %v", got)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4 5 6 7 x"} {
		if got := parseMachineTime(text); got != (machineTime{}) {
			t.Errorf("%q gives %+v", text, got)
		}
	}
	if got := (machineTime{}).stolenPercent(after); !math.IsNaN(got) {
		t.Errorf("without a second reading nothing is known, not %v", got)
	}
	if got := after.stolenPercent(machineTime{}); !math.IsNaN(got) {
		t.Errorf("without a first reading nothing is known, not %v", got)
	}
}

func TestTheKernelTellsTheTimeOfThisMachine(t *testing.T) {
	if readMachineTime().all == 0 {
		t.Error("no time has passed")
	}
}
