package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"engine_race/cluster/bench/load"
)

// Shares of CatchUpSeconds: how long writes are measured before, and how long the node is away.
const (
	beforeShare = 1.0 / 3
	awayShare   = 1.0 / 2
)

// The claim of a node that catches up. Its rounds are the worse of the two ways.
const catchUpClaim = "catch_up_write_ratio"

// catchUp measures writes at a steady rate beside a node that catches up, over those before it was
// stopped. The node catches up from the log, and then from a snapshot: the others have shortened
// their logs by then.
func (r *runner) catchUp(o *opponent) error {
	worst := 1e9
	for _, way := range []string{"log", "snapshot"} {
		ratio, err := r.catchUpFrom(o, way)
		if err != nil {
			return fmt.Errorf("from the %s: %w", way, err)
		}
		name := "catch_up_" + way + "_ratio"
		r.result.Rounds[name] = append(r.result.Rounds[name], ratio)
		worst = min(worst, ratio)
	}
	r.result.Rounds[catchUpClaim] = append(r.result.Rounds[catchUpClaim], worst)
	return nil
}

func (r *runner) catchUpFrom(o *opponent, way string) (float64, error) {
	_, leaders, err := o.awaitLeader()
	if err != nil {
		return 0, err
	}
	away := slices.IndexFunc(o.ports(1), func(address string) bool {
		return !slices.Contains(leaders, address)
	})
	if away < 0 {
		return 0, errors.New("each node leads a shard: none can be away")
	}
	write := func(share float64, seed uint64) (load.Figures, error) {
		return o.driver.ask(load.Work{Kind: load.Write, Seconds: r.options.CatchUpSeconds * share,
			Clients: r.options.Clients, Records: r.options.Records, Seed: r.options.Seed + seed,
			ValueBytes: r.options.ValueBytes, PerSecond: r.options.CatchUpPerSecond, Addresses: leaders})
	}
	before, err := write(beforeShare, 1)
	if err != nil {
		return 0, err
	}
	o.nodes[away].stop()
	if _, err := write(awayShare, 2); err != nil {
		return 0, err
	}
	if way == "snapshot" {
		if err := o.shortenLogs(away); err != nil {
			return 0, err
		}
	}
	if err := o.launchAgain(away); err != nil {
		return 0, err
	}
	beside, err := write(1, 3)
	if err != nil {
		return 0, err
	}
	if before.Operations == 0 {
		return 0, errors.New("no write was done before: " + before.FirstError)
	}
	ratio := beside.PerSecond() / before.PerSecond()
	r.options.Note("%s from the %s: %.0f writes a second before, %.0f beside, p99 %.1f ms, "+
		"%d errors %s", o.name, way, before.PerSecond(), beside.PerSecond(), beside.P99Ms, beside.Errors,
		beside.FirstError)
	if beside.Errors > 0 {
		return 0, fmt.Errorf("%d writes failed: %s", beside.Errors, beside.FirstError)
	}
	// A node that never catches up would cost nothing.
	_, _, err = o.awaitLeader()
	return ratio, err
}

// shortenLogs lets the other nodes shorten their logs.
func (o *opponent) shortenLogs(away int) error {
	for node := range o.options.Nodes {
		if node == away {
			continue
		}
		for shard := range o.options.Shards {
			const firstShard = 2
			said, err := exec.Command(o.options.program("engine-raced"), "snapshot", "--config",
				o.config(node+1), "--shard", strconv.Itoa(firstShard+shard)).CombinedOutput()
			if err != nil {
				return fmt.Errorf("shorten the log of node %d: %w: %s", node+1, err, said)
			}
		}
	}
	time.Sleep(settleTime)
	return nil
}

// launchAgain starts a node that was stopped.
func (o *opponent) launchAgain(node int) error {
	var group *memoryGroup
	if len(o.groups) > 0 {
		group = o.groups[node]
	}
	child, err := o.launch(node+1, group, true)
	if err != nil {
		return err
	}
	o.nodes[node] = child
	return nil
}
