package node

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"engine_race/cluster/service"
)

// allocated is what the logs of a node take on its disk, in bytes.
func (c *testCluster) allocated(id uint64) int64 {
	c.t.Helper()
	total := int64(0)
	for _, path := range raftLogs(filepath.Join(c.nodes[id].config.Directory, raftName), "*") {
		var info syscall.Stat_t
		if err := syscall.Stat(path, &info); err != nil {
			c.t.Fatal(err)
		}
		total += info.Blocks * 512
	}
	return total
}

func TestStartsReserveTheSpaceOfOneLogOnly(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	const fileBytes = 64 << 20
	for range 3 {
		c.stop(1)
		c.start(1)
		c.awaitReady()
	}
	// Two logs: the directory's and the shard's.
	if used := c.allocated(1); used < fileBytes || used > 3*fileBytes {
		t.Errorf("%d bytes", used)
	}
}

func TestALogThatWasThereAtTheStartIsShortened(t *testing.T) {
	c := newCluster(t, 1, 1, 1)
	c.awaitReady()
	value := make([]byte, service.ValueBytes)
	for key := range uint64(8) {
		op := service.Op{Key: key, Value: value}
		if _, err := c.nodes[1].Write(soon(t), []service.Op{op}, false); err != nil {
			t.Fatal(err)
		}
	}
	id := c.nodes[1].shard(firstDataShard).replicaID
	if size := c.nodes[1].logBytes(firstDataShard, id); size < 8*service.ValueBytes {
		t.Fatalf("the log has %d bytes", size)
	}
	c.stop(1)
	c.nodes[1].config.LogBytes = 4 * service.ValueBytes
	c.start(1)
	s := c.nodes[1].shard(firstDataShard)
	eventually(t, "the log is shortened", func() error {
		if before := s.loggedBefore.Load(); before != 0 {
			return fmt.Errorf("%d bytes were there before", before)
		}
		return nil
	})
}
