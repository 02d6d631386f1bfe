package node

// A node that forgets its votes may not come back under its old replica numbers: writes that it has
// acknowledged could be lost. A wiped node knows nothing of its past, so the others must tell it.
//
// The command init draws an incarnation, a random number of this data directory. The first start of
// an initial node runs no replica until every other initial node has answered it. With its answer a
// node has stored the incarnation of the asking one for ever. So all initial nodes know each other
// when the first replica runs. A node that was wiped and initialised again has another incarnation,
// and each of the others refuses it. While one of them cannot be asked, it goes on waiting.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"engine_race/cluster/service"
)

const (
	// Between two rounds of asking, and how long a node may take to answer.
	helloInterval = 500 * time.Millisecond
	helloTimeout  = 2 * time.Second
)

// hello is what an initial node tells another one, which answers with its own.
type hello struct {
	Cluster     string `json:"cluster"` // Genesis.ID
	NodeID      uint64 `json:"node"`
	Incarnation uint64 `json:"incarnation"`
	// ValueBytes is the size of the asking node's cluster. 0: an earlier program asks.
	ValueBytes int `json:"value_bytes,omitempty"`
}

// bootstrap is the first start of an initial node.
type bootstrap struct {
	mu      sync.Mutex
	waiting map[uint64]string // why each other node has not agreed yet, by its ID; nil: it is over
}

func newIncarnation() uint64 { return rand.Uint64() | 1 }

// others gives the initial nodes besides one.
func (g *Genesis) others(nodeID uint64) []service.NodeInfo {
	return without(slices.Clone(g.Nodes), nodeID)
}

// Init prepares the directory of an initial node. It fails if a node of the list has served with
// others before, or belongs to another cluster. Nodes that do not answer are asked again by serve.
func Init(ctx context.Context, c Config, genesis Genesis) error {
	s, err := initialState(c.Info.ID, genesis)
	if err != nil {
		return err
	}
	n := &Node{config: c, state: s}
	for _, other := range genesis.others(c.Info.ID) {
		_, err := n.sayHello(ctx, other, true)
		if errors.Is(err, service.ErrConflict) || errors.Is(err, service.ErrInvalid) {
			return err
		}
		if err != nil {
			c.Logger.Info("a node was not asked; its first start asks it", "node", other.ID,
				"error", err)
		}
	}
	return s.prepare(c.Directory)
}

// sayHello asks a node whether it agrees that this one begins. With `asksOnly` the other one
// stores nothing.
func (n *Node) sayHello(ctx context.Context, to service.NodeInfo, asksOnly bool) (hello, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	var answer hello
	id, err := n.state.Genesis.ID()
	if err != nil {
		return answer, err
	}
	body, err := json.Marshal(hello{Cluster: id, NodeID: n.state.NodeID,
		Incarnation: n.state.Incarnation, ValueBytes: n.ValueBytes()})
	if err != nil {
		return answer, err
	}
	query := ""
	if asksOnly {
		query = "asks=1"
	}
	text, err := n.post(ctx, to.AdminAddress, pathHello, query, body)
	if err != nil {
		return answer, err
	}
	err = json.Unmarshal(text, &answer)
	if err == nil && (answer.NodeID != to.ID || answer.Cluster != id) {
		err = fmt.Errorf("%w: %s is not node %d of this cluster", service.ErrConflict,
			to.AdminAddress, to.ID)
	}
	return answer, err
}

// serveHello answers another initial node.
func (n *Node) serveHello(c call) ([]byte, error) {
	var from hello
	if err := json.Unmarshal(c.body, &from); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	id, err := n.state.Genesis.ID()
	if err != nil {
		return nil, err
	}
	if own := n.ValueBytes(); from.ValueBytes != 0 && from.ValueBytes != own {
		return nil, fmt.Errorf("%w: cluster.value_bytes is %d, but the cluster of node %d was made "+
			"with %d", service.ErrConflict, from.ValueBytes, n.state.NodeID, own)
	}
	if from.Cluster != id {
		return nil, fmt.Errorf("%w: node %d belongs to the cluster %q, which another [cluster], "+
			"rtt_ms or split of init has made", service.ErrConflict, n.state.NodeID, n.state.Genesis.Cluster)
	}
	if err := n.admit(from, c.query("asks") != ""); err != nil {
		return nil, err
	}
	return json.Marshal(hello{Cluster: id, NodeID: n.state.NodeID,
		Incarnation: n.state.Incarnation})
}

