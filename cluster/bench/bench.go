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

// mostErrorShare: a figure counts only if fewer than one call in so many failed.
const mostErrorShare = 100

// Bench measures opponents in alternating rounds.
type Bench struct {
	options   Options
	opponents []*opponent
	result    Result
}

// hotRead is load.Read of so few records that the stores keep their values in memory. It comes last:
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

// Run measures the named opponents. A failed opponent is reported in the result, and the others go
// on. An ended context ends the bench between two measurements, with the figures until then.
func Run(ctx context.Context, names []string, options Options) (*Result, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Directory, 0o755); err != nil {
		return nil, err
	}
	b := &Bench{options: options}
	b.result.Rounds, b.result.Failures = map[string][]float64{}, []string{}
	defer b.stopAll()
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		if err := b.add(ctx, name); err != nil {
			b.fail(err)
		}
	}
	for round := range options.Rounds {
		// Each round begins with another opponent.
		for i := range b.opponents {
			if ctx.Err() == nil {
				b.measure(ctx, b.opponents[(i+round)%len(b.opponents)], round)
			}
		}
		b.result.noteRatios()
	}
	return &b.result, nil
}

func (b *Bench) fail(err error) {
	b.options.Note("FAILED: %v", err)
	b.result.Failures = append(b.result.Failures, err.Error())
}

func (b *Bench) stopAll() {
	for _, o := range b.opponents {
		o.stop()
	}
}

// add starts an opponent, fills it and stops it until its first turn.
func (b *Bench) add(ctx context.Context, name string) error {
	o, err := startOpponent(name, b.options)
	if err != nil {
		return err
	}
	if name != Bare && ctx.Err() == nil {
		err = b.fill(o)
	}
	if err == nil {
		err = o.suspend()
	}
	if err != nil {
		o.stop()
		return err
	}
	b.opponents = append(b.opponents, o)
	return nil
}

func (b *Bench) fill(o *opponent) error {
	figures, err := o.do(load.Work{Kind: load.Fill, Clients: b.options.Clients,
		Records: b.options.Records, Seed: b.options.Seed})
	if err != nil {
		return err
	}
	if figures.Operations != b.options.Records {
		return fmt.Errorf("%s took %d of %d records: %s", o.name, figures.Operations,
			b.options.Records, figures.FirstError)
	}
	b.options.Note("%s: filled with %d records, %.0f a second", o.name, figures.Operations,
		figures.PerSecond())
	return nil
}

// measure does all works of an opponent. Its figures of a failed work are left out.
func (b *Bench) measure(ctx context.Context, o *opponent, round int) {
	err := o.resume()
	if err != nil {
		b.fail(fmt.Errorf("%s: %w", o.name, err))
		return
	}
	time.Sleep(settleTime)
	for _, kind := range worksOf[o.name] {
		if ctx.Err() != nil {
			break
		}
		work := load.Work{Kind: kind, Seconds: b.options.Seconds, Clients: b.options.Clients,
			Records: b.options.Records, Seed: b.options.Seed + uint64(round) + 1}
		switch kind {
		case load.LocalRead:
			work.Depth = b.options.Depth
		case hotRead:
			work.Kind = load.Read
			work.Records = min(work.Records, b.options.storeBytes()/4/load.ValueBytes)
		}
		before := o.cpuTime()
		figures, err := o.do(work)
		cpu := o.cpuTime() - before
		if err == nil && figures.Operations == 0 {
			err = fmt.Errorf("%s did no %s: %s", o.name, kind, figures.FirstError)
		}
		if err == nil && figures.Errors*mostErrorShare > figures.Operations {
			err = fmt.Errorf("%s: %d calls of %s failed, %d did not: %s", o.name, figures.Errors,
				kind, figures.Operations, figures.FirstError)
		}
		if err == nil && figures.Missing > 0 && o.name != Bare {
			err = fmt.Errorf("%s misses %d records", o.name, figures.Missing)
		}
		if err != nil {
			b.fail(err)
			continue
		}
		b.result.note(o.name+"_"+kind, figures, cpu)
		b.options.Note("round %d: %s %s: %.0f a second, p50 %.2f ms, p99 %.2f ms, %d errors %s",
			round+1, o.name, kind, figures.PerSecond(), figures.P50Ms, figures.P99Ms,
			figures.Errors, figures.FirstError)
	}
	if err := o.suspend(); err != nil {
		b.fail(err)
	}
}

// Choose gives the opponents of a list of names; all without names.
func Choose(names []string) ([]string, error) {
	if len(names) == 0 {
		return Names, nil
	}
	for _, name := range names {
		if !slices.Contains(Names, name) {
			return nil, errors.New("there is no opponent " + name)
		}
	}
	return names, nil
}
