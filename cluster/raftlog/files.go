package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
)

// Tan has no call for the size of a log, and none that gives reserved space back. So this package
// knows where Tan's files lie: tandb/node-SHARD-REPLICA/NUMBER.log in the directory that it was
// given.
const (
	tanName  = "tandb"
	allNodes = "*"
)

func files(directory, node string) []string {
	paths, _ := filepath.Glob(filepath.Join(directory, tanName, node, "*.log"))
	return paths
}

func nodeName(shardID, replicaID uint64) string {
	return fmt.Sprintf("node-%d-%d", shardID, replicaID)
}

// Trim gives back the space that files of logs have reserved behind their ends. Each start begins a
// new file of 64 MiB for each shard, and never writes to earlier ones again. Call Trim before a
// replica is started.
func (l *Log) Trim() error {
	for _, path := range files(l.directory, allNodes) {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckFiles fails if a replica that was started has no files where this package looks for them:
// another version of Tan lays them out otherwise.
func (l *Log) CheckFiles(shardID, replicaID uint64) error {
	if len(files(l.directory, nodeName(shardID, replicaID))) > 0 {
		return nil
	}
	return fmt.Errorf("the log of replica %d of shard %d has no files in %s: this version of "+
		"dragonboat lays them out otherwise, and package raftlog must be adapted to it", replicaID,
		shardID, filepath.Join(l.directory, tanName, nodeName(shardID, replicaID)))
}

// fileBytes is the size of a replica's files.
func (l *Log) fileBytes(shardID, replicaID uint64) uint64 {
	total := uint64(0)
	for _, path := range files(l.directory, nodeName(shardID, replicaID)) {
		if info, err := os.Stat(path); err == nil {
			total += uint64(info.Size())
		}
	}
	return total
}
