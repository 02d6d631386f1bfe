package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"engine_race/cluster/service"
)

// printStatus writes two tables: the nodes of the cluster, and the replicas of its shards.
func printStatus(out io.Writer, status service.Status) error {
	_, err := fmt.Fprintf(out, "cluster %s: %d nodes, %d shards, as node %d sees it\n\n",
		status.Cluster, len(status.Nodes), len(status.Shards), status.NodeID)
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
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%d\n", node.ID, node.RaftAddress,
			node.ClientAddress, node.AdminAddress, yesNo(!slices.Contains(status.Silent, node.ID)),
			replicas[node.ID], leads[node.ID])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return printShards(out, status.Shards)
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
				role(shard, replica), yesNo(replica.Ready), replica.AppliedIndex,
				replica.SyncedIndex, replica.ReadKeysPerSecond, replica.WrittenOpsPerSecond)
		}
	}
	return table.Flush()
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

func yesNo(value bool) string {
	if value {
		return "yes"
	}
	return "no"
}
