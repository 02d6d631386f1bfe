package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"engine_race/cluster/service"
)

// printStatus writes two tables: the nodes of the cluster, and the replicas of its shards.
func printStatus(out io.Writer, status service.Status) error {
	size := cmp.Or(status.ValueBytes, service.DefaultValueBytes) // An earlier program names none.
	_, err := fmt.Fprintf(out, "cluster %s: %d nodes, %d shards, values of %d bytes, as node %d "+
		"sees it\n\n", status.Cluster, len(status.Nodes), len(status.Shards), size, status.NodeID)
	if err != nil {
		return err
	}
	replicas, leads := make(map[uint64]int), make(map[uint64]int)
	for _, shard := range status.Shards {
		leads[shard.LeaderID]++
		for _, replica := range shard.Members {
			replicas[replica.NodeID]++
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tRAFT\tCLIENT\tADMIN\tANSWERS\tREPLICAS\tLEADS")
	for _, node := range status.Nodes {
		answers := yesNo(!slices.Contains(status.Silent, node.ID))
		if slices.Contains(status.Leaving, node.ID) {
			answers += ", leaving"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%d\n", node.ID, node.RaftAddress,
			node.ClientAddress, node.AdminAddress, answers, replicas[node.ID], leads[node.ID])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := printShards(out, status.Shards); err != nil {
		return err
	}
	return printChanges(out, status.Shards)
}

// printChanges writes the moves and the splits that are under way.
func printChanges(out io.Writer, shards []service.ShardStatus) error {
	for _, shard := range shards {
		if shard.MovesTo != 0 {
			fmt.Fprintf(out, "\nshard %d: a replica moves from node %d to node %d\n", shard.ShardID,
				shard.MovesFrom, shard.MovesTo)
		}
		if shard.Source != 0 {
			fmt.Fprintf(out, "\nshard %d: copies its records from shard %d\n", shard.ShardID,
				shard.Source)
		}
	}
	return nil
}

func printShards(out io.Writer, shards []service.ShardStatus) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SHARD\tLOWEST KEY\tHIGHEST KEY\tREPLICA\tNODE\tROLE\tREADY\tAPPLIED"+
		"\tSYNCED\tREADS/S\tWRITES/S")
	for _, shard := range shards {
		if len(shard.Members) == 0 {
			fmt.Fprintf(table, "%d\t%016x\t%016x\t-\t-\t-\t-\t-\t-\t-\t-\n", shard.ShardID, shard.Lower,
				shard.Upper)
		}
		for _, replica := range shard.Members {
			fmt.Fprintf(table, "%d\t%016x\t%016x\t%d\t%d\t%s\t%s\t%d\t%d\t%.0f\t%.0f\n", shard.ShardID,
				shard.Lower, shard.Upper, replica.ReplicaID, replica.NodeID,
				role(shard, replica), readiness(replica), replica.AppliedIndex,
				replica.SyncedIndex, replica.ReadKeysPerSecond, replica.WrittenOpsPerSecond)
		}
	}
	return table.Flush()
}

// printComparison writes how the replicas of a shard differ.
func printComparison(out io.Writer, c service.Comparison) error {
	fmt.Fprintf(out, "shard %d at index %d: the replicas of nodes %v were compared\n", c.ShardID,
		c.Index, c.Nodes)
	for node, reason := range c.Missing {
		fmt.Fprintf(out, "node %d was not compared: %s\n", node, reason)
	}
	for _, one := range c.Differences {
		fmt.Fprintf(out, "keys %016x to %016x: nodes %v differ\n", one.Lower, one.Upper, one.Nodes)
	}
	if len(c.Differences) == 0 {
		_, err := fmt.Fprintln(out, "they are equal")
		return err
	}
	return nil
}

// differing fails if replicas differ, so that a script sees it.
func differing(c service.Comparison) error {
	if len(c.Differences) == 0 {
		return nil
	}
	return fmt.Errorf("replicas differ: remove each replica that differs, and add it again")
}

func role(shard service.ShardStatus, replica service.ReplicaStatus) string {
	switch {
	case shard.LeaderID == 0:
		return "no leader"
	case replica.NodeID == shard.LeaderID:
		return "leader"
	default:
		return "follower"
	}
}

func readiness(replica service.ReplicaStatus) string {
	if replica.Differs {
		return "differs"
	}
	return yesNo(replica.Ready)
}

func yesNo(value bool) string {
	if value {
		return "yes"
	}
	return "no"
}
