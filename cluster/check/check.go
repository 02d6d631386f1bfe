// Package check runs a cluster of real processes under load and faults, and judges what its
// clients saw. For each history it starts fresh keys and clients, injects one fault, heals it, and
// lets package model judge the history. A ledger of versions runs beside all histories of a
// cluster.
//
// Run may be called once at a time in a process. It owns Options.Dir while it runs.
package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"engine_race/cluster/check/faults"
	"engine_race/cluster/check/history"
	"engine_race/cluster/check/ledger"
	"engine_race/cluster/check/model"
	"engine_race/cluster/check/process"
	"engine_race/cluster/check/value"
	"engine_race/cluster/check/wire"
)

// Options describes a check.
type Options struct {
	Binary string
	Dir    string
	Nodes  int
	Shards int
	// Sizes are the sizes of values: the histories are shared out among a cluster of each, and the
	// clusters run side by side. Without any, there is one cluster with the default.
	Sizes     []value.Size
	Histories int
	Failovers int // kills of leaders whose outage is measured, after the histories
	// BlackHoles are leaders that vanish, whose outage is measured. They need Namespaces.
	BlackHoles int
	// Attacks are restarts of a node while silent connections hold all raft addresses. They are
	// measured at the end, on a cluster of their own.
	Attacks int
	// FailoverRest is the load between a restart and the next kill. Nodes dial a node that was down
	// with growing pauses, and an election needs the survivors' connections. 0 means 4 s.
	FailoverRest time.Duration
	Hold         time.Duration // how long each fault lasts
	Faults       string        // as faults.Select takes them
	Seed         uint64
	Clients      int
	// Namespaces puts each node into a network namespace, and gives it a disk of DiskBytes if
	// that is not 0. Both need root.
	Namespaces bool
	DiskBytes  int64
	LogBytes   int64  // of process.Options
	Extra      string // more lines of each node's configuration file
	// ReadyIn bounds the time from a node's start to its readiness, and the time to heal.
	ReadyIn time.Duration
	// RequestIn is the nodes' limit for a request; clients wait a little longer. 0 means 2 s.
	// Longer limits keep clients at cut nodes, so they see less of the faults.
	RequestIn time.Duration
	// Patience multiplies ReadyIn and the other limits of the check, but not RequestIn. A machine
	// that is busy with other work needs more than 1. 0 means 1.
	Patience float64
	Log      *slog.Logger
}

// patient gives the limit as this machine needs it.
func (o *Options) patient(limit time.Duration) time.Duration {
	return time.Duration(float64(limit) * o.Patience)
}

// Limits of time, for a machine that does nothing else.
const (
	nodeTime    = 2 * time.Second  // of a request, by default
	clientTime  = 3 * time.Second  // how much later clients give up, so that nodes answer first
	retryTime   = 10 * time.Second // of refusals, if a fault allows no failures
	cureTime    = time.Second      // of refusals, if a fault allows those that are cured so soon
	recoverTime = 30 * time.Second // until a healed cluster acknowledges operations
	groupTime   = 60 * time.Second // of the search in one group
	settleTime  = 30 * time.Second
)

// Settings of the load. They keep a history small enough to be judged in seconds.
const (
	clientPause   = 2 * time.Millisecond
	leadTime      = 300 * time.Millisecond // of load before and after a fault
	ledgerKeys    = 64
	coldKeys      = 1024 // of the ledger
	ledgerWriters = 4
	ledgerPause   = 5 * time.Millisecond
	minimumDone   = 20 // a history with fewer acknowledged operations proves nothing
	maxGroups     = 12
)

// checker is what one cluster goes through.
type checker struct {
	options   Options
	cluster   *process.Cluster
	valueSize value.Size
	random    *rand.Rand
	faults    []faults.Fault // one for each history
	first     int            // the number of the first history
	env       *faults.Env
	ready     *readiness
	report    *Report       // of this cluster
	ended     chan struct{} // is closed at the end
	others    []*checker    // which end before failovers are measured
}

