package main

import (
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"engine_race/cluster/config"
	"engine_race/cluster/gate"
	"engine_race/cluster/transport"
)

// Files that a node needs beside those of its limits.
const (
	replicaFiles = 24 // of a store and its part of the log
	otherFiles   = 128
	// Outgoing connections to one other node: links, snapshots, and calls over HTTP.
	outgoingPerNode = 128
	// Connections of operators, monitoring and other nodes' calls.
	adminPerNode = 128
)

// filesNeeded is the sum of all limits of the settings. It bounds the files that a node opens.
func filesNeeded(c *config.Config) uint64 {
	others := max(0, len(c.Cluster.Nodes)-1)
	return uint64(c.Limits.MaxClients+3*gate.Total+
		others*(transport.PeerConnections+outgoingPerNode+adminPerNode)+
		(storeCount(c)+1)*replicaFiles) + otherFiles
}

// raiseFileLimit raises RLIMIT_NOFILE as far as the node needs and the system permits, and warns
// if that is not enough.
func raiseFileLimit(c *config.Config, logger *slog.Logger) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		logger.Warn("the limit of open files is unknown", "error", err)
		return
	}
	needed := filesNeeded(c)
	raised := unix.Rlimit{Cur: max(limit.Cur, min(needed, limit.Max)), Max: limit.Max}
	if needed > limit.Max {
		// Only a privileged process may raise the second limit.
		privileged := unix.Rlimit{Cur: needed, Max: needed}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &privileged) == nil {
			return
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
		logger.Warn("the limit of open files cannot be raised", "error", err)
	}
	if warning := fileWarning(c, needed, raised.Cur); warning != "" {
		logger.Warn(warning, "needed", needed, "permitted", raised.Cur)
	}
}

// fileWarning says what a limit that is too low leads to, or nothing.
func fileWarning(c *config.Config, needed, permitted uint64) string {
	if needed <= permitted {
		return ""
	}
	room := int64(permitted) - int64(needed) + int64(c.Limits.MaxClients)
	if room < 1 {
		return fmt.Sprintf("the process may open %d files, too few for the node even without "+
			"clients: raise RLIMIT_NOFILE (LimitNOFILE= of systemd, ulimit -n) to %d", permitted, needed)
	}
	return fmt.Sprintf("the process may open %d files, but all limits of the settings together need "+
		"%d: raise RLIMIT_NOFILE (LimitNOFILE= of systemd, ulimit -n), or lower limits.max_clients "+
		"from %d to %d", permitted, needed, c.Limits.MaxClients, room)
}
