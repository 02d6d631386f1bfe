package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"engine_race/cluster/service"
)

// retryEvery is the time between two attempts of an operator's command.
const retryEvery = 100 * time.Millisecond

// moveEvery is the time between two moves of a leader.
const moveEvery = 300 * time.Millisecond

func operatorFaults() []Fault {
	return []Fault{
		{Name: "lost-disk", Help: "a node loses its data and is replaced", inject: lostDisk},
		{Name: "wiped-node", Help: "a node loses its data, and is set up again in wrong ways first",
			inject: wipedNode},
		{Name: "membership", Help: "a replica is removed and added again", inject: membership},
		{Name: "move-leader", Help: "leaders move from node to node", inject: moveLeaders},
		{Name: "rolling-restart", Help: "SIGTERM and a restart for each node in turn",
			NoFailures: true, inject: rollingRestart},
		{Name: "unwatched-restart", Help: "the same, and clients do not look whether nodes are ready",
			Curable: true, inject: rollingRestart},
		{Name: "bad-clients", Help: "clients that send nonsense and never read",
			inject: badClients},
	}
}

// insist repeats an operator's command or a question until it succeeds or the time to heal is over.
func (e *Env) insist(ctx context.Context, command func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.HealIn)
	defer cancel()
	for {
		err := command(ctx)
		if err == nil {
			return nil
		}
		e.Log.Debug("an operator's command failed", "error", err)
		if wait(ctx, retryEvery) != nil {
			return err
		}
	}
}

// members gives the nodes that have a replica of each shard.
func (e *Env) members(ctx context.Context, via int) (map[uint64][]int, error) {
	return e.selectMembers(ctx, via, func(service.ReplicaStatus) bool { return true })
}

func (e *Env) selectMembers(ctx context.Context, via int,
	fits func(service.ReplicaStatus) bool) (map[uint64][]int, error) {
	var status service.Status
	err := e.insist(ctx, func(ctx context.Context) (err error) {
		status, err = e.Cluster.Status(ctx, via)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := map[uint64][]int{}
	for _, shard := range status.Shards {
		for _, member := range shard.Members {
			if fits(member) {
				found[shard.ShardID] = append(found[shard.ShardID], int(member.NodeID))
			}
		}
	}
	return found, nil
}

// setReplica gives the node a replica of the shard, or takes it away, unless that is so already. A
// replica that is not ready may be one that was placed but is no member: it is added again.
func (e *Env) setReplica(ctx context.Context, shard uint64, node int, wanted bool) error {
	via := e.other(node)
	return e.insist(ctx, func(ctx context.Context) error {
		members, err := e.selectMembers(ctx, via, func(member service.ReplicaStatus) bool {
			return member.Ready || !wanted
		})
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(members[shard], node) == wanted:
			return nil // an attempt before has succeeded late
		case wanted:
			return e.Cluster.AddReplica(ctx, via, shard, node)
		}
		return e.Cluster.RemoveReplica(ctx, via, shard, node)
	})
}

func lostDisk(ctx context.Context, e *Env) error {
	node := e.anyNode()
	via := e.other(node)
	e.Log.Info("lose the disk", "node", node)
	members, err := e.members(ctx, via)
	if err != nil {
		return err
	}
	if err := e.Cluster.Kill(node); err != nil {
		return err
	}
	if err := e.Cluster.Wipe(node); err != nil {
		return err
	}
	if err := e.hold(ctx); err != nil {
		return err
	}
	for shard, nodes := range members {
		if slices.Contains(nodes, node) {
			if err := e.setReplica(ctx, shard, node, false); err != nil {
				return err
			}
		}
	}
	err = e.insist(ctx, func(ctx context.Context) error {
		return e.Cluster.Join(ctx, node, via, true)
	})
	if err != nil {
		return err
	}
	if err := e.Cluster.Start(node); err != nil {
		return err
	}
	for shard, nodes := range members {
		if slices.Contains(nodes, node) {
			if err := e.setReplica(ctx, shard, node, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// wipedNode sets a wiped node up as an operator may by mistake. It has forgotten its votes, so it
// may not come back under its old replica numbers. The others refuse it, at once or when they can.
func wipedNode(ctx context.Context, e *Env) error {
	node := e.anyNode()
	via := e.other(node)
	e.Log.Info("set a wiped node up wrongly", "node", node)
	if err := errors.Join(e.Cluster.Kill(node), e.Cluster.Wipe(node)); err != nil {
		return err
	}
	for how, err := range map[string]error{"init": e.Cluster.Init(ctx, node),
		"join": e.Cluster.Join(ctx, node, via, false)} {
		if err == nil || !strings.Contains(err.Error(), "join --replace") {
			return fmt.Errorf("%s of wiped node %d: %v", how, node, err)
		}
	}
	if err := e.initAlone(ctx, node); err != nil {
		return err
	}
	if err := e.Cluster.Start(node); err != nil {
		return err
	}
	if err := e.hold(ctx); err != nil {
		return err
	}
	if e.Cluster.Ready(ctx, node) == nil {
		return fmt.Errorf("node %d serves, although its votes are lost", node)
	}
	if err := errors.Join(e.Cluster.Kill(node), e.Cluster.Wipe(node)); err != nil {
		return err
	}
	err := e.insist(ctx, func(ctx context.Context) error {
		return e.Cluster.Join(ctx, node, via, true)
	})
	if err != nil {
		return err
	}
	return e.Cluster.Start(node)
}

// initAlone initialises a node while no other one answers.
func (e *Env) initAlone(ctx context.Context, node int) error {
	each := func(do func(id int) error) error {
		var failures []error
		for id := 1; id <= e.Cluster.Nodes(); id++ {
			if id != node {
				failures = append(failures, do(id))
			}
		}
		return errors.Join(failures...)
	}
	err := each(e.Cluster.Pause)
	if err == nil {
		err = e.Cluster.Init(ctx, node)
	}
	return errors.Join(err, each(e.Cluster.Resume))
}

func membership(ctx context.Context, e *Env) error {
	shard, err := e.shard(ctx)
	if err != nil {
		return err
	}
	node := e.anyNode()
	e.Log.Info("change members", "shard", shard, "node", node)
	if err := e.setReplica(ctx, shard, node, false); err != nil {
		return err
	}
	if err := e.hold(ctx); err != nil {
		return err
	}
	return e.setReplica(ctx, shard, node, true)
}

func moveLeaders(ctx context.Context, e *Env) error {
	for limit := time.Now().Add(e.Hold); time.Now().Before(limit); {
		shard, err := e.shard(ctx)
		if err != nil {
			return err
		}
		via := e.anyNode()
		members, err := e.members(ctx, via)
		if err != nil {
			return err
		}
		if len(members[shard]) == 0 {
			return fmt.Errorf("node %d knows no members of shard %d", via, shard)
		}
		to := members[shard][e.Random.IntN(len(members[shard]))]
		err = e.insist(ctx, func(ctx context.Context) error {
			return e.Cluster.MoveLeader(ctx, via, shard, to)
		})
		if err == nil {
			err = wait(ctx, moveEvery)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func rollingRestart(ctx context.Context, e *Env) error {
	for id := 1; id <= e.Cluster.Nodes(); id++ {
		if err := e.restart(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (e *Env) restart(ctx context.Context, id int) error {
	ctx, cancel := context.WithTimeout(ctx, e.HealIn)
	defer cancel()
	e.Log.Info("restart", "node", id)
	if err := e.Cluster.Terminate(ctx, id); err != nil {
		return err
	}
	if err := e.Cluster.Start(id); err != nil {
		return err
	}
	return e.Cluster.WaitReady(ctx, id)
}