// Run makes the check. The report is valid up to the point of the error. An error says that the
// check could not be made, not that the cluster failed it.
func Run(ctx context.Context, options Options) (*Report, error) {
	report := newReport()
	counts := []int{options.Histories, options.Failovers, options.BlackHoles, options.Attacks}
	if slices.Min(counts) < 0 || slices.Max(counts) < 1 || options.Clients < 1 {
		return report, fmt.Errorf("%d histories, failovers, black holes and attacks, %d clients: "+
			"too few", counts, options.Clients)
	}
	if options.BlackHoles > 0 && !options.Namespaces {
		return report, errors.New("black holes need network namespaces")
	}
	if options.RequestIn == 0 {
		options.RequestIn = nodeTime
	}
	if options.FailoverRest == 0 {
		options.FailoverRest = failoverRest
	}
	if options.FailoverRest < 0 {
		return report, fmt.Errorf("a rest of %v between failovers", options.FailoverRest)
	}
	if options.Patience == 0 {
		options.Patience = 1
	}
	if options.Patience < 1 {
		return report, fmt.Errorf("a patience of %v is below 1", options.Patience)
	}
	options.ReadyIn = options.patient(options.ReadyIn)
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	hasDisks := options.DiskBytes > 0
	selected, err := faults.Select(options.Faults, options.Namespaces, hasDisks,
		os.Geteuid() == 0)
	if err != nil {
		return report, err
	}
	setup := process.Options{Binary: options.Binary, Dir: options.Dir, Nodes: options.Nodes,
		Shards: options.Shards, DiskBytes: options.DiskBytes, LogBytes: options.LogBytes,
		Extra: options.Extra, Log: options.Log, ReadyIn: options.ReadyIn,
		RequestTimeout: options.RequestIn + clientTime, NodeTimeout: options.RequestIn}
	if err := runSizes(ctx, options, setup, selected, report); err != nil ||
		options.Attacks == 0 {
		return report, err
	}
	report.AttacksAsked = options.Attacks
	if report.RejoinSeconds, err = attack(ctx, setup, options.Attacks); err != nil {
		report.problem("%v", err)
	}
	report.finishAttacks()
	return report, ctx.Err()
}

func logError(log *slog.Logger, action string, err error) {
	if err != nil {
		log.Error("failed to "+action, "error", err)
	}
}

// run makes all histories beside one ledger, and verifies the ledger at the end.
func (c *checker) run(ctx context.Context) error {
	book, err := ledger.New(ledger.Options{Dialers: c.dialers(), Writers: ledgerWriters,
		Keys: c.ledgerKeys(0, ledgerKeys), ColdKeys: c.ledgerKeys(ledgerKeys, coldKeys),
		Seed: c.options.Seed, ValueSize: c.valueSize, Pause: ledgerPause})
	if err != nil {
		return err
	}
	bookCtx, stopBook := context.WithCancel(ctx)
	bookDone := make(chan struct{})
	go func() {
		book.Run(bookCtx)
		close(bookDone)
	}()
	readyCtx, stopReady := context.WithCancel(ctx)
	go c.ready.run(readyCtx)
	for i, fault := range c.faults {
		if err = c.history(ctx, c.first+i, fault); err != nil {
			break
		}
	}
	if err == nil {
		c.measureFailovers(ctx)
	}
	stopReady()
	stopBook()
	<-bookDone
	if err != nil {
		return err
	}
	if err := c.env.Heal(ctx); err != nil {
		c.report.problem("at the end: %v", err)
	}
	judged := book.Verify(ctx, c.options.patient(settleTime))
	c.report.Ledger.Add(&judged)
	return ctx.Err()
}

// measureFailovers kills leaders, and then lets leaders vanish.
func (c *checker) measureFailovers(ctx context.Context) {
	for _, way := range []struct {
		count  int
		report **Failover
		lose   func(int) error
	}{
		{c.options.Failovers, &c.report.Failover, c.cluster.Kill},
		{c.options.BlackHoles, &c.report.BlackHole, c.env.Vanish},
	} {
		if way.count == 0 {
			continue
		}
		for _, other := range c.others {
			<-other.ended
		}
		*way.report = &Failover{Losses: way.count}
		if failure := c.failovers(ctx, *way.report, way.lose); failure != nil {
			c.report.problem("%v", failure)
		}
	}
}

// retryTime is how long the clients beside a fault repeat what was refused.
func (c *checker) retryTime(fault faults.Fault) time.Duration {
	switch {
	case fault.NoFailures:
		return c.options.patient(retryTime)
	case fault.Curable:
		return c.options.patient(cureTime)
	}
	return 0
}

