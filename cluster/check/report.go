package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"engine_race/cluster/check/history"
	"engine_race/cluster/check/ledger"
	"engine_race/cluster/check/model"
	"engine_race/cluster/check/wire"
)

// Class counts what the histories of one fault gave.
type Class struct {
	Histories      int `json:"histories"`
	Checked        int `json:"checked"`    // with a verdict, and no violation
	Violations     int `json:"violations"` // not linearizable, mixed values, odd replies
	Unchecked      int `json:"unchecked"`  // histories whose search ran out of time
	Empty          int `json:"empty"`      // histories with too few acknowledged operations
	Operations     int `json:"operations"`
	Done           int `json:"done"`
	Refused        int `json:"refused"`
	Unknown        int `json:"unknown"`
	FaultErrors    int `json:"fault_errors"`    // the cluster did not heal, or a command failed
	FailedRequests int `json:"failed_requests"` // where none may fail
	Crashes        int `json:"crashes"`         // nodes that ended by themselves
}

func (c *Class) add(h *history.History, verdict model.Verdict) {
	c.Histories++
	c.Operations += len(h.Operations)
	c.Done += h.Count(wire.Done)
	c.Refused += h.Count(wire.Refused)
	c.Unknown += h.Count(wire.Unknown)
	c.Violations += len(verdict.Violations)
	if len(verdict.Unchecked) > 0 {
		c.Unchecked++
	}
}

func (c *Class) sum(other *Class) {
	c.Histories += other.Histories
	c.Checked += other.Checked
	c.Violations += other.Violations
	c.Unchecked += other.Unchecked
	c.Empty += other.Empty
	c.Operations += other.Operations
	c.Done += other.Done
	c.Refused += other.Refused
	c.Unknown += other.Unknown
	c.FaultErrors += other.FaultErrors
	c.FailedRequests += other.FailedRequests
	c.Crashes += other.Crashes
}

// Claims are the figures that a release promises.
type Claims struct {
	HistoriesChecked int `json:"histories_checked"`
	Lost             int `json:"lost"`  // acknowledged writes
	Stale            int `json:"stale"` // linearizable reads
	Violations       int `json:"violations"`
	// In milliseconds; 0 if no failover was measured.
	FailoverP50  float64 `json:"failover_ms_p50,omitempty"`
	FailoverP99  float64 `json:"failover_ms_p99,omitempty"`
	BlackHoleP50 float64 `json:"failover_blackhole_ms_p50,omitempty"`
	// The longest return of a restarted node under attack, in seconds; 0 if none was measured.
	AttackRejoin float64 `json:"attack_rejoin_s,omitempty"`
}

// Report is the result of a check.
type Report struct {
	Classes  map[string]*Class `json:"classes"` // by the fault's name
	Ledger   ledger.Report     `json:"ledger"`
	Failover *Failover         `json:"failover,omitempty"`
	// BlackHole is of leaders that vanished without a word.
	BlackHole *Failover `json:"black_hole,omitempty"`
	// RejoinSeconds has one figure for each restart under attack, of those that were asked for.
	RejoinSeconds []float64 `json:"rejoin_s,omitempty"`
	AttacksAsked  int       `json:"attacks,omitempty"`
	Crashes       int       `json:"crashes"` // where no node may end by itself
	Problems      []string  `json:"problems,omitempty"`
	Claims        Claims    `json:"claims"`
}

const maxProblems = 100

func newReport() *Report { return &Report{Classes: map[string]*Class{}} }

func (r *Report) class(name string) *Class {
	if r.Classes[name] == nil {
		r.Classes[name] = &Class{}
	}
	return r.Classes[name]
}

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// add adds what another cluster went through.
func (r *Report) add(other *Report) {
	for name, class := range other.Classes {
		r.class(name).sum(class)
	}
	r.Ledger.Add(&other.Ledger)
	r.Failover = cmp.Or(r.Failover, other.Failover)
	r.BlackHole = cmp.Or(r.BlackHole, other.BlackHole)
	r.Crashes += other.Crashes
	for _, problem := range other.Problems {
		r.problem("%s", problem)
	}
}

