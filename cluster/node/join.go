package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"engine_race/cluster/service"
)

const (
	// To connect to the addresses of a node that joins.
	dialTimeout = 2 * time.Second
	// For an answer of the node that had its number.
	liveTimeout = 2 * time.Second
)

// joinRequest is what a node sends that joins.
type joinRequest struct {
	service.NodeInfo
	// Replace takes the number over from a node that has it.
	Replace bool `json:"replace,omitempty"`
	// Proof is what each of the addresses answers while the node joins.
	Proof string `json:"proof"`
	// Commands is the newest version of commands that the node knows.
	Commands uint64 `json:"commands"`
	// ValueBytes is the size of values in the node's configuration. 0: it leaves that out.
	ValueBytes int `json:"value_bytes,omitempty"`
}

// joined is the answer to a node that joins.
type joined struct {
	Epoch     uint64     `json:"epoch"`
	Genesis   Genesis    `json:"genesis"`
	Directory *Directory `json:"directory"`
}

// serveJoin takes a node into the directory. Its addresses must lead to the node, and its number
// must be free or be taken over on purpose.
func (n *Node) serveJoin(c call) ([]byte, error) {
	if n.shard(directoryShard) == nil {
		return n.elsewhere(c.ctx, directoryShard, pathJoin, "", c.body, false)
	}
	var request joinRequest
	if err := json.Unmarshal(c.body, &request); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	d, err := n.readDirectory(c.ctx)
	if err != nil {
		return nil, err
	}
	if err := d.mayJoin(request.NodeInfo, request.Replace); err != nil {
		return nil, err
	}
	if needed := d.commands(); request.Commands < needed {
		return nil, fmt.Errorf("%w: %w", service.ErrConflict, errOldProgram(needed, request.Commands))
	}
	if err := n.mayHold(request.ValueBytes); err != nil {
		return nil, err
	}
	if err := proveAddresses(c.ctx, request); err != nil {
		return nil, err
	}
	if former, known := d.Nodes[request.ID]; known && !request.Replace && n.isLive(c.ctx, former) {
		return nil, inUse(request.ID, "and it answers at "+former.AdminAddress)
	}
	epoch, err := n.changeDirectory(c.ctx, change{Op: opJoin, Node: request.NodeInfo})
	if err != nil {
		return nil, err
	}
	return json.Marshal(joined{epoch, n.state.Genesis, n.machine.current.Load()})
}

// mayHold refuses a node whose configuration names another size of values.
func (n *Node) mayHold(valueBytes int) error {
	if own := n.ValueBytes(); valueBytes != 0 && valueBytes != own {
		return fmt.Errorf("%w: cluster.value_bytes of the node is %d, but this cluster was made with "+
			"%d", service.ErrConflict, valueBytes, own)
	}
	return nil
}

func inUse(nodeID uint64, how string) error {
	return fmt.Errorf("%w: the cluster has a node %d, %s. To give its number to this node, and to "+
		"shut the former one out for ever, run join --replace", service.ErrConflict, nodeID, how)
}

// mayJoin fails if the node's addresses or its number are in use. The number of a node with
// replicas is in use even if the node does not answer: it may be cut off.
func (d *Directory) mayJoin(info service.NodeInfo, replaces bool) error {
	if info.ID == 0 {
		return fmt.Errorf("%w: a node has no number 0", service.ErrInvalid)
	}
	for id, other := range d.Nodes {
		used := addressesOf(other.NodeInfo)
		for name, address := range addressesOf(info) {
			if id != info.ID && address == used[name] {
				return fmt.Errorf("%w: node %d has the %s address %s", service.ErrConflict, id, name,
					address)
			}
		}
	}
	for shardID := range d.Shards {
		if _, placed := d.On(shardID, info.ID); placed && !replaces {
			return inUse(info.ID, fmt.Sprintf("with a replica of shard %d", shardID))
		}
	}
	return nil
}