// history runs fresh clients while one fault comes and goes, and judges them. The error is one of
// the check itself.
func (c *checker) history(ctx context.Context, number int, fault faults.Fault) error {
	options := history.Options{Name: fault.Name, Clients: c.options.Clients, Pause: clientPause,
		Seed: c.options.Seed + uint64(number), Groups: c.groups(number),
		FirstID: uint64(number+1) << 32, ValueSize: c.valueSize, Targets: c.targets(fault.NoFailures)}
	options.RetryFor = c.retryTime(fault)
	c.env.Keys = firstKeys(options.Groups)
	workload, err := history.New(options)
	if err != nil {
		return err
	}
	crashesBefore := len(c.cluster.Crashes())
	loadCtx, stop := context.WithCancel(ctx)
	defer stop()
	recorded := make(chan *history.History)
	go func() { recorded <- workload.Run(loadCtx) }()
	pause(ctx, leadTime)
	failure := fault.Run(ctx, c.env)
	if failure == nil {
		failure = recovered(ctx, workload, c.options.patient(recoverTime))
	}
	stop()
	h := <-recorded
	if ctx.Err() != nil {
		return ctx.Err()
	}
	class := c.report.class(fault.Name)
	if failure != nil {
		class.FaultErrors++
		c.report.problem("history %d: %v", number, failure)
	}
	for _, crash := range c.cluster.Crashes()[crashesBefore:] {
		class.Crashes++
		if !fault.MayCrash {
			c.report.Crashes++
			c.report.problem("history %d, %s: %s", number, fault.Name, crash)
		}
	}
	return c.judge(h, number, fault, class)
}

// recovered waits until a healed cluster acknowledges operations again.
func recovered(ctx context.Context, workload *history.Workload, within time.Duration) error {
	before := workload.Acknowledged()
	pause(ctx, leadTime)
	for limit := time.Now().Add(within); workload.Acknowledged() < before+minimumDone; {
		if ctx.Err() != nil || time.Now().After(limit) {
			return fmt.Errorf("%d operations were acknowledged in the %v after all nodes were ready",
				workload.Acknowledged()-before, within)
		}
		pause(ctx, leadTime/10)
	}
	return nil
}

func (c *checker) judge(h *history.History, number int, fault faults.Fault, class *Class) error {
	directory := filepath.Join(c.options.Dir, fmt.Sprintf("violation-%d-%s", number, fault.Name))
	searchTime := c.options.patient(groupTime)
	verdict, err := model.Check(h, model.Options{GroupTime: searchTime, Directory: directory})
	if err != nil {
		return fmt.Errorf("write the violation of history %d: %w", number, err)
	}
	class.add(h, verdict)
	done := h.Count(wire.Done)
	switch {
	case len(verdict.Violations) > 0:
		c.report.problem("history %d, %s: %s, see %s", number, fault.Name, verdict.Violations[0],
			directory)
	case len(verdict.Unchecked) > 0:
		c.report.problem("history %d, %s: no verdict for groups %d in %v, see %s", number,
			fault.Name, verdict.Unchecked, searchTime, directory)
	case done < minimumDone:
		class.Empty++
		c.report.problem("history %d, %s: only %d operations were acknowledged", number, fault.Name,
			done)
	default:
		class.Checked++
	}
	if c.retryTime(fault) > 0 {
		c.countFailures(h, number, fault, class)
	}
	c.options.Log.Info("history", "number", number, "fault", fault.Name, "done", done,
		"refused", h.Count(wire.Refused), "unknown", h.Count(wire.Unknown),
		"violations", len(verdict.Violations), "unchecked", len(verdict.Unchecked))
	return nil
}

// countFailures counts requests that failed beside a fault that allows none, or only refusals that
// are cured soon. A client that was stopped while it repeated a refusal has seen no failure.
func (c *checker) countFailures(h *history.History, number int, fault faults.Fault, class *Class) {
	for _, operation := range h.Operations {
		cutShort := operation.Outcome == wire.Refused &&
			operation.DoneNS-operation.RefusedNS < c.retryTime(fault).Nanoseconds()
		if operation.Outcome == wire.Done || cutShort ||
			fault.Curable && operation.Outcome != wire.Refused {
			continue
		}
		class.FailedRequests++
		if class.FailedRequests <= 3 {
			c.report.problem("history %d, %s: a request to node %d failed: %s", number, fault.Name,
				operation.Node, operation.Error)
		}
	}
}

func (c *checker) dialers() []wire.Dialer {
	var dialers []wire.Dialer
	for id := 1; id <= c.cluster.Nodes(); id++ {
		dialers = append(dialers, c.cluster.Dialer(id))
	}
	return dialers
}

// targets gives all nodes. With `follow` clients avoid nodes that are not ready, as behind a load
// balancer.
func (c *checker) targets(follow bool) []history.Target {
	var targets []history.Target
	for id := 1; id <= c.cluster.Nodes(); id++ {
		target := history.Target{Node: id, Dialer: c.cluster.Dialer(id)}
		if follow {
			target.Ready = func() bool { return c.ready.is(id) }
		}
		targets = append(targets, target)
	}
	return targets
}

func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}
