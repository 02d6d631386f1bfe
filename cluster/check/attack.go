package check

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"engine_race/cluster/check/faults"
	"engine_race/cluster/check/process"
)

// attackTime bounds one restart under attack.
const attackTime = 2 * time.Minute

// attack restarts the nodes of a fresh cluster with TLS, one after the other. Meanwhile silent
// connections hold the raft address of every node. It gives the seconds from each start until the
// node is ready and has acknowledged a write.
func attack(ctx context.Context, setup process.Options, restarts int) ([]float64, error) {
	setup.Dir, setup.TLS, setup.DiskBytes = filepath.Join(setup.Dir, "attack"), true, 0
	cluster, err := process.New(ctx, setup)
	if err != nil {
		return nil, err
	}
	defer func() { logError(setup.Log, "end the attacked cluster", cluster.Close()) }()
	if err := cluster.StartAll(ctx); err != nil {
		return nil, err
	}
	defer faults.HoldSilent(ctx, cluster)()
	var took []float64
	for number := range restarts {
		seconds, err := rejoin(ctx, cluster, 1+number%cluster.Nodes())
		if err != nil {
			return took, fmt.Errorf("restart %d under attack: %w", number, err)
		}
		setup.Log.Info("restart under attack", "number", number, "seconds", seconds)
		took = append(took, seconds)
	}
	return took, nil
}

// rejoin kills a node, starts it, and waits for a write through it.
func rejoin(ctx context.Context, cluster *process.Cluster, id int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTime)
	defer cancel()
	if err := cluster.Kill(id); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cluster.Start(id); err != nil {
		return 0, err
	}
	if err := cluster.WaitReady(ctx, id); err != nil {
		return 0, err
	}
	for {
		conn, err := cluster.Dialer(id).Dial(ctx)
		if err == nil {
			err = conn.Set(uint64(id), cluster.ValueSize().Encode(uint64(id), 1))
			conn.Close()
		}
		if err == nil {
			return time.Since(began).Seconds(), nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("node %d acknowledges no write: %w", id, err)
		}
		pause(ctx, refusedPause)
	}
}