// admit stores the incarnation of a node that begins together with this one. After that it admits
// no other incarnation.
func (n *Node) admit(from hello, asksOnly bool) error {
	isInitial := func(info service.NodeInfo) bool { return info.ID == from.NodeID }
	if !slices.ContainsFunc(n.state.Genesis.Nodes, isInitial) || from.Incarnation == 0 {
		return fmt.Errorf("%w: node %d is no initial node", service.ErrInvalid, from.NodeID)
	}
	n.bootstrap.mu.Lock()
	defer n.bootstrap.mu.Unlock()
	known := n.state.Peers[from.NodeID]
	if n.bootstrap.waiting == nil && known != from.Incarnation {
		return fmt.Errorf("%w: this cluster has lived with another data directory of node %d, "+
			"whose votes are lost with it: remove all of the new one and run join --replace",
			service.ErrConflict, from.NodeID)
	}
	if asksOnly || known == from.Incarnation {
		return nil
	}
	select {
	case n.greeted <- struct{}{}:
	default:
	}
	return n.storePeers(map[uint64]uint64{from.NodeID: from.Incarnation}, true)
}

// storePeers stores incarnations durably. The caller holds the mutex.
func (n *Node) storePeers(incarnations map[uint64]uint64, bootstrapping bool) error {
	s := n.state
	s.Peers, s.Bootstrapping = maps.Clone(s.Peers), bootstrapping
	if s.Peers == nil {
		s.Peers = map[uint64]uint64{}
	}
	maps.Copy(s.Peers, incarnations)
	if err := writeJSON(filepath.Join(n.config.Directory, stateName), s); err != nil {
		return fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	n.state.Peers, n.state.Bootstrapping = s.Peers, s.Bootstrapping
	return nil
}

// begin asks the other initial nodes until all agree, and then lets the replicas run.
func (n *Node) begin() {
	told := map[uint64]string{}
	for {
		heard := n.askOthers()
		if n.allAgree(heard) {
			n.config.Logger.Info("all initial nodes agree: the cluster begins")
			n.nudgeReconciler()
			return
		}
		for id, reason := range n.awaited() {
			if told[id] != reason {
				told[id] = reason
				n.config.Logger.Warn("the first start waits for another initial node", "node", id,
					"reason", reason)
			}
		}
		select {
		case <-n.stopped:
			return
		case <-n.greeted:
		case <-time.After(helloInterval):
		}
	}
}

// askOthers gives the incarnations of the nodes that agree.
func (n *Node) askOthers() map[uint64]uint64 {
	ctx, cancel := n.untilStopped()
	defer cancel()
	others := n.state.Genesis.others(n.state.NodeID)
	answers, errs := make([]hello, len(others)), make([]error, len(others))
	var group sync.WaitGroup
	for i, other := range others {
		group.Go(func() { answers[i], errs[i] = n.sayHello(ctx, other, false) })
	}
	group.Wait()
	n.bootstrap.mu.Lock()
	defer n.bootstrap.mu.Unlock()
	heard := map[uint64]uint64{}
	clear(n.bootstrap.waiting)
	for i, other := range others {
		if errs[i] != nil {
			n.bootstrap.waiting[other.ID] = errs[i].Error()
			continue
		}
		heard[other.ID] = answers[i].Incarnation
	}
	return heard
}

// allAgree ends the bootstrap when no other node is missing.
func (n *Node) allAgree(heard map[uint64]uint64) bool {
	n.bootstrap.mu.Lock()
	defer n.bootstrap.mu.Unlock()
	if len(n.bootstrap.waiting) > 0 {
		return false
	}
	if err := n.storePeers(heard, false); err != nil {
		n.bootstrap.waiting[n.state.NodeID] = err.Error()
		return false
	}
	n.bootstrap.waiting = nil
	return true
}

// awaited says why other nodes have not agreed yet, by their IDs. It is nil when all have.
func (n *Node) awaited() map[uint64]string {
	n.bootstrap.mu.Lock()
	defer n.bootstrap.mu.Unlock()
	return maps.Clone(n.bootstrap.waiting)
}

// hasBegun fails while replicas may not run.
func (n *Node) hasBegun() error {
	waiting := n.awaited()
	if waiting == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(waiting)) {
		return fmt.Errorf("%w: the first start waits for initial node %d: %s", service.ErrLoading, id,
			waiting[id])
	}
	return fmt.Errorf("%w: the first start waits for the other initial nodes", service.ErrLoading)
}
