package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/service"
)

// The directory is a shard without records: it says which node has which replica. Shards of records
// follow it, in the order of their keys.
const (
	directoryShard = 1
	firstDataShard = 2
	// The most nodes that hold the directory.
	maxDirectoryReplicas = 5
)

// Genesis describes a new cluster. All its first nodes are given equal ones.
type Genesis struct {
	Cluster string `json:"cluster"`
	Shards  uint64 `json:"shards"`
	// Lowers has the lowest keys of all shards but the first; none: equal widths.
	Lowers   []uint64           `json:"lowers,omitempty"`
	Replicas uint64             `json:"replicas"`
	Nodes    []service.NodeInfo `json:"nodes"`
	// Commands is the version of commands with which the cluster begins.
	Commands uint64 `json:"commands,omitempty"`
	// TickMs is the tick of all nodes. Time-outs of different ticks would upset each other.
	TickMs uint64 `json:"rtt_ms,omitempty"`
	// ValueBytes is the size of all values. 0: service.DefaultValueBytes, which earlier programs did
	// not name.
	ValueBytes int `json:"value_bytes,omitempty"`
}

func (g *Genesis) valueBytes() int { return cmp.Or(g.ValueBytes, service.DefaultValueBytes) }

// ID is a hash: clusters with different geneses have different IDs.
func (g *Genesis) ID() (string, error) {
	hashed := *g
	if hashed.ValueBytes == service.DefaultValueBytes {
		hashed.ValueBytes = 0
	}
	text, err := json.Marshal(hashed)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// Placement is a replica of a shard on a node. A node whose data was lost joins with a new epoch:
// placements of its earlier epochs are lost with them.
type Placement struct {
	ReplicaID uint64 `json:"replica"`
	NodeID    uint64 `json:"node"`
	Epoch     uint64 `json:"epoch"`
	// Learns: the replica begins without a vote, and the shard's log says when it gets one. It is
	// started as a non-voter ever after: dragonboat finds the vote in the log or in the snapshot.
	Learns bool `json:"learns,omitempty"`
}

// NodeEntry is a node of the directory.
type NodeEntry struct {
	service.NodeInfo
	Epoch uint64 `json:"epoch"`
	// Leaving: its replicas are moved to other nodes, and it gets no others.
	Leaving bool `json:"leaving,omitempty"`
}

// ShardEntry has the placements of a shard. Replica IDs are never used again.
type ShardEntry struct {
	NextReplicaID uint64      `json:"next_replica"`
	Replicas      []Placement `json:"replicas"`
	// First and Last are the keys that stores of the shard take. It has had no others at any time.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Founders are the members with which the Raft group begins.
	Founders []Placement `json:"founders,omitempty"`
	// Source is the shard that has the records of this one, until it has copied them; 0: none. The
	// map had SourceVersion for the range that is split.
	Source        uint64 `json:"source,omitempty"`
	SourceVersion uint64 `json:"source_version,omitempty"`
	// Closed: the shard has begun without keys. See package replica.
	Closed bool `json:"closed,omitempty"`
	Move   Move `json:"move,omitzero"`
}

// Directory says which shard has which keys, which nodes there are, and which node has which
// replica. A Directory that was published is never changed.
type Directory struct {
	Version uint64                `json:"version"`
	Ranges  keyspace.Map          `json:"ranges"`
	Nodes   map[uint64]NodeEntry  `json:"nodes"`
	Shards  map[uint64]ShardEntry `json:"shards"`
	// Commands is the version of commands that all nodes know. It only rises.
	Commands uint64 `json:"commands,omitempty"`
}

// Directory gives the first placements: neighbouring shards begin at neighbouring nodes.
func (g *Genesis) Directory() *Directory {
	lowers := g.Lowers
	if lowers == nil {
		lowers = keyspace.EqualWidths(g.Shards)
	}
	d := &Directory{Ranges: keyspace.NewMap(firstDataShard, lowers),
		Nodes: map[uint64]NodeEntry{}, Shards: map[uint64]ShardEntry{}, Commands: g.Commands}
	for _, n := range g.Nodes {
		d.Nodes[n.ID] = NodeEntry{NodeInfo: n, Epoch: 1}
	}
	place := func(shardID, first, count uint64) {
		entry := ShardEntry{NextReplicaID: count + 1}
		for i := range count {
			n := g.Nodes[(first+i)%uint64(len(g.Nodes))]
			entry.Replicas = append(entry.Replicas,
				Placement{ReplicaID: i + 1, NodeID: n.ID, Epoch: 1})
		}
		entry.Founders = slices.Clone(entry.Replicas)
		if bounds, has := d.Ranges.Of(shardID); has {
			entry.First, entry.Last = bounds.First, bounds.Last
		}
		d.Shards[shardID] = entry
	}
	holders := min(uint64(len(g.Nodes)), maxDirectoryReplicas)
	place(directoryShard, 0, holders-1+holders%2)
	for r := range g.Shards {
		place(firstDataShard+r, r, g.Replicas)
	}
	return d
}

// foundersWith gives the raft addresses of a shard's first members by their IDs, if the placement
// is one of them, and nil otherwise. A Raft address never changes.
func (d *Directory) foundersWith(shardID uint64, p Placement) map[uint64]string {
	founders := d.Shards[shardID].Founders
	if !slices.Contains(founders, p) {
		return nil
	}
	members := map[uint64]string{}
	for _, founder := range founders {
		members[founder.ReplicaID] = d.Nodes[founder.NodeID].RaftAddress
	}
	return members
}

// On gives the placement of a shard on a node.
func (d *Directory) On(shardID, nodeID uint64) (Placement, bool) {
	for _, p := range d.Shards[shardID].Replicas {
		if p.NodeID == nodeID {
			return p, true
		}
	}
	return Placement{}, false
}

// infos gives all nodes, in any order.
func (d *Directory) infos() []service.NodeInfo {
	var infos []service.NodeInfo
	for _, entry := range d.Nodes {
		infos = append(infos, entry.NodeInfo)
	}
	return infos
}

// without leaves a node out of a list, which it changes.
func without(infos []service.NodeInfo, nodeID uint64) []service.NodeInfo {
	return slices.DeleteFunc(infos, func(info service.NodeInfo) bool { return info.ID == nodeID })
}

// infosOf gives the nodes that have replicas of a shard.
func (d *Directory) infosOf(shardID uint64) []service.NodeInfo {
	var infos []service.NodeInfo
	for _, p := range d.Shards[shardID].Replicas {
		infos = append(infos, d.Nodes[p.NodeID].NodeInfo)
	}
	return infos
}

func (d *Directory) clone() *Directory {
	c := *d
	c.Nodes, c.Shards = maps.Clone(d.Nodes), maps.Clone(d.Shards)
	for id, entry := range c.Shards {
		entry.Replicas = slices.Clone(entry.Replicas)
		c.Shards[id] = entry
	}
	return &c
}

// change is a command of the directory's state machine.
type change struct {
	Op        string           `json:"op"`
	Node      service.NodeInfo `json:"node,omitzero"`
	ShardID   uint64           `json:"shard,omitempty"`
	NodeID    uint64           `json:"node_id,omitempty"`
	ReplicaID uint64           `json:"replica,omitempty"`
	Commands  uint64           `json:"commands,omitempty"`
	Epoch     uint64           `json:"epoch,omitempty"`
	// Of opSplit: the first key of the upper part, and the version of the range that is split.
	Key     uint64 `json:"key,omitempty"`
	Version uint64 `json:"version,omitempty"`
	To      uint64 `json:"to,omitempty"` // of opMove: a node
	Leaving bool   `json:"leaving,omitempty"`
}

const (
	opJoin   = "join"   // Node joins, or joins again with a new epoch, which is the result
	opPlace  = "place"  // a replica of ShardID on NodeID, whose ID is the result
	opRemove = "remove" // ReplicaID of ShardID
	// ReplicaID of ShardID, which NodeID has lost, by another one there, whose ID is the result. A
	// node that ended between a removal and a placement would not know that it is to have one.
	opReplace = "replace"
	opRaise   = "raise" // the version of commands, to Commands
	// The client and admin addresses of Node, whose epoch must be that of the directory.
	opAddress = "address"
	// The range of ShardID is to be split at Key. The upper part is for a shard of its own, whose ID
	// is the result. It is refused unless the range has the Version.
	opSplit  = "split"
	opCut    = "cut"    // ShardID, which opSplit has made, gets its range in the map
	opFilled = "filled" // ShardID has copied its records
	// The replica of ShardID on NodeID goes to the node To. The result is the ID of the new replica.
	opMove  = "move"
	opLeave = "leave" // NodeID, or not any more, as Leaving says
)

// The result of a change that was refused.
const resultRefused = 0

// apply gives the result of a change, and why it was refused, or "". It ends the process at a
// change that a newer program has proposed.
func (d *Directory) apply(c change) (uint64, string) {
	switch c.Op {
	case opJoin:
		return d.join(c.Node)
	case opPlace:
		return d.place(c.ShardID, c.NodeID)
	case opRemove:
		return d.remove(c.ShardID, c.ReplicaID)
	case opAddress:
		entry, known := d.Nodes[c.Node.ID]
		if !known || entry.RaftAddress != c.Node.RaftAddress || entry.Epoch != c.Epoch {
			return resultRefused, fmt.Sprintf("there is no such node %d", c.Node.ID)
		}
		entry.NodeInfo = c.Node
		d.Nodes[c.Node.ID] = entry
		return 1, ""
	case opRaise:
		d.Commands = max(d.commands(), c.Commands)
		return d.Commands, ""
	case opSplit:
		return d.split(c)
	case opCut:
		return d.cut(c.ShardID)
	case opMove:
		return d.move(c.ShardID, c.NodeID, c.To)
	case opLeave:
		entry, known := d.Nodes[c.NodeID]
		if !known {
			return resultRefused, fmt.Sprintf("there is no node %d", c.NodeID)
		}
		entry.Leaving = c.Leaving
		d.Nodes[c.NodeID] = entry
		return 1, ""
	case opFilled:
		entry := d.Shards[c.ShardID]
		entry.Source = 0
		d.Shards[c.ShardID] = entry
		return 1, ""
	case opReplace:
		if _, placed := d.On(c.ShardID, c.NodeID); !placed {
			return resultRefused, fmt.Sprintf("node %d has no replica of shard %d to replace",
				c.NodeID, c.ShardID)
		}
		move := d.Shards[c.ShardID].Move
		if _, refusal := d.remove(c.ShardID, c.ReplicaID); refusal != "" {
			return resultRefused, refusal
		}
		id, refusal := d.place(c.ShardID, c.NodeID)
		if refusal == "" && move.has(c.ReplicaID) {
			entry := d.Shards[c.ShardID]
			entry.Move = move.with(c.ReplicaID, id)
			d.Shards[c.ShardID] = entry
		}
		return id, refusal
	}
	// Other replicas may know it.
	panic(fmt.Sprintf("the directory's change %q is of a newer version than this program knows: "+
		"install a newer one", c.Op))
}

func (d *Directory) remove(shardID, replicaID uint64) (uint64, string) {
	entry, found := d.Shards[shardID]
	if !found {
		return resultRefused, fmt.Sprintf("there is no shard %d", shardID)
	}
	if replicaID == 0 || replicaID >= entry.NextReplicaID {
		return resultRefused, fmt.Sprintf("shard %d has had no replica %d", shardID, replicaID)
	}
	entry.Replicas = slices.DeleteFunc(entry.Replicas,
		func(p Placement) bool { return p.ReplicaID == replicaID })
	if entry.Move.has(replicaID) {
		entry.Move = Move{} // It has come to its end, or is given up.
	}
	d.Shards[shardID] = entry
	return 1, ""
}

func (d *Directory) join(n service.NodeInfo) (uint64, string) {
	for id, other := range d.Nodes {
		if id != n.ID && other.RaftAddress == n.RaftAddress {
			return resultRefused, fmt.Sprintf("node %d has the address %s", id, n.RaftAddress)
		}
	}
	entry := NodeEntry{NodeInfo: n, Epoch: d.Nodes[n.ID].Epoch + 1}
	d.Nodes[n.ID] = entry
	return entry.Epoch, ""
}

func (d *Directory) place(shardID, nodeID uint64) (uint64, string) {
	n, known := d.Nodes[nodeID]
	entry, found := d.Shards[shardID]
	if !known || !found {
		return resultRefused, fmt.Sprintf("there is no node %d or no shard %d", nodeID, shardID)
	}
	// A call that is repeated after an interruption gives the same replica.
	if p, placed := d.On(shardID, nodeID); placed {
		if p.Epoch == n.Epoch {
			return p.ReplicaID, ""
		}
		return resultRefused, fmt.Sprintf("node %d had replica %d of shard %d before its data was "+
			"lost: remove that first", nodeID, p.ReplicaID, shardID)
	}
	id := entry.NextReplicaID
	entry.NextReplicaID++
	entry.Replicas = append(slices.Clip(entry.Replicas),
		Placement{ReplicaID: id, NodeID: nodeID, Epoch: n.Epoch, Learns: d.commands() > 1})
	d.Shards[shardID] = entry
	return id, ""
}
