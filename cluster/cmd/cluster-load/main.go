// Command cluster-load sends GETs and SETs of 8-byte keys to a cluster, and reports throughput
// and latency. --value-bytes is the size of the cluster's values.
//
// Key i of N is mix(i), a bijection of 64-bit numbers (the finalizer of SplitMix64), as 8 bytes,
// big-endian. Keys are thus distinct and spread evenly over the key space. A value has the key, the
// number of the write (0 for --fill) and bytes that follow from both. So --verify finds values that
// are damaged or belong to another key. A value shorter than 16 bytes proves its key alone.
//
// With --rate the load is open. Each batch has a time at which it is due. Its latency counts from
// then, also if the client was late. Otherwise each client sends a batch when it has the replies to
// the one before. The latency of a command is that of its batch.
//
// A command that failed is counted by the first word of its error. It counts as no operation.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"engine_race/cluster/service"
)

// options are the flags.
type options struct {
	addresses    []string
	clients      int
	pipeline     int
	workload     string
	readPercent  int
	readOnly     bool
	keys         uint64
	valueBytes   int
	valueHeader  string // the line before a value
	valueLine    string // that line, and the end of the line before it
	distribution string
	duration     time.Duration
	rate         float64 // commands a second of all clients; 0: a closed loop
	fill         bool
	verify       bool
	password     string
	tls          *tls.Config
	json         string
	timeout      time.Duration
}

func main() { os.Exit(runProgram(os.Args[1:])) }

// runProgram gives the exit code: 1 after a failure, and 2 for a wrong command line, as in all
// programs.
func runProgram(arguments []string) (exitCode int) {
	chosen, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster-load:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := report(chosen, run(ctx, chosen)); err != nil {
		fmt.Fprintln(os.Stderr, "cluster-load:", err)
		return 1
	}
	return 0
}

// parse reads the flags.
func parse(arguments []string) (*options, error) {
	flags := flag.NewFlagSet("cluster-load", flag.ContinueOnError)
	o := &options{}
	addresses := flags.String("addresses", "127.0.0.1:7001",
		"host:port of nodes, comma separated; clients are spread over them")
	flags.IntVar(&o.clients, "clients", 64, "connections")
	flags.IntVar(&o.pipeline, "pipeline", 1, "commands that a client sends before it reads replies")
	flags.StringVar(&o.workload, "workload", "mixed", "set, get or mixed")
	flags.IntVar(&o.readPercent, "read-percent", 50, "share of GETs in mixed")
	flags.BoolVar(&o.readOnly, "readonly", false, "send READONLY: reads are local, not linearizable")
	flags.Uint64Var(&o.keys, "keys", 100_000, "how many keys there are")
	flags.IntVar(&o.valueBytes, "value-bytes", service.DefaultValueBytes,
		"size of the cluster's values")
	flags.StringVar(&o.distribution, "distribution", "uniform", "uniform or zipf (exponent 1.01)")
	seconds := flags.Float64("seconds", 10, "how long to run; --fill runs until it is done")
	flags.Float64Var(&o.rate, "rate", 0, "commands a second of all clients; 0: as many as they can")
	flags.BoolVar(&o.fill, "fill", false, "write each key once, instead of a workload")
	flags.BoolVar(&o.verify, "verify", false, "check the values that are read")
	flags.StringVar(&o.password, "password", "", "AUTH with it")
	ca := flags.String("tls-ca", "", "PEM file of the authority to trust; empty: no TLS")
	flags.StringVar(&o.json, "json", "", "also write the results into this file")
	timeout := flags.Float64("timeout", 30, "seconds after which a batch without replies failed")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.valueHeader = fmt.Sprintf("$%d", o.valueBytes)
	o.valueLine = "\r\n" + o.valueHeader + "\r\n"
	o.addresses = strings.Split(*addresses, ",")
	o.duration = time.Duration(*seconds * float64(time.Second))
	o.timeout = time.Duration(*timeout * float64(time.Second))
	if err := o.check(); err != nil {
		return nil, err
	}
	if *ca == "" {
		return o, nil
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca: %s has no certificate", *ca)
	}
	o.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return o, nil
}

// check refuses flags that mean nothing.
func (o *options) check() error {
	switch {
	case o.clients < 1 || o.pipeline < 1 || o.keys < 1:
		return errors.New("--clients, --pipeline and --keys are at least 1")
	case o.valueBytes < service.MinValueBytes || o.valueBytes > service.MaxValueBytes:
		return fmt.Errorf("--value-bytes is from %d to %d", service.MinValueBytes,
			service.MaxValueBytes)
	case o.keys > 1<<40:
		return errors.New("--keys is at most 2^40")
	case o.workload != "set" && o.workload != "get" && o.workload != "mixed":
		return fmt.Errorf("--workload is set, get or mixed, not %q", o.workload)
	case o.distribution != "uniform" && o.distribution != "zipf":
		return fmt.Errorf("--distribution is uniform or zipf, not %q", o.distribution)
	case o.readPercent < 0 || o.readPercent > 100:
		return errors.New("--read-percent is from 0 to 100")
	case o.duration <= 0 || o.timeout <= 0 || o.rate < 0:
		return errors.New("--seconds and --timeout are above 0, and --rate is not below 0")
	}
	return nil
}

// Summary is what a run measured. Latencies are in microseconds.
type Summary struct {
	Workload         string            `json:"workload"`
	Clients          int               `json:"clients"`
	Pipeline         int               `json:"pipeline"`
	Keys             uint64            `json:"keys"`
	ValueBytes       int               `json:"value_bytes"`
	ReadOnly         bool              `json:"readonly"`
	Seconds          float64           `json:"seconds"`
	Operations       uint64            `json:"operations"`
	OperationsPerSec float64           `json:"operations_per_second"`
	Reads            uint64            `json:"reads"`
	Writes           uint64            `json:"writes"`
	Missing          uint64            `json:"missing"` // reads of absent keys
	Wrong            uint64            `json:"wrong"`   // values that --verify refused
	LatencyUs        map[string]uint64 `json:"latency_us"`
	Errors           map[string]uint64 `json:"errors"`
}

// report prints a run's results. It fails if nothing succeeded, or if values were wrong.
func report(o *options, total *tally) error {
	s := total.summary(o)
	fmt.Printf("%s: %d clients, pipeline %d, %d keys: %d operations in %.2f s = %.0f/s\n",
		s.Workload, s.Clients, s.Pipeline, s.Keys, s.Operations, s.Seconds, s.OperationsPerSec)
	fmt.Printf("latency us: p50 %d p95 %d p99 %d p99.9 %d max %d\n", s.LatencyUs["p50"],
		s.LatencyUs["p95"], s.LatencyUs["p99"], s.LatencyUs["p99.9"], s.LatencyUs["max"])
	fmt.Printf("reads %d writes %d missing %d wrong %d\n", s.Reads, s.Writes, s.Missing, s.Wrong)
	for kind, count := range s.Errors {
		fmt.Printf("errors %s: %d (%s)\n", kind, count, total.examples[kind])
	}
	if o.json != "" {
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	switch {
	case s.Wrong > 0:
		return fmt.Errorf("%d values were wrong", s.Wrong)
	case s.Operations == 0:
		return errors.New("no operation succeeded")
	case o.fill && s.Operations < o.keys:
		return fmt.Errorf("%d of %d keys were written", s.Operations, o.keys)
	}
	return nil
}