// finish computes the claims. Values that nobody wrote are violations, in the ledger too.
func (r *Report) finish() {
	r.Claims = Claims{Lost: r.Ledger.Lost,
		Stale: r.Ledger.Stale, Violations: r.Ledger.Impossible}
	for _, class := range r.Classes {
		r.Claims.HistoriesChecked += class.Histories - class.Unchecked - class.Empty
		r.Claims.Violations += class.Violations
	}
	if r.Failover != nil && len(r.Failover.Milliseconds) > 0 {
		r.Claims.FailoverP50 = quantile(r.Failover.Milliseconds, 0.5)
		r.Claims.FailoverP99 = quantile(r.Failover.Milliseconds, 0.99)
	}
	if r.BlackHole != nil && len(r.BlackHole.Milliseconds) > 0 {
		r.Claims.BlackHoleP50 = quantile(r.BlackHole.Milliseconds, 0.5)
	}
	for _, sample := range r.Ledger.Samples {
		r.problem("ledger: %s", sample)
	}
}

// finishAttacks computes the claim of restarts under attack, which come after all others.
func (r *Report) finishAttacks() {
	for _, seconds := range r.RejoinSeconds {
		r.Claims.AttackRejoin = max(r.Claims.AttackRejoin, seconds)
	}
}

// Err fails if anything went wrong, a history without a verdict included.
func (r *Report) Err() error {
	bad := r.Claims.Violations + r.Crashes + r.AttacksAsked - len(r.RejoinSeconds)
	measured := r.AttacksAsked > 0
	for _, failover := range []*Failover{r.Failover, r.BlackHole} {
		if failover != nil {
			bad += failover.Losses - len(failover.Milliseconds)
			measured = true
		}
	}
	for _, class := range r.Classes {
		bad += class.Unchecked + class.Empty + class.FaultErrors + class.FailedRequests
	}
	if bad > 0 || r.Ledger.Failed() || r.Claims.HistoriesChecked == 0 && !measured {
		return errors.New("the cluster failed the check")
	}
	return nil
}

// Print writes the report for people.
func (r *Report) Print(out io.Writer) error {
	var names []string
	for name := range r.Classes {
		names = append(names, name)
	}
	slices.Sort(names)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "fault\thistories\tchecked\tviolations\tunchecked\tempty\toperations\t"+
		"refused\tunknown\tfault errors\tfailed\tcrashes\t")
	for _, name := range names {
		c := r.Classes[name]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, c.Histories,
			c.Checked, c.Violations, c.Unchecked, c.Empty, c.Operations, c.Refused, c.Unknown,
			c.FaultErrors, c.FailedRequests, c.Crashes)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, problem := range r.Problems {
		fmt.Fprintln(out, "problem:", problem)
	}
	fmt.Fprintf(out, "ledger: %d keys, %d writes acknowledged, %d unknown, %d reads, %d keys unread\n",
		r.Ledger.Keys, r.Ledger.Acknowledged, r.Ledger.Unknown, r.Ledger.Reads, r.Ledger.Unread)
	_, err := fmt.Fprintf(out, "histories_checked %d\nlost %d\nstale %d\n"+
		"violations %d\n", r.Claims.HistoriesChecked, r.Claims.Lost,
		r.Claims.Stale, r.Claims.Violations)
	if err == nil && r.Failover != nil {
		_, err = fmt.Fprintf(out, "failover_ms_p50 %.0f\nfailover_ms_p99 %.0f\n",
			r.Claims.FailoverP50, r.Claims.FailoverP99)
	}
	if err == nil && r.BlackHole != nil {
		_, err = fmt.Fprintf(out, "failover_blackhole_ms_p50 %.0f\n", r.Claims.BlackHoleP50)
	}
	if err == nil && r.AttacksAsked > 0 {
		_, err = fmt.Fprintf(out, "attack_rejoin_s %.2f\n", r.Claims.AttackRejoin)
	}
	return err
}

// JSON gives the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}
