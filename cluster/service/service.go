// Package service says what the cluster offers to those who speak a protocol to clients or to
// operators. It has interfaces and plain values only. Package node implements the interfaces.
package service

import (
	"context"
	"errors"
)

// Sizes of keys and values, in bytes. All values of a cluster have one size.
const (
	KeyBytes = 8
	// DefaultValueBytes is the size in clusters whose settings name none.
	DefaultValueBytes = 4096
	MinValueBytes     = 8
	MaxValueBytes     = 1 << 20
)

// ValuesIn is how many values lie in memory together: `most` of the default size or a smaller one.
// Stores read a block for each value, however small it is. Larger values are as many as have the
// same bytes, but at least one.
func ValuesIn(most, valueBytes int) int {
	return max(1, min(most*DefaultValueBytes/valueBytes, most))
}

// LeastWorkBytes is what a record counts for at least where bytes stand for work. A record of 24
// bytes takes a fifth to two fifths of the CPU time of one of the default size.
const LeastWorkBytes = 1 << 10

// WorkBytes is what a record counts for in a rate.
func WorkBytes(valueBytes int) int { return max(KeyBytes+valueBytes, LeastWorkBytes) }

// RecordsIn is how many records are handled together: `ofDefaultSize` of the default size, or as
// many as are about the same work. It is one at least.
func RecordsIn(ofDefaultSize, valueBytes int) int {
	return max(1, ofDefaultSize*DefaultValueBytes/max(valueBytes, LeastWorkBytes))
}

// The outcomes of failed calls. Every error of a Service is one of them, as errors.Is tells.
var (
	// ErrUnknown: the leader was lost, or the time is over. The write may have been done, may still
	// be done, or may never be.
	ErrUnknown = errors.New("the outcome is unknown")
	// ErrUnavailable: nothing was done. There is no leader or no quorum, or the node is stopping.
	ErrUnavailable = errors.New("nothing was done: unavailable")
	// ErrBusy: nothing was done. A limit of the node is reached; the call may succeed soon.
	ErrBusy = errors.New("nothing was done: busy")
	// ErrFull: nothing was done. The disk has no room.
	ErrFull = errors.New("nothing was done: the disk is full")
	// ErrLoading: a local read came before the replica had applied its own log.
	ErrLoading = errors.New("nothing was done: the replica is loading")
	// ErrCorrupt: stored data failed its checksum.
	ErrCorrupt = errors.New("stored data is corrupt")
)

// Op writes a record, or deletes one when Value is nil. Value may not change during the call. With
// Read it reads a record, which Transact alone takes.
type Op struct {
	Key   uint64
	Value []byte
	Read  bool
}

// Found says what an op of Transact has found when its turn came.
type Found struct {
	Existed bool
	Damaged bool   // of a read: the record failed its checksum
	Value   []byte // of a read: nil if the key is absent
}

// Record is a key with its value.
type Record struct {
	Key   uint64
	Value []byte
}

// Consistency says how fresh a read is.
type Consistency int

const (
	// Linearizable reads see every write that was acknowledged before they began.
	Linearizable Consistency = iota
	// Local reads see what the node's own replica has applied.
	Local
)

// Service is the key space. Keys are numbers: their 8 bytes read big-endian. Every call may come
// from any goroutine. The context's deadline bounds it.
type Service interface {
	// ValueBytes is the size of each value of the cluster. It never changes.
	ValueBytes() int
	// Write applies all ops of one shard in one atomic step. Later ops of a key win. With `counted`
	// the answer says for each op whether its key was there before; otherwise it is nil.
	Write(ctx context.Context, ops []Op, counted bool) (existed []bool, err error)
	// Transact applies ops of one shard in one atomic step, reads among them. Each op sees those
	// before it. It refuses keys of several shards.
	Transact(ctx context.Context, ops []Op) ([]Found, error)
	// ShardOf names the shard of a key.
	ShardOf(key uint64) uint64
	// Read answers with nil where a key is absent. It reads the keys of one shard at one moment.
	// The values may be used until release is called: once, unless Read fails.
	Read(ctx context.Context, keys []uint64, consistency Consistency) (values [][]byte,
		release func(), err error)
	// Scan gives up to `limit` records in the order of their keys: from lower on, and below *upper
	// unless that is nil. Without values Record.Value is nil. `more` is false if there are no
	// further ones. The records of one shard are of one moment.
	Scan(ctx context.Context, lower uint64, upper *uint64, limit int, withValues bool,
		consistency Consistency) (records []Record, more bool, err error)
	// Count gives the number of live keys.
	Count(ctx context.Context) (uint64, error)
	// Info describes the node, for INFO.
	Info() []InfoSection
}

// InfoSection is a named list of fields, each a name and a value.
type InfoSection struct {
	Name   string
	Fields [][2]string
}

// NodeInfo names a node and its addresses, "host:port" each.
type NodeInfo struct {
	ID            uint64 `json:"id" toml:"id"`
	RaftAddress   string `json:"raft" toml:"raft"`
	ClientAddress string `json:"client" toml:"client"`
	AdminAddress  string `json:"admin" toml:"admin"`
}

