package bench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"engine_race/cluster/bench/load"
)

func TestClaimsAreMediansOfRatiosOfARound(t *testing.T) {
	r := Result{Rounds: map[string][]float64{}}
	for _, rates := range [][2]uint64{{60, 100}, {90, 100}, {7, 10}} {
		r.note("engine_write", load.Figures{Operations: rates[0], Seconds: 1}, usage{cpu: time.Second})
		r.note("bare_write", load.Figures{Operations: rates[1], Seconds: 1}, usage{cpu: time.Second})
		r.noteRatios()
	}
	// A round without the other side has no ratio.
	r.note("engine_write", load.Figures{Operations: 1, Seconds: 1}, usage{cpu: time.Second})
	r.noteRatios()
	if got, found := r.claim("replicated_write_ratio"); !found || got != 0.7 {
		t.Errorf("%v, %v", got, r.Rounds)
	}
	row := regexp.MustCompile(`(?m)^local_read_ratio +at least [0-9.]+ +not measured$`)
	if !row.MatchString(r.Table()) {
		t.Error(r.Table())
	}
}

func TestUnknownStolenTimeIsLeftOut(t *testing.T) {
	r := Result{Rounds: map[string][]float64{}}
	for _, percent := range []float64{1.5, math.NaN()} {
		used := usage{cpu: time.Second, stolenPercent: percent}
		r.note("bare_read", load.Figures{Operations: 1, Seconds: 1}, used)
	}
	if got := r.Rounds["bare_read_stolen_percent"]; !slices.Equal(got, []float64{1.5}) {
		t.Errorf("stolen percent: %v", got)
	}
	if got := r.Rounds["bare_read_per_s"]; len(got) != 2 {
		t.Errorf("rates: %v", got)
	}
}

func TestClaimsOfTheCheckAreTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "check.json")
	text := `{"claims": {"stale": 0, "histories_checked": 120, "violations": 3}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := Result{Rounds: map[string][]float64{"x_per_s": {1, 2, 4}}, Failures: []string{}}
	if err := r.TakeClaims(path); err != nil {
		t.Fatal(err)
	}
	written, err := r.JSON(Options{Directory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Claims  map[string]float64
		Figures map[string]map[string]float64
		Machine map[string]any
	}
	if err := json.Unmarshal(written, &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Claims) != 2 || read.Claims["histories_checked"] != 120 {
		t.Errorf("%v", read.Claims)
	}
	if read.Figures["x_per_s"]["median"] != 2 || read.Figures["x_per_s"]["upper_quartile"] != 3 {
		t.Errorf("%v", read.Figures)
	}
	if read.Machine["cpu_count"] == nil || read.Machine["file_system"] == nil {
		t.Errorf("%v", read.Machine)
	}
	if r.TakeClaims(path+".none") == nil {
		t.Error("a missing file was read")
	}
}
