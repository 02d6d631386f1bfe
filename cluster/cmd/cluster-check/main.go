// Program cluster-check starts a cluster of engine-raced processes, loads it, injects faults, and
// judges what its clients saw. It prints counts for each fault, and the claims at the end. Its exit
// code is 0 if all is well, 1 if the cluster failed, and 2 if the check could not be made.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"engine_race/cluster/check"
	"engine_race/cluster/check/faults"
	"engine_race/cluster/check/value"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type settings struct {
	options check.Options
	seconds float64
	diskMiB int64
	logMiB  int64
	json    string
	keep    bool
	verbose bool
	list    bool
}

func parse(args []string, errors io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("cluster-check", flag.ContinueOnError)
	flags.SetOutput(errors)
	flags.StringVar(&s.options.Binary, "binary", "", "the program engine-raced")
	flags.IntVar(&s.options.Nodes, "nodes", 3, "count of nodes")
	flags.IntVar(&s.options.Shards, "shards", 2, "count of shards")
	sizes := flags.String("value-bytes", "4096,512", "sizes of values with commas between them, "+
		"powers of two from 32: the histories are shared out among a cluster of each, side by side, "+
		"and the first one has the failovers at the end")
	flags.IntVar(&s.options.Histories, "histories", 20, "count of histories, each with one fault")
	flags.IntVar(&s.options.Failovers, "failover", 0, "count of kills of leaders under load, after "+
		"the histories, whose outage is measured")
	flags.IntVar(&s.options.BlackHoles, "black-holes", 0, "count of leaders that vanish under load, "+
		"after those of --failover, whose outage is measured (needs root)")
	flags.IntVar(&s.options.Attacks, "attacks", 0, "count of restarts of a node that are measured "+
		"while silent connections hold all raft addresses, on a cluster with TLS")
	flags.DurationVar(&s.options.FailoverRest, "failover-rest", 4*time.Second,
		"the load between the return of a leader and the next loss")
	flags.Float64Var(&s.seconds, "seconds", 3, "how long each fault lasts, in seconds")
	flags.StringVar(&s.options.Faults, "faults", "all", "names with commas between them; all: "+
		"those that this user may inject, as in all,-none")
	flags.BoolVar(&s.list, "list", false, "list the faults and end")
	flags.Uint64Var(&s.options.Seed, "seed", 1, "gives the order of faults and the clients' choices")
	flags.IntVar(&s.options.Clients, "clients", 10, "count of clients of a history")
	flags.StringVar(&s.options.Dir, "dir", "", "directory for data and logs; default: a new one "+
		"below the temporary directory")
	flags.BoolVar(&s.options.Namespaces, "namespaces", os.Geteuid() == 0,
		"a network namespace for each node (needs root)")
	flags.Int64Var(&s.diskMiB, "disk-mib", 0, "size of a file system for each node in MiB, for "+
		"faults of disks and power (needs root); 0: none")
	flags.Int64Var(&s.logMiB, "log-mib", 4, "how much a shard's log grows in MiB until it is "+
		"shortened, so that new replicas need snapshots; 0: the nodes' default")
	flags.StringVar(&s.options.Extra, "extra", "", "more lines of each node's configuration; "+
		"a table [raft] replaces --log-mib")
	flags.DurationVar(&s.options.ReadyIn, "ready-in", time.Minute,
		"how long a node may take to become ready, and a cluster to heal")
	flags.DurationVar(&s.options.RequestIn, "request-in", 2*time.Second, "the nodes' limit for a "+
		"request, unless --extra has a table [limits]")
	flags.Float64Var(&s.options.Patience, "patience", 1, "multiplies the other limits of time, for a "+
		"machine that is busy with other work")
	flags.StringVar(&s.json, "json", "", "file for the report as JSON")
	flags.BoolVar(&s.keep, "keep", false, "keep the directory even if all is well")
	flags.BoolVar(&s.verbose, "verbose", false, "log each fault and history")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		size, err := strconv.Atoi(text)
		if err == nil {
			err = value.Size(cmp.Or(size, -1)).Check()
		}
		if err != nil {
			return nil, fmt.Errorf("--value-bytes %q: %w", *sizes, err)
		}
		s.options.Sizes = append(s.options.Sizes, value.Size(size))
	}
	s.options.Hold = time.Duration(s.seconds * float64(time.Second))
	s.options.DiskBytes = s.diskMiB << 20
	s.options.LogBytes = s.logMiB << 20
	level := slog.LevelWarn
	if s.verbose {
		level = slog.LevelInfo
	}
	s.options.Log = slog.New(slog.NewTextHandler(errors, &slog.HandlerOptions{Level: level}))
	if !s.list && s.options.Binary == "" {
		return nil, fmt.Errorf("--binary must name the program engine-raced")
	}
	return s, nil
}

func run(ctx context.Context, args []string, out, errors io.Writer) int {
	s, err := parse(args, errors)
	if err != nil {
		fmt.Fprintln(errors, "cluster-check:", err)
		return 2
	}
	if s.list {
		for _, fault := range faults.All() {
			fmt.Fprintf(out, "%-16s %s\n", fault.Name, fault.Help)
		}
		return 0
	}
	made := s.options.Dir == ""
	if made {
		if s.options.Dir, err = os.MkdirTemp("", "cluster-check-"); err != nil {
			fmt.Fprintln(errors, "cluster-check:", err)
			return 2
		}
	}
	report, err := check.Run(ctx, s.options)
	failed := report.Err()
	if err == nil {
		err = write(report, s.json, out)
	}
	if made && !s.keep && err == nil && failed == nil {
		err = os.RemoveAll(s.options.Dir)
	} else {
		fmt.Fprintln(errors, "data, logs and violations are in", s.options.Dir)
	}
	switch {
	case err != nil:
		fmt.Fprintln(errors, "cluster-check:", err)
		return 2
	case failed != nil:
		fmt.Fprintln(errors, "cluster-check:", failed)
		return 1
	}
	return 0
}

func write(report *check.Report, path string, out io.Writer) error {
	if path != "" {
		text, err := report.JSON()
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return report.Print(out)
}
