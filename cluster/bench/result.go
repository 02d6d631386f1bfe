package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"engine_race/cluster/bench/load"
)

// claim is a figure to show and its aim in words.
type claim struct{ name, aim string }

// claims are in the order in which the table shows them.
var claims = []claim{
	{"replicated_write_ratio", "at least 0.7"},
	{"linearizable_read_ratio", "at least 0.7"},
	{"linearizable_hot_read_ratio", "at least 0.85"},
	{"local_read_ratio", "at least 0.8"},
	{"vs_etcd_writes", "at least 2.5"},
	{"vs_etcd_reads", "at least 2.5"},
	{"vs_pebble_writes", "at least 4"},
	{"catch_up_write_ratio", "at least 0.8"},
	{"failover_ms_p50", "at most 350"},
	{"failover_ms_p99", "at most 800"},
	{"failover_blackhole_ms_p50", "at most 1000"},
	{"attack_rejoin_s", "at most 5"},
	{floodClaim, "at most 1.2"},
	{"lost", "0"},
	{"stale", "0"},
	{"histories_checked", "at least 150"},
}

// ratios are the claims that compare two figures of one round.
var ratios = []struct{ name, over, under string }{
	{"replicated_write_ratio", "engine_write", "bare_write"},
	{"linearizable_read_ratio", "engine_read", "bare_read"},
	{"linearizable_hot_read_ratio", "engine_" + hotRead, "bare_read"},
	{"vs_etcd_writes", "engine_write", "etcd_write"},
	{"vs_etcd_reads", "engine_read", "etcd_read"},
	{"vs_pebble_writes", "engine_write", "pebble_write"},
	{"vs_pebble_late_writes", "engine_write", "pebble_late_write"},
	{"local_read_ratio", "engine_local_read", "multi_read_local_read"},
}

// Result has the figures of a bench, round by round. Names of rates end in _per_s.
type Result struct {
	Rounds   map[string][]float64
	Failures []string
	settled  map[string]float64 // claims of other programs
	latest   map[string]float64 // rates of the present round
}

// usage is the CPU time of a measurement: what the opponent used, and what the host stole.
type usage struct {
	cpu           time.Duration // of all processes of the opponent
	stolenPercent float64       // of all CPUs' time; NaN if unknown
}

func (r *Result) note(name string, figures load.Figures, used usage) {
	if r.latest == nil {
		r.latest = map[string]float64{}
	}
	r.latest[name] = figures.PerSecond()
	for suffix, value := range map[string]float64{
		"_per_s": figures.PerSecond(), "_p50_ms": figures.P50Ms, "_p99_ms": figures.P99Ms,
		"_errors": float64(figures.Errors),
		// CPU time of one operation.
		"_cpu_us": float64(used.cpu.Microseconds()) / float64(figures.Operations),
	} {
		r.Rounds[name+suffix] = append(r.Rounds[name+suffix], value)
	}
	if stolen := name + "_stolen_percent"; !math.IsNaN(used.stolenPercent) {
		r.Rounds[stolen] = append(r.Rounds[stolen], used.stolenPercent)
	}
}

// noteRatios ends a round.
func (r *Result) noteRatios() {
	for _, ratio := range ratios {
		over, under := r.latest[ratio.over], r.latest[ratio.under]
		if over > 0 && under > 0 {
			r.Rounds[ratio.name] = append(r.Rounds[ratio.name], over/under)
		}
	}
	r.latest = nil
}

// TakeClaims takes claims over from the JSON of another program, such as cluster-check.
func (r *Result) TakeClaims(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var other struct {
		Claims map[string]float64 `json:"claims"`
	}
	if err := json.Unmarshal(text, &other); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if r.settled == nil {
		r.settled = map[string]float64{}
	}
	for _, claim := range claims {
		if value, found := other.Claims[claim.name]; found {
			r.settled[claim.name] = value
		}
	}
	return nil
}

// quantile of at least one value, between its neighbours.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	below := int(at)
	if below+1 == len(sorted) {
		return sorted[below]
	}
	return sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
}

func (r *Result) claim(name string) (float64, bool) {
	if value, found := r.settled[name]; found {
		return value, true
	}
	if rounds := r.Rounds[name]; len(rounds) > 0 {
		return quantile(rounds, 0.5), true
	}
	return 0, false
}

// JSON has the claims, the figures with their quartiles, all rounds, the settings and the machine.
func (r *Result) JSON(options Options) ([]byte, error) {
	measured := map[string]float64{}
	for _, claim := range claims {
		if value, found := r.claim(claim.name); found {
			measured[claim.name] = value
		}
	}
	figures := map[string]map[string]float64{}
	for name, rounds := range r.Rounds {
		figures[name] = map[string]float64{"median": quantile(rounds, 0.5),
			"lower_quartile": quantile(rounds, 0.25), "upper_quartile": quantile(rounds, 0.75)}
	}
	text, err := json.MarshalIndent(map[string]any{
		"claims": measured, "figures": figures, "rounds": r.Rounds, "failures": r.Failures,
		"machine": describeMachine(options.Directory),
		"settings": map[string]any{
			"clients": options.Clients, "records": options.Records, "value_bytes": options.ValueBytes,
			"memory_mib": options.MemoryMiB, "seconds": options.Seconds, "rounds": options.Rounds,
			"depth": options.Depth, "shards": options.Shards, "nodes": options.Nodes,
		},
	}, "", "  ")
	return append(text, '\n'), err
}

// Table shows the claims beside their aims, then every figure.
func (r *Result) Table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%-28s %-14s %s\n", "claim", "aim", "measured")
	for _, claim := range claims {
		shown := "not measured"
		if value, found := r.claim(claim.name); found {
			shown = fmt.Sprintf("%.3f", value)
		}
		fmt.Fprintf(&text, "%-28s %-14s %s\n", claim.name, claim.aim, shown)
	}
	fmt.Fprintf(&text, "\n%-36s %14s %14s %14s %6s\n", "figure", "lower quartile", "median",
		"upper quartile", "rounds")
	for _, name := range slices.Sorted(maps.Keys(r.Rounds)) {
		rounds := r.Rounds[name]
		fmt.Fprintf(&text, "%-36s %14.3f %14.3f %14.3f %6d\n", name, quantile(rounds, 0.25),
			quantile(rounds, 0.5), quantile(rounds, 0.75), len(rounds))
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(&text, "FAILED: %s\n", failure)
	}
	return text.String()
}
