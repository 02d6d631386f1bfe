// Command cluster-bench measures engine-raced beside bare dragonboat, dragonboat over Pebble, etcd
// and the engine alone. The program starts itself again as a node of the opponents on dragonboat,
// as the engine alone, and as the clients of engine-raced.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"engine_race/cluster/bench"
	"engine_race/cluster/bench/load"
)

// flags of the command line.
type flags struct {
	options   bench.Options
	only      string
	json      string
	checkJSON string
	smoke     bool
}

func parse() *flags {
	f := &flags{}
	o := &f.options
	flag.StringVar(&f.only, "only", "",
		"opponents separated by commas: "+strings.Join(bench.Names, ", "))
	flag.StringVar(&f.json, "json", "", "file of the result")
	flag.StringVar(&f.checkJSON, "check-json", "", "result of cluster-check, for its claims")
	flag.BoolVar(&f.smoke, "smoke", false, "everything once, tiny: no figure means much")
	flag.Float64Var(&o.Seconds, "seconds", 8, "seconds of a measurement")
	flag.IntVar(&o.Rounds, "rounds", 5, "rounds, each with a turn of every opponent")
	flag.IntVar(&o.Clients, "clients", 64, "clients, each with one call at a time")
	flag.Float64Var(&o.CatchUpPerSecond, "catch-up-per-second", 1000,
		"writes a second beside a node that catches up")
	flag.Float64Var(&o.CatchUpSeconds, "catch-up-seconds", 60,
		"seconds in which a node is watched that catches up")
	flag.IntVar(&o.Depth, "depth", 64, "keys in the pipeline of a local read")
	flag.Uint64Var(&o.Records, "records", 400_000, "records that each opponent holds")
	flag.IntVar(&o.ValueBytes, "value-bytes", load.DefaultValueBytes, "size of each value")
	flag.Uint64Var(&o.MemoryMiB, "memory-mib", 512, "memory of a node, page cache included; 0: any")
	flag.IntVar(&o.Shards, "shards", 1, "shards of engine-raced")
	flag.IntVar(&o.Nodes, "nodes", 3, "nodes of each cluster, 7 at the most")
	flag.IntVar(&o.Port, "port", 17900, fmt.Sprintf("first of %d ports", bench.Ports()))
	flag.BoolVar(&o.Keep, "keep", false, "leave the data and logs")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of keys and values")
	flag.StringVar(&o.Directory, "dir", "out/cluster-bench", "directory of the data")
	flag.Parse()
	return f
}

func main() {
	isChild, err := bench.RunChild(os.Args[1:])
	code := 0
	switch {
	case !isChild:
		code, err = run(parse())
	case err != nil:
		code = 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster-bench:", err)
	}
	os.Exit(code)
}

// complete sets the options that have no flag of their own.
func (f *flags) complete() error {
	o := &f.options
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Self, o.Programs = self, filepath.Dir(self)
	if o.Directory, err = filepath.Abs(o.Directory); err != nil {
		return err
	}
	o.Note = func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	}
	if f.smoke {
		o.Seconds, o.Rounds, o.Clients, o.Records, o.MemoryMiB = 0.3, 1, 8, 200, 0
		o.CatchUpSeconds = 1
	}
	return nil
}

// run gives the exit code: 1 when a part has failed, and 130 after an interrupt. It is 2 when the
// flags will not do or the result cannot be written.
func run(f *flags) (int, error) {
	if flag.NArg() > 0 {
		return 2, fmt.Errorf("%q is no flag", flag.Arg(0))
	}
	if err := f.complete(); err != nil {
		return 2, err
	}
	var names []string
	if f.only != "" {
		names = strings.Split(f.only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	result, err := bench.Run(ctx, names, f.options)
	if err != nil {
		return 2, err
	}
	if f.checkJSON != "" {
		if err := result.TakeClaims(f.checkJSON); err != nil {
			result.Failures = append(result.Failures, err.Error())
		}
	}
	if f.json != "" {
		text, err := result.JSON(f.options)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(f.json), 0o755)
		}
		if err == nil {
			err = os.WriteFile(f.json, text, 0o644)
		}
		if err != nil {
			return 2, fmt.Errorf("writing the result: %w", err)
		}
	}
	fmt.Print(result.Table())
	switch {
	case ctx.Err() != nil:
		return 130, nil
	case len(result.Failures) > 0:
		return 1, nil
	}
	return 0, nil
}
