package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"engine_race/cluster/bench/load"
)

// settleTime is between the start of stopped nodes and their measurement.
const settleTime = 500 * time.Millisecond

// mostErrorShare: a figure counts only if fewer than one call in this number failed.
const mostErrorShare = 100

// mostProbes: an opponent that was stopped meanwhile may have no leader at first. It is probed this
// often at most, with settleTime before each.
const mostProbes = 20

// runner measures opponents in alternating rounds.
type runner struct {
	options   Options
	opponents []*opponent
	result    Result
}

// hotRead is load.Read of so few records that stores keep their values in memory. It comes last:
// the works before it read from disk.
const hotRead = "hot_read"

// worksOf says what is measured of an opponent.
var worksOf = map[string][]string{
	Bare:       {load.Write, load.Read},
	Pebble:     {load.Write},
	PebbleLate: {load.Write},
	Etcd:       {load.Write, load.Read},
	Engine:     {load.Write, load.Read, load.LocalRead, hotRead},
	MultiRead:  {load.LocalRead},
}

// Run measures the named opponents, all of them without names. A failed opponent is reported in the
// result, and the others go on. An ended context ends the bench between two measurements, with the
// figures until then.
func Run(ctx context.Context, names []string, options Options) (*Result, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = Names
	}
	for _, name := range names {
		if !slices.Contains(Names, name) {
			return nil, errors.New("there is no opponent " + name)
		}
	}
	if err := os.MkdirAll(options.Directory, 0o755); err != nil {
		return nil, err
	}
	r := &runner{options: options}
	r.result.Rounds, r.result.Failures = map[string][]float64{}, []string{}
	defer r.stopAll()
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		if err := r.add(ctx, name); err != nil {
			r.fail(err)
		}
	}
	for round := range options.Rounds {
		// Each round begins with another opponent.
		for i := range r.opponents {
			if ctx.Err() == nil {
				r.measure(ctx, r.opponents[(i+round)%len(r.opponents)], round)
			}
		}
		r.result.noteRatios()
	}
	return &r.result, nil
}

func (r *runner) fail(err error) {
	r.options.Note("FAILED: %v", err)
	r.result.Failures = append(r.result.Failures, err.Error())
}

func (r *runner) stopAll() {
	for _, o := range r.opponents {
		o.stop()
	}
}

// add starts an opponent, fills it and stops it until its first turn.
func (r *runner) add(ctx context.Context, name string) error {
	o, err := startOpponent(name, r.options)
	if err != nil {
		return err
	}
	if name != Bare && name != Flood && ctx.Err() == nil {
		err = r.fill(o)
	}
	if err == nil {
		err = o.suspend()
	}
	if err != nil {
		o.stop()
		return err
	}
	r.opponents = append(r.opponents, o)
	return nil
}

func (r *runner) fill(o *opponent) error {
	figures, err := o.do(load.Work{Kind: load.Fill, Clients: r.options.Clients,
		Records: r.options.Records, Seed: r.options.Seed, ValueBytes: r.options.ValueBytes})
	if err != nil {
		return err
	}
	if figures.Operations != r.options.Records {
		return fmt.Errorf("%s took %d of %d records: %s", o.name, figures.Operations,
			r.options.Records, figures.FirstError)
	}
	r.options.Note("%s: filled with %d records, %.0f a second", o.name, figures.Operations,
		figures.PerSecond())
	return nil
}

// measure does all works of an opponent.
func (r *runner) measure(ctx context.Context, o *opponent, round int) {
	if err := o.resume(); err != nil {
		r.fail(fmt.Errorf("%s: %w", o.name, err))
		return
	}
	if err := r.awaitAnswers(o); err != nil {
		r.fail(err)
	}
	if o.name == CatchUp && round == 0 {
		if err := r.catchUp(o); err != nil {
			r.fail(fmt.Errorf("%s: %w", o.name, err))
		}
	}
	if o.name == Flood && round == 0 {
		if err := r.flood(o); err != nil {
			r.fail(fmt.Errorf("%s: %w", o.name, err))
		}
	}
	for _, kind := range worksOf[o.name] {
		if ctx.Err() != nil {
			break
		}
		if err := r.work(o, kind, round); err != nil {
			r.fail(err)
		}
	}
	if err := o.suspend(); err != nil {
		r.fail(err)
	}
}

// awaitAnswers waits until a short work of the opponent has no errors. Nothing of it counts.
func (r *runner) awaitAnswers(o *opponent) error {
	for probe := 1; ; probe++ {
		time.Sleep(settleTime)
		if len(worksOf[o.name]) == 0 {
			return nil
		}
		work := r.workOf(worksOf[o.name][0], 0)
		work.Seconds = min(work.Seconds, 0.1)
		figures, err := o.do(work)
		if err != nil || figures.Operations > 0 && figures.Errors == 0 {
			return err
		}
		if probe == mostProbes {
			return fmt.Errorf("%s does not answer: %s", o.name, figures.FirstError)
		}
	}
}

func (r *runner) workOf(kind string, round int) load.Work {
	work := load.Work{Kind: kind, Seconds: r.options.Seconds, Clients: r.options.Clients,
		Records: r.options.Records, Seed: r.options.Seed + uint64(round) + 1,
		ValueBytes: r.options.ValueBytes}
	switch kind {
	case load.LocalRead:
		work.Depth = r.options.Depth
	case hotRead:
		work.Kind = load.Read
		work.Records = min(work.Records, r.options.storeBytes()/4/uint64(r.options.ValueBytes))
	}
	return work
}

// work does one work of an opponent. Its figures are left out if it fails.
func (r *runner) work(o *opponent, kind string, round int) error {
	work := r.workOf(kind, round)
	cpuBefore, machineBefore := o.cpuTime(), readMachineTime()
	figures, err := o.do(work)
	used := usage{cpu: o.cpuTime() - cpuBefore,
		stolenPercent: readMachineTime().stolenPercent(machineBefore)}
	switch {
	case err != nil:
		return err
	case figures.Operations == 0:
		return fmt.Errorf("%s did no %s: %s", o.name, kind, figures.FirstError)
	case figures.Errors*mostErrorShare > figures.Operations:
		return fmt.Errorf("%s: %d calls of %s failed, %d did not: %s", o.name, figures.Errors,
			kind, figures.Operations, figures.FirstError)
	case figures.Missing > 0 && o.name != Bare:
		return fmt.Errorf("%s misses %d records", o.name, figures.Missing)
	}
	r.result.note(o.name+"_"+kind, figures, used)
	r.options.Note("round %d: %s %s: %.0f a second, p50 %.2f ms, p99 %.2f ms, %d errors %s",
		round+1, o.name, kind, figures.PerSecond(), figures.P50Ms, figures.P99Ms,
		figures.Errors, figures.FirstError)
	return nil
}
