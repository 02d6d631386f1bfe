package main

import (
	"context"
	"fmt"
	"time"

	"engine_race/cluster/service"
)

// progressInterval is the time between two looks at a call that is under way.
const progressInterval = time.Second

// watch makes a call that may take long. Meanwhile it writes how far the call is to the standard
// error stream, each time that this has changed.
func (o *operation) watch(ctx context.Context, node service.Control,
	progress func(service.Status) string, call func() error) error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for before := ""; ; {
		select {
		case err := <-result:
			return err
		case <-ticker.C:
		}
		status, err := node.Status(ctx)
		if err != nil {
			continue // The call itself tells what is wrong.
		}
		if text := progress(status); text != "" && text != before {
			fmt.Fprintln(o.errorsOut, text)
			before = text
		}
	}
}

// moveProgress says how far the move of a replica is, or "".
func (o *operation) moveProgress(status service.Status) string {
	shard := shardOf(status, o.shard)
	if shard == nil {
		return ""
	}
	applied, votes := uint64(0), false
	for _, member := range shard.Members {
		if member.NodeID == o.to {
			applied, votes = member.AppliedIndex, member.Ready
		}
	}
	if votes {
		return fmt.Sprintf("shard %d: the replica of node %d votes, and that of node %d goes",
			o.shard, o.to, o.from)
	}
	return fmt.Sprintf("shard %d: the replica of node %d has applied entry %d of %d", o.shard, o.to,
		applied, newest(shard))
}

// splitProgress says how far the split of a shard is, or "".
func (o *operation) splitProgress(status service.Status) string {
	for _, shard := range status.Shards {
		if shard.Source == o.shard {
			return fmt.Sprintf("shard %d copies the records of shard %d: its log has %d entries",
				shard.ShardID, o.shard, newest(&shard))
		}
	}
	return ""
}

func shardOf(status service.Status, id uint64) *service.ShardStatus {
	for i := range status.Shards {
		if status.Shards[i].ShardID == id {
			return &status.Shards[i]
		}
	}
	return nil
}

// newest gives the last index that any replica of the shard has applied.
func newest(shard *service.ShardStatus) uint64 {
	index := uint64(0)
	for _, member := range shard.Members {
		index = max(index, member.AppliedIndex)
	}
	return index
}
