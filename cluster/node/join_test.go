package node

import (
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

// join lets a node without a directory join through another one. An election may lose its request.
func (c *testCluster) join(id, via uint64, replaces bool) (err error) {
	config := c.nodes[id].config
	testkit.Succeeds(c.t, "a join has an outcome", func() error {
		err = Join(soon(c.t), config, slices.Collect(maps.Values(addressesOf(config.Info))),
			c.nodes[via].config.Info.AdminAddress, replaces)
		if errors.Is(err, service.ErrUnknown) || errors.Is(err, service.ErrUnavailable) {
			return err
		}
		return nil
	})
	return err
}

// add makes a node that the genesis does not have, with free addresses.
func (c *testCluster) add(id uint64) {
	addresses := testkit.FreeAddresses(c.t, "127.0.0.1", 2)
	c.nodes[id] = &testNode{config: c.configOf(service.NodeInfo{ID: id, RaftAddress: addresses[0],
		AdminAddress: addresses[1]})}
}

func (c *testCluster) wipe(id uint64) {
	c.t.Helper()
	c.stop(id)
	if err := os.RemoveAll(c.nodes[id].config.Directory); err != nil {
		c.t.Fatal(err)
	}
}

// expectRefused wants an error of a kind with a word in it, and no directory.
func (c *testCluster) expectRefused(id uint64, err, kind error, word string) {
	c.t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), word) {
		c.t.Fatalf("the node is not refused: %v", err)
	}
	path := filepath.Join(c.nodes[id].config.Directory, stateName)
	if _, err := os.Stat(path); err == nil {
		c.t.Fatal("a node that was refused has a directory")
	}
}

// A second machine with a copied configuration would shut out the node that serves.
func TestAJoinDoesNotTakeTheNumberOfALiveNode(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	c.add(4)
	if err := c.join(4, 1, false); err != nil {
		t.Fatal(err)
	}
	c.start(4)
	epochs := func() map[uint64]uint64 {
		epochs := map[uint64]uint64{}
		for id, entry := range c.nodes[1].machine.current.Load().Nodes {
			epochs[id] = entry.Epoch
		}
		return epochs
	}
	before := epochs()
	impostor := func(id uint64) uint64 {
		c.add(9)
		c.nodes[9].config.Info.ID = id
		return 9
	}
	// Node 3 has replicas. It counts as alive even when it is silent.
	c.expectRefused(9, c.join(impostor(3), 1, false), service.ErrConflict, "--replace")
	c.stop(3)
	c.expectRefused(9, c.join(impostor(3), 2, false), service.ErrConflict, "--replace")
	c.start(3)
	// Node 4 has none, but it answers.
	c.expectRefused(9, c.join(impostor(4), 1, false), service.ErrConflict, "--replace")
	if after := epochs(); !maps.Equal(before, after) {
		t.Fatalf("a refused join changed the epochs from %v to %v", before, after)
	}
	// Nothing is lost with a number that has no replicas and does not answer.
	c.wipe(4)
	if err := c.join(4, 1, false); err != nil {
		t.Fatal(err)
	}
	if err := c.join(impostor(3), 1, true); err != nil {
		t.Fatal(err)
	}
}

// Members that nobody reaches count towards the majority.
func TestAJoinNeedsAddressesThatLeadToTheNode(t *testing.T) {
	c := newCluster(t, 3, 1, 3)
	c.awaitReady()
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	go func() {
		for connection, err := elsewhere.Accept(); err == nil; connection, err = elsewhere.Accept() {
			connection.Write([]byte("SSH-2.0-OpenSSH_9.2p1 and more than a proof"))
			connection.Close()
		}
	}()
	nobody := testkit.FreeAddresses(t, "127.0.0.1", 1)[0]
	for _, wrong := range []string{elsewhere.Addr().String(), nobody, "no address"} {
		for _, name := range []string{"raft", "admin"} {
			c.add(4)
			right := c.nodes[4].config.Info
			info := &c.nodes[4].config.Info
			*map[string]*string{"raft": &info.RaftAddress, "admin": &info.AdminAddress}[name] = wrong
			err := Join(soon(t), c.nodes[4].config, slices.Collect(maps.Values(addressesOf(right))),
				c.nodes[1].config.Info.AdminAddress, false)
			c.expectRefused(4, err, service.ErrInvalid, "the "+name+" address")
		}
	}
	c.add(4)
	c.nodes[4].config.Info.AdminAddress = c.nodes[2].config.Info.AdminAddress
	err = Join(soon(t), c.nodes[4].config, nil, c.nodes[1].config.Info.AdminAddress, false)
	c.expectRefused(4, err, service.ErrConflict, "node 2 has the admin address")
}