// ReplicaStatus describes a replica as its own node sees it.
type ReplicaStatus struct {
	ShardID   uint64 `json:"shard"`
	ReplicaID uint64 `json:"replica"`
	NodeID    uint64 `json:"node"`
	Leader    bool   `json:"leader"`
	Ready     bool   `json:"ready"`
	Full      bool   `json:"full"`
	Loading   bool   `json:"loading"`
	// Fit: the replica should lead its shard. Its disk has room and is not slow, and its data is
	// sound.
	Fit bool `json:"fit"`
	// Failure says what is wrong with the replica's data.
	Failure      string `json:"failure,omitempty"`
	AppliedIndex uint64 `json:"applied_index"`
	SyncedIndex  uint64 `json:"synced_index"`
	LogBytes     uint64 `json:"log_bytes"`
	// RangeVersion is that of the bounds that the replica has applied.
	RangeVersion uint64 `json:"range_version,omitempty"`
	// Since the node's start: new leaders that the replica heard of, keys that it was asked for, and
	// ops that it took as the leader.
	Elections  uint64 `json:"elections"`
	ReadKeys   uint64 `json:"read_keys"`
	WrittenOps uint64 `json:"written_ops"`
	// Of the last seconds.
	ReadKeysPerSecond   float64 `json:"read_keys_per_second"`
	WrittenOpsPerSecond float64 `json:"written_ops_per_second"`
	// Differs: a comparison found that the replica's records are not those of most others.
	Differs bool `json:"differs,omitempty"`
}

// ShardStatus describes a shard. Lower is the lowest of its keys, Upper the highest.
type ShardStatus struct {
	ShardID uint64 `json:"shard"`
	Lower   uint64 `json:"lower"`
	Upper   uint64 `json:"upper"`
	// RangeVersion rises with each change of these bounds. 0: the shard is the directory.
	RangeVersion uint64 `json:"range_version,omitempty"`
	// Source is the shard from which this one copies its records; 0: none.
	Source   uint64          `json:"source_shard,omitempty"`
	LeaderID uint64          `json:"leader_node"` // 0: none is known
	Members  []ReplicaStatus `json:"members"`
	// MovesFrom and MovesTo are the nodes of a move of a replica that is under way; 0: none.
	MovesFrom uint64 `json:"moves_from_node,omitempty"`
	MovesTo   uint64 `json:"moves_to_node,omitempty"`
}

// Status is what one node knows of the cluster.
type Status struct {
	Cluster string `json:"cluster"`
	// ValueBytes is the size of each value.
	ValueBytes int        `json:"value_bytes"`
	NodeID     uint64     `json:"node"`
	Nodes      []NodeInfo `json:"nodes"`
	Silent     []uint64   `json:"silent_nodes"` // those that did not answer
	// Leaving nodes are being emptied: see Control.Decommission.
	Leaving []uint64      `json:"leaving_nodes,omitempty"`
	Shards  []ShardStatus `json:"shards"`
}

// BackupReport says what a backup or a restore handled.
type BackupReport struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"`
}

// Comparison says how the replicas of a shard differ in the state of one index of its log.
type Comparison struct {
	ShardID     uint64            `json:"shard"`
	Index       uint64            `json:"index"`
	Nodes       []uint64          `json:"nodes"`             // whose replicas were compared
	Missing     map[uint64]string `json:"missing,omitempty"` // why the others were not
	Differences []Difference      `json:"differences,omitempty"`
}

// Difference is a range of keys, both ends included, with the nodes that most others do not agree
// with.
type Difference struct {
	Lower uint64   `json:"lower"`
	Upper uint64   `json:"upper"`
	Nodes []uint64 `json:"nodes"`
}

// Control is what operators ask of a node. Each call may be sent to any node.
type Control interface {
	Status(ctx context.Context) (Status, error)
	// AddReplica gives node a replica of the shard, and waits until it votes.
	AddReplica(ctx context.Context, shardID, nodeID uint64) error
	// RemoveReplica takes the node's replica of the shard away. Its data is deleted.
	RemoveReplica(ctx context.Context, shardID, nodeID uint64) error
	// MoveReplica gives the node `to` a replica of the shard, and then takes that of the node `from`
	// away. All other replicas of the shard must be ready then. It goes on when the call is lost.
	MoveReplica(ctx context.Context, shardID, from, to uint64) error
	MoveLeader(ctx context.Context, shardID, nodeID uint64) error
	// Decommission lets all replicas of the node move to others. Without `leaves` it may have some
	// again.
	Decommission(ctx context.Context, nodeID uint64, leaves bool) error
	// SplitShard gives the keys of a shard from `key` on to a new shard, whose ID it returns when that
	// shard has copied the records. It goes on when the call is lost.
	SplitShard(ctx context.Context, shardID, key uint64) (created uint64, err error)
	// Snapshot lets the node's replica of the shard sync, and shortens its log.
	Snapshot(ctx context.Context, shardID uint64) (index uint64, err error)
	// Compare compares the replicas of a shard while clients go on.
	Compare(ctx context.Context, shardID uint64) (Comparison, error)
	// Backup writes the records of all shards into a directory of the node: all of them, or those
	// that changed since the backup in `since`.
	Backup(ctx context.Context, directory, since string) (BackupReport, error)
	// Restore writes the records of a backup in a directory of the node into an empty cluster.
	Restore(ctx context.Context, directory string) (BackupReport, error)
	// Live fails when the process should be restarted, Ready when it should get no requests.
	Live() error
	Ready() error
}
