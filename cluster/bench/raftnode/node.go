// Package raftnode is a node of the bench's opponents on dragonboat: one shard with a replica on
// each node. The clients are in the leader's own process, without a protocol between.
//
// A Node may be used from any goroutine. It owns its directory until Close.
package raftnode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"engine_race/cluster/bench/load"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/plugin/tan"
	"github.com/lni/dragonboat/v4/statemachine"
)

// The settings that the opponents share with engine-raced.
const (
	shardID            = 1
	tickMs             = 20
	electionTicks      = 10
	heartbeatTicks     = 1
	snapshotEntries    = 100_000
	compactionOverhead = 10_000
	callTimeout        = 5 * time.Second
)

// The kinds of state machines.
const (
	Bare       = "bare"        // does nothing
	Pebble     = "pebble"      // dragonboat's example: a synced batch for each call of Update
	PebbleLate = "pebble_late" // syncs Pebble only when dragonboat asks for it
)

// Options of a node.
type Options struct {
	Kind      string
	ID        uint64   // from 1
	Addresses []string // of all nodes, in the order of their numbers
	Directory string
}

// Node is one replica.
type Node struct {
	host    *dragonboat.NodeHost
	options Options
}

// Start opens the node's data and joins the others.
func Start(options Options) (*Node, error) {
	if options.ID == 0 || options.ID > uint64(len(options.Addresses)) {
		return nil, fmt.Errorf("node %d has no address among %v", options.ID, options.Addresses)
	}
	create, err := machineOf(options)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"raft", "rsm", "transport", "grpc", "dragonboat", "logdb", "tan",
		"config", "utils", "registry", "server", "settings", "order", "pebblekv"} {
		logger.GetLogger(name).SetLevel(logger.ERROR)
	}
	host, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		WALDir:         filepath.Join(options.Directory, "raft"),
		NodeHostDir:    filepath.Join(options.Directory, "raft"),
		RTTMillisecond: tickMs,
		RaftAddress:    options.Addresses[options.ID-1],
		Expert: config.ExpertConfig{
			LogDBFactory: tan.Factory,
			LogDB:        config.GetTinyMemLogDBConfig(),
			Engine: config.EngineConfig{ExecShards: 1, CommitShards: 1, ApplyShards: 1,
				SnapshotShards: 1, CloseShards: 1},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("starting dragonboat: %w", err)
	}
	members := map[uint64]dragonboat.Target{}
	for i, address := range options.Addresses {
		members[uint64(i)+1] = address
	}
	err = host.StartOnDiskReplica(members, false, create, config.Config{
		ReplicaID: options.ID, ShardID: shardID, CheckQuorum: true, PreVote: true,
		ElectionRTT: electionTicks, HeartbeatRTT: heartbeatTicks,
		SnapshotEntries: snapshotEntries, CompactionOverhead: compactionOverhead,
	})
	if err != nil {
		host.Close()
		return nil, fmt.Errorf("starting the replica: %w", err)
	}
	return &Node{host: host, options: options}, nil
}

func machineOf(options Options) (statemachine.CreateOnDiskStateMachineFunc, error) {
	switch options.Kind {
	case Bare:
		return func(uint64, uint64) statemachine.IOnDiskStateMachine { return &bareMachine{} }, nil
	case Pebble, PebbleLate:
		directory := filepath.Join(options.Directory, "pebble")
		return func(uint64, uint64) statemachine.IOnDiskStateMachine {
			return &pebbleMachine{directory: directory, syncs: options.Kind == Pebble}
		}, nil
	}
	return nil, fmt.Errorf("there is no state machine %q", options.Kind)
}

// Close stops the node.
func (n *Node) Close() { n.host.Close() }

// Leads says whether the node knows itself as the leader.
func (n *Node) Leads() bool {
	leader, _, known, err := n.host.GetLeaderID(shardID)
	return err == nil && known && leader == n.options.ID
}

// Do works off an order.
func (n *Node) Do(work load.Work) (load.Figures, error) {
	if work.Kind == load.State {
		return load.Figures{Leads: n.Leads()}, nil
	}
	call, err := n.callOf(work)
	if err != nil {
		return load.Figures{}, err
	}
	figures, err := load.Run(work, call)
	figures.Leads = n.Leads()
	return figures, err
}

func (n *Node) callOf(work load.Work) (load.Call, error) {
	if work.Depth > 1 {
		return nil, errors.New("a call takes one key")
	}
	switch work.Kind {
	case load.Fill, load.Write:
		session := n.host.GetNoOPSession(shardID)
		return func(_ int, keys []uint64, value []byte) (int, error) {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			defer cancel()
			_, err := n.host.SyncPropose(ctx, session, command(keys[0], value))
			return 0, err
		}, nil
	case load.Read:
		return func(_ int, keys []uint64, _ []byte) (int, error) {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			defer cancel()
			value, err := n.host.SyncRead(ctx, shardID, load.KeyText(keys[0]))
			return missingOf(value, work.Size()), err
		}, nil
	}
	return nil, fmt.Errorf("the node cannot do %q", work.Kind)
}

// command is an entry of the log: the key, then the value. The log keeps it.
func command(key uint64, value []byte) []byte {
	entry := make([]byte, 0, load.KeyBytes+len(value))
	return append(binary.BigEndian.AppendUint64(entry, key), value...)
}

func missingOf(value any, size int) int {
	if found, ok := value.([]byte); ok && len(found) == size {
		return 0
	}
	return 1
}
