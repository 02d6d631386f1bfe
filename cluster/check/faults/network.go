package faults

import (
	"context"
	"errors"

	"engine_race/cluster/check/netns"
)

// slowKilobits is a link of 4 Mbit/s: about 100 values a second.
const slowKilobits = 4000

func networkFaults() []Fault {
	list := []Fault{
		{Name: "isolate-leader", Help: "a leader and all other nodes are cut from each other; " +
			"clients reach both sides", inject: cutLeader(func(e *Env, leader, other int) error {
			return e.Net.CutBoth(leader, other)
		})},
		{Name: "black-hole", Help: "all packets from and to a leader vanish, those of clients too",
			inject: blackHole},
		{Name: "leader-mute", Help: "nothing that a leader sends reaches the other nodes",
			inject: cutLeader(func(e *Env, leader, other int) error {
				return e.Net.Cut(leader, other)
			})},
		{Name: "leader-deaf", Help: "nothing that the other nodes send reaches a leader",
			inject: cutLeader(func(e *Env, leader, other int) error {
				return e.Net.Cut(other, leader)
			})},
		{Name: "cut-pair", Help: "a leader and one follower are cut from each other",
			inject: cutPair},
		{Name: "split", Help: "a minority and the majority are cut from each other", inject: split},
		{Name: "cut-clients", Help: "clients and a leader are cut from each other",
			inject: cutClients},
		{Name: "slow-link", Help: "a node sends and receives 4 Mbit/s at most", inject: slowLink},
	}
	for i := range list {
		list[i].NeedsNet = true
	}
	return list
}

// cutLeader applies a cut to a leader and each other node.
func cutLeader(cut func(e *Env, leader, other int) error) func(context.Context, *Env) error {
	return func(ctx context.Context, e *Env) error {
		leader, err := e.leader(ctx)
		if err != nil {
			return err
		}
		e.Log.Info("cut", "leader", leader)
		for other := 1; other <= e.Cluster.Nodes(); other++ {
			if other == leader {
				continue
			}
			if err := cut(e, leader, other); err != nil {
				return err
			}
		}
		return e.hold(ctx)
	}
}

func blackHole(ctx context.Context, e *Env) error {
	leader, err := e.leader(ctx)
	if err != nil {
		return err
	}
	e.Log.Info("black hole", "leader", leader)
	if err := e.Vanish(leader); err != nil {
		return err
	}
	return e.hold(ctx)
}

// Vanish lets no packet from or to the node arrive, until Heal.
func (e *Env) Vanish(node int) error {
	failures := []error{e.Net.CutBoth(netns.Clients, node)}
	for other := 1; other <= e.Cluster.Nodes(); other++ {
		if other != node {
			failures = append(failures, e.Net.CutBoth(node, other))
		}
	}
	return errors.Join(failures...)
}

func cutPair(ctx context.Context, e *Env) error {
	leader, err := e.leader(ctx)
	if err != nil {
		return err
	}
	other := e.other(leader)
	e.Log.Info("cut a pair", "leader", leader, "other", other)
	if err := e.Net.CutBoth(leader, other); err != nil {
		return err
	}
	return e.hold(ctx)
}

// split cuts at random places: the minority is as large as it can be.
func split(ctx context.Context, e *Env) error {
	order := e.Random.Perm(e.Cluster.Nodes())
	minority := order[:(len(order)-1)/2]
	e.Log.Info("split", "minority", minority)
	for _, a := range minority {
		for _, b := range order[len(minority):] {
			if err := e.Net.CutBoth(a+1, b+1); err != nil {
				return err
			}
		}
	}
	return e.hold(ctx)
}

func cutClients(ctx context.Context, e *Env) error {
	leader, err := e.leader(ctx)
	if err != nil {
		return err
	}
	e.Log.Info("cut clients", "node", leader)
	if err := e.Net.CutBoth(netns.Clients, leader); err != nil {
		return err
	}
	return e.hold(ctx)
}

func slowLink(ctx context.Context, e *Env) error {
	node := e.anyNode()
	e.Log.Info("slow link", "node", node)
	if err := e.Net.Slow(node, slowKilobits); err != nil {
		return err
	}
	return e.hold(ctx)
}
