package node

import (
	"fmt"
	"os"
	"path/filepath"
)

// raftLogs gives the files of logs below a directory of dragonboat, of a replica or of all ("*").
// The layout is that of its log store Tan: HOST/DEPLOYMENT/tandb/node-SHARD-REPLICA/NUMBER.log.
func raftLogs(raftDirectory, replica string) []string {
	paths, _ := filepath.Glob(filepath.Join(raftDirectory, "*", "*", "tandb", replica, "*.log"))
	return paths
}

// trimLogs gives back the space that files of logs have reserved behind their ends. Each start
// begins a new file of 64 MiB for each shard, and never writes to earlier ones again. It is called
// by the holder of the directory's lock, before a log is open.
func trimLogs(raftDirectory string) error {
	for _, path := range raftLogs(raftDirectory, "*") {
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

// logBytes is the size of a replica's log.
func (n *Node) logBytes(shardID, replicaID uint64) uint64 {
	total := uint64(0)
	replica := fmt.Sprintf("node-%d-%d", shardID, replicaID)
	for _, path := range raftLogs(filepath.Join(n.config.Directory, raftName), replica) {
		if info, err := os.Stat(path); err == nil {
			total += uint64(info.Size())
		}
	}
	return total
}
