package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"engine_race/cluster/config"
	"engine_race/cluster/keyspace"
	"engine_race/cluster/node"
	"engine_race/cluster/replica"
)

// How long init and join may take, and how long unsafe-recover.
const (
	setUpTimeout   = time.Minute
	recoverTimeout = 24 * time.Hour
)

// lossWords say what unsafe-recover costs.
const lossWords = "this node's replicas become the only ones of these shards. " +
	"Acknowledged writes are lost that this replica does not know as committed. " +
	"The nodes with the other replicas may never run again with their data: wipe them first. " +
	"If you want this, give --accept-loss"

// setUpFlags has the flags of the commands that set a node up while it does not serve.
type setUpFlags struct {
	command  string
	peer     string
	replaces bool
	shards   string
	accepts  bool
	splitAt  string
	like     string
}

func (f *setUpFlags) register(flags *flag.FlagSet) {
	switch f.command {
	case "init":
		flags.StringVar(&f.splitAt, "split-at", "", "a file of keys, one a line, as 8 characters or "+
			"0x and 16 hexadecimal digits: shards get equally many of them. All initial nodes need the "+
			"same")
		flags.StringVar(&f.like, "like", "", "digits or text: shards get equally many keys of 8 "+
			"digits, or of 8 digits and lower-case letters. All initial nodes need the same")
	case "join":
		flags.StringVar(&f.peer, "peer", "", "host:port of the admin address of a node")
		flags.BoolVar(&f.replaces, "replace", false, "take the number over from a node that has it, "+
			"and shut that one out for ever: its data is lost")
	case "unsafe-recover":
		flags.StringVar(&f.shards, "shards", "", "numbers of shards that have lost their majority, "+
			"with commas between them")
		flags.BoolVar(&f.accepts, "accept-loss", false, lossWords)
	}
}

func (f *setUpFlags) check() error {
	switch {
	case f.command == "join" && f.peer == "":
		return errors.New("needs --peer")
	case f.splitAt != "" && f.like != "":
		return errors.New("--split-at and --like exclude each other")
	case f.command != "unsafe-recover":
		return nil
	case !f.accepts:
		return errors.New(lossWords)
	}
	_, err := f.shardIDs()
	return err
}

func (f *setUpFlags) shardIDs() ([]uint64, error) {
	var ids []uint64
	for text := range strings.SplitSeq(f.shards, ",") {
		id, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil || id == 0 || slices.Contains(ids, id) {
			return nil, fmt.Errorf("--shards: %q is no list of shards", f.shards)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// lowers gives the lowest keys of the shards behind the first, none for equal widths.
func (f *setUpFlags) lowers(shards uint64) ([]uint64, error) {
	switch {
	case f.like != "":
		lowers, err := keyspace.Like(f.like, shards)
		return lowers, prefixed("--like", err)
	case f.splitAt == "":
		return nil, nil
	}
	text, err := os.ReadFile(f.splitAt)
	if err != nil {
		return nil, prefixed("--split-at", err)
	}
	keys, err := keyspace.ParseKeys(string(text))
	if err != nil {
		return nil, prefixed("--split-at "+f.splitAt, err)
	}
	lowers, err := keyspace.SplitAt(keys, shards)
	return lowers, prefixed("--split-at "+f.splitAt, err)
}

func prefixed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// run runs the command, which may call other nodes.
func (f *setUpFlags) run(ctx context.Context, c *config.Config, shown string,
	logger *slog.Logger) error {
	limit := setUpTimeout
	if f.command == "unsafe-recover" {
		limit = recoverTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	server, client, err := c.PeerTLS()
	if err != nil {
		return err
	}
	settings := nodeConfig(c, server, client, shown, logger)
	switch f.command {
	case "init":
		genesis := genesisOf(c)
		if genesis.Lowers, err = f.lowers(genesis.Shards); err != nil {
			return err
		}
		return node.Init(ctx, settings, genesis)
	case "join":
		listen := []string{c.RaftAddress, c.ClientAddress, c.AdminAddress}
		return node.Join(ctx, settings, listen, f.peer, f.replaces)
	}
	shards, err := f.shardIDs()
	if err != nil {
		return err
	}
	node.LogTo(logger)
	indexes, err := node.UnsafeRecover(ctx, settings, shards)
	for _, shardID := range slices.Sorted(maps.Keys(indexes)) {
		logger.Info("recovered", "shard", shardID, "index", indexes[shardID])
	}
	return err
}

func genesisOf(c *config.Config) node.Genesis {
	return node.Genesis{Cluster: c.Cluster.Name, Shards: uint64(c.Cluster.Shards),
		Replicas: uint64(c.Cluster.Replicas), Nodes: c.Cluster.Nodes, Commands: replica.Version,
		TickMs: c.Raft.RTTMs, ValueBytes: c.Cluster.SizeOfValues()}
}

// expectedOf leaves out what the configuration leaves out: a node that joined needs no [cluster].
func expectedOf(c *config.Config) node.Expected {
	e := node.Expected{Cluster: c.Cluster.Name, Shards: uint64(c.Cluster.Shards),
		Replicas: uint64(c.Cluster.Replicas), ValueBytes: c.Cluster.ValueBytes}
	if given := config.Default().Cluster; len(c.Cluster.Nodes) == 0 {
		if c.Cluster.Name == given.Name {
			e.Cluster = ""
		}
		if c.Cluster.Shards == given.Shards {
			e.Shards = 0
		}
		if c.Cluster.Replicas == given.Replicas {
			e.Replicas = 0
		}
	}
	return e
}