// isLive tells whether a node answers.
func (n *Node) isLive(ctx context.Context, node NodeEntry) bool {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	_, err := n.post(ctx, node.AdminAddress, pathReplicas, "", nil)
	return err == nil
}

// addressesOf gives those that other nodes and clients use.
func addressesOf(info service.NodeInfo) map[string]string {
	all := map[string]string{"raft": info.RaftAddress, "admin": info.AdminAddress}
	if info.ClientAddress != "" {
		all["client"] = info.ClientAddress
	}
	return all
}

// proveAddresses connects to each address, where the node that joins listens. An address that leads
// elsewhere, such as loopback from another machine, would make a member that nobody reaches.
func proveAddresses(ctx context.Context, request joinRequest) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	errs := make(chan error)
	addresses := addressesOf(request.NodeInfo)
	for name, address := range addresses {
		go func() {
			connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				errs <- fmt.Errorf("%w: the %s address: %w", service.ErrInvalid, name, err)
				return
			}
			defer connection.Close()
			connection.SetDeadline(deadline)
			answer := make([]byte, len(request.Proof))
			if _, err = io.ReadFull(connection, answer); err != nil || string(answer) != request.Proof {
				err = fmt.Errorf("%w: the %s address %s does not lead to the node that joins",
					service.ErrInvalid, name, address)
			}
			errs <- err
		}()
	}
	var all []error
	for range addresses {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// answerAt lets connections to the addresses read a proof until the returned function is called.
func answerAt(addresses []string, proof string) (func(), error) {
	var listeners []net.Listener
	var group sync.WaitGroup
	stop := func() {
		for _, listener := range listeners {
			listener.Close()
		}
		group.Wait()
	}
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			stop()
			return nil, fmt.Errorf("the node's address must be free while it joins: %w", err)
		}
		listeners = append(listeners, listener)
		group.Go(func() {
			for {
				connection, err := listener.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil {
					time.Sleep(retryDelay)
					continue
				}
				connection.SetDeadline(time.Now().Add(dialTimeout))
				_, _ = io.WriteString(connection, proof)
				connection.Close()
			}
		})
	}
	return stop, nil
}

// Join registers a node at a peer's admin address, and prepares its directory. The cluster then
// knows the node; it has no replicas yet. Meanwhile the node listens where it will listen later.
// With `replaces` it takes its number over from another node.
func Join(ctx context.Context, c Config, listen []string, peer string, replaces bool) error {
	// A second join would make the replicas lost that the node has.
	if err := isFresh(c.Directory); err != nil {
		return err
	}
	proof := rand.Text()
	stop, err := answerAt(listen, proof)
	if err != nil {
		return err
	}
	defer stop()
	n := &Node{config: c}
	body, err := json.Marshal(joinRequest{NodeInfo: c.Info, Replace: replaces, Proof: proof,
		Commands: n.knownCommands(), ValueBytes: c.Expected.ValueBytes})
	if err != nil {
		return err
	}
	answer, err := n.post(ctx, peer, pathJoin, "", body)
	if err != nil {
		return err
	}
	var j joined
	if err := json.Unmarshal(answer, &j); err != nil {
		return fmt.Errorf("an answer of %s: %w", peer, err)
	}
	if j.Directory == nil || j.Directory.Ranges.Check() != nil {
		return fmt.Errorf("%w: the cluster runs an earlier program, which has no map of ranges",
			service.ErrConflict)
	}
	n.state = state{Format: stateFormat, NodeID: c.Info.ID, Epoch: j.Epoch, Genesis: j.Genesis}
	n.directory.Store(j.Directory)
	// The node would refuse to start. A leader with an earlier program knows only some settings.
	if err := n.checkSettings(); err != nil {
		return err
	}
	if err := n.state.prepare(c.Directory); err != nil {
		return err
	}
	return n.saveDirectory(j.Directory)
}
