package faults

import (
	"context"
	"net"
	"sync"
	"time"

	"engine_race/cluster/check/process"
)

const (
	// silentConnections are held at each raft address.
	silentConnections = 100
	// A silent connection that was closed is opened again after a while.
	silentPause = 200 * time.Millisecond
)

// HoldSilent keeps silent connections open to the raft addresses of all nodes. They end with ctx,
// or when the returned function is called, which waits until they are closed.
func HoldSilent(ctx context.Context, cluster *process.Cluster) (release func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for id := 1; id <= cluster.Nodes(); id++ {
		address := cluster.Info(id).RaftAddress
		for range silentConnections {
			group.Go(func() {
				for ctx.Err() == nil {
					beSilent(ctx, address)
					select {
					case <-time.After(silentPause):
					case <-ctx.Done():
					}
				}
			})
		}
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// beSilent opens one connection, and waits until either side ends it.
func beSilent(ctx context.Context, address string) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_, _ = conn.Read(make([]byte, 1))
}

// silent holds connections to the raft addresses of all nodes, and restarts a node meanwhile.
func silent(ctx context.Context, e *Env) error {
	node := e.anyNode()
	e.Log.Info("silent connections", "restarted", node)
	defer HoldSilent(ctx, e.Cluster)()
	if err := e.Cluster.Kill(node); err != nil {
		return err
	}
	if err := e.Cluster.Start(node); err != nil {
		return err
	}
	if err := e.Cluster.WaitReady(ctx, node); err != nil {
		return err
	}
	return e.hold(ctx)
}
