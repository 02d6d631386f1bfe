package bench

import (
	"errors"
	"fmt"
	"path/filepath"

	"engine_race/cluster/service"
)

// Options of a bench.
type Options struct {
	Self      string  // the program itself, which opponents on dragonboat run
	Programs  string  // the directory of engine-raced and cluster-bench-etcd
	Directory string  // for the data of all opponents; made if it is missing
	Seconds   float64 // of each measurement
	Rounds    int
	Clients   int
	Depth     int // keys in the pipeline of a local read
	// Of CatchUp: the calls a second, and how long a node is watched that catches up.
	CatchUpPerSecond, CatchUpSeconds float64
	Records                          uint64 // how many keys there are; filled before the rounds
	ValueBytes                       int    // size of each value
	MemoryMiB                        uint64 // the limit of each node, with its page cache; 0: none
	Shards                           int    // of engine-raced
	Nodes                            int    // of each cluster
	Port                             int    // the first of Ports
	Keep                             bool   // leave the data
	Seed                             uint64
	Note                             func(format string, arguments ...any) // progress, one line each
}

// Ports is how many ports a bench takes.
func Ports() int { return len(Names) * portKinds * maxNodes }

func (o Options) check() error {
	switch {
	case o.Seconds <= 0 || o.Rounds <= 0 || o.Clients <= 0 || o.Depth <= 0 || o.Records == 0 ||
		o.CatchUpPerSecond <= 0 || o.CatchUpSeconds <= 0:
		return errors.New("seconds, rounds, clients, depth and records must be positive")
	case o.ValueBytes < service.MinValueBytes || o.ValueBytes > service.MaxValueBytes:
		return fmt.Errorf("values of %d bytes are not from %d to %d", o.ValueBytes,
			service.MinValueBytes, service.MaxValueBytes)
	case o.Shards <= 0:
		return errors.New("engine-raced needs a shard")
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fmt.Errorf("%d nodes are not from 1 to %d", o.Nodes, maxNodes)
	case o.Port <= 0 || o.Port+Ports() > 65536:
		return fmt.Errorf("there are no %d ports from %d on", Ports(), o.Port)
	case !filepath.IsAbs(o.Directory) || !filepath.IsAbs(o.Self):
		return errors.New("the paths must be absolute")
	}
	return nil
}

// storeBytes is the memory that a node's stores may take: a quarter of the node's, at least 64 MiB.
// The rest is for the page cache, the log and the clients' buffers.
func (o Options) storeBytes() uint64 {
	if o.MemoryMiB == 0 {
		return 1 << 30
	}
	return max(o.MemoryMiB/4, 64) << 20
}

func (o Options) program(name string) string { return filepath.Join(o.Programs, name) }
