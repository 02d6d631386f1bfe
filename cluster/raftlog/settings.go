package raftlog

import (
	"fmt"
	"sync"
	_ "unsafe" // for go:linkname

	_ "github.com/lni/dragonboat/v4"
)

// Dragonboat reads a message's entries on the thread that serves all shards. It has no setting for
// their size but a file in the working directory. A service may be started anywhere, so Tune sets
// the variables themselves. They are plain numbers: dragonboat reads them for each message, and
// for each replica that it starts.
var (
	//go:linkname perMessage github.com/lni/dragonboat/v4/internal/raft.maxEntrySize
	perMessage uint64
	//go:linkname perApply github.com/lni/dragonboat/v4/internal/raft.maxEntriesToApplySize
	perApply uint64
	//go:linkname betweenSyncs github.com/lni/dragonboat/v4.syncTaskInterval
	betweenSyncs uint64
)

const (
	// The values of the pinned version of dragonboat. A variable that was renamed reads as 0.
	theirBytes      = 64 << 20
	theirSyncMillis = 180_000
	// Dragonboat's own syncs of stores: it ends the process when one fails. So there are none, a
	// node syncs its stores itself.
	syncMillis = 1 << 40
	// A message to a follower has entries of this size, or one entry.
	messageBytes = 1 << 20
	// Entries of this size are handed to a store at once. It differs from messageBytes: so a Log
	// can tell what a read is for.
	applyBytes = 4 << 20
)

// Tune bounds how much of a log dragonboat reads at once, and lets it sync no stores. Call it
// before a NodeHost is made. It fails with another version of dragonboat than the one that it was
// written for.
func Tune() error { return tuneOnce() }

// Replicas that run read the variables, so a second host in a process leaves them alone.
var tuneOnce = sync.OnceValue(tune)

func tune() error {
	for _, setting := range []struct {
		variable     *uint64
		theirs, ours uint64
	}{
		{&perMessage, theirBytes, messageBytes},
		{&perApply, theirBytes, applyBytes},
		{&betweenSyncs, theirSyncMillis, syncMillis},
	} {
		if *setting.variable != setting.theirs && *setting.variable != setting.ours {
			return fmt.Errorf("this version of dragonboat has a setting of %d where %d was expected: "+
				"package raftlog must be adapted to it", *setting.variable, setting.theirs)
		}
		// Replicas of another NodeHost of this process may read it.
		if *setting.variable != setting.ours {
			*setting.variable = setting.ours
		}
	}
	return nil
}
