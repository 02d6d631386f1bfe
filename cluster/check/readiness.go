package check

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"engine_race/cluster/check/process"
)

// probeEvery is how often a load balancer would look at each node.
const probeEvery = 50 * time.Millisecond

// readiness follows /readyz of all nodes, as a load balancer does.
type readiness struct {
	cluster *process.Cluster
	ready   []atomic.Bool
}

func newReadiness(cluster *process.Cluster) *readiness {
	r := &readiness{cluster: cluster, ready: make([]atomic.Bool, cluster.Nodes())}
	for i := range r.ready {
		r.ready[i].Store(true)
	}
	return r
}

// run probes all nodes until ctx is done.
func (r *readiness) run(ctx context.Context) {
	var group sync.WaitGroup
	for i := range r.ready {
		group.Go(func() {
			for ctx.Err() == nil {
				r.ready[i].Store(r.cluster.Ready(ctx, i+1) == nil)
				pause(ctx, probeEvery)
			}
		})
	}
	group.Wait()
}

func (r *readiness) is(node int) bool { return r.ready[node-1].Load() }
