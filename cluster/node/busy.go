package node

import "sync"

// busyShards does something for shards side by side, and for each shard one thing at a time.
type busyShards struct {
	group sync.WaitGroup
	busy  sync.Map // by shard
}

func newBusyShards() *busyShards { return &busyShards{} }

// run does it in the background, unless the shard is busy.
func (b *busyShards) run(shardID uint64, do func()) {
	if _, is := b.busy.LoadOrStore(shardID, true); !is {
		b.group.Go(func() {
			defer b.busy.Delete(shardID)
			do()
		})
	}
}

// wait waits until no shard is busy.
func (b *busyShards) wait() { b.group.Wait() }
