// Package node runs the replicas of one node and answers for all keys of the cluster.
//
// Raft, its log, membership and linearizable reads are dragonboat's. This package says which
// replica lies where, and joins the calls of many clients into proposals and read indexes. It sends
// calls for shards without a replica here to a node that has one.
//
// Thread safety: every method of Node may be called from any goroutine, until Close.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"

	"engine_race/cluster/budget"
	"engine_race/cluster/raftlog"
	"engine_race/cluster/service"
)

// Config is what a node needs besides the files that Init or Join made.
type Config struct {
	Directory string
	Info      service.NodeInfo

	// Raft: the tick in milliseconds, and how many ticks an election and a heartbeat take.
	TickMs, ElectionTicks, HeartbeatTicks uint64
	// Entries of a shard that wait in memory to be applied, in bytes. Beyond, writes wait.
	LogMemoryBytes uint64
	// A shard's log is shortened when it is this long, in bytes.
	LogBytes uint64
	// Replicas that are behind are sent so much in a second, of logs and of snapshots. 0: no bound.
	CatchUpBytesPerS int64
	// Replicas and leaders move by themselves until all nodes have about as many: see plan.go.
	SpreadReplicas, SpreadLeaders bool
	// Workers of dragonboat, which cannot be changed once a node has been started.
	ExecShards uint64
	// Between two syncs of the stores in the background.
	SyncInterval time.Duration

	// Bytes in flight of calls from other nodes, which clients may share. Nil: a budget of its own.
	Budget *budget.Budget

	// Between two comparisons of a shard's replicas in the background; 0: none. And how fast each
	// replica is read for one.
	CompareInterval       time.Duration
	CompareBytesPerSecond int64

	// The configuration's words on the cluster. A restart is refused if they have changed.
	Expected Expected
	// CheckSize fails if the node's limits leave no room for values of this size. It is called before
	// a replica runs. Nil: there is room for all sizes.
	CheckSize func(valueBytes int) error

	// The newest version of commands that the node knows. 0: the program's; tests have others.
	Commands uint64

	// Options of every store, by name.
	Engine map[string]string

	// The two sides of TLS between nodes, the second one for each connection; nil: no TLS.
	PeerServer *tls.Config
	PeerClient func() *tls.Config
	Secret     string // of the cluster, which nodes show each other; empty: none
	// Reaches the admin addresses of other nodes: see NewClient.
	Client *http.Client
	Scheme string // of these addresses: "http" or "https"

	Logger *slog.Logger

	// Between two looks of the controller. 0: balanceInterval; tests take the looks themselves.
	lookInterval time.Duration

	// Tests replace these two: otherwise both change while a test runs.
	freeBytes  func() (uint64, error)
	storeBytes func(shardID, replicaID uint64) uint64
}

// Node implements service.Service and service.Control.
type Node struct {
	config Config
	state  state
	host   *dragonboat.NodeHost
	log    *raftlog.Log

	bootstrap bootstrap // guards state.Peers and state.Bootstrapping, too

	directory atomic.Pointer[Directory]
	machine   *directoryMachine // of the directory's replica here, or nil

	// Of the reconciler: the directory that the next start begins with.
	savedVersion uint64

	comparisons     sync.Map // the last one by shard: service.Comparison
	comparisonsDone atomic.Uint64

	clock  clock
	clocks sync.Map // of other nodes by admin address: heard

	raisedAt time.Time // of the reconciler: the last try to raise the version of commands

	// By shard: the node that has answered for it, uint64.
	answered sync.Map

	mu     sync.RWMutex
	shards map[uint64]*shard
	starts map[uint64]restart // by shard; tendForever alone changes it
	low    atomic.Bool        // the disk has little room

	leadersMoved signal // of any shard here

	arrivingMu sync.Mutex
	arriving   map[raftio.NodeInfo]*arrival // by receiver

	restoring sync.Mutex // is held by a Restore

	// Of health: see Live and Ready.
	pulse    pulse
	witness  atomic.Pointer[witness]
	wasReady atomic.Bool
	opened   time.Time

	draining atomic.Bool
	stopped  chan struct{}
	workers  sync.WaitGroup
	// Asks the reconciler to look at once, and the bootstrap to ask at once.
	nudge, greeted chan struct{}
}

// prepareNode makes a node that runs nothing yet.
func prepareNode(c Config) (*Node, error) {
	s, err := loadState(c.Directory)
	if err != nil {
		return nil, err
	}
	if s.NodeID != c.Info.ID {
		return nil, fmt.Errorf("%s is of node %d, not %d", c.Directory, s.NodeID, c.Info.ID)
	}
	n := &Node{config: c, state: s, clock: newClock(), shards: map[uint64]*shard{},
		stopped: make(chan struct{}), starts: map[uint64]restart{}, nudge: make(chan struct{}, 1),
		greeted: make(chan struct{}, 1), opened: time.Now(),
		arriving: map[raftio.NodeInfo]*arrival{}}
	if s.Bootstrapping {
		n.bootstrap.waiting = map[uint64]string{}
	}
	if n.config.Budget == nil {
		n.config.Budget = budget.New(maxBodyBytes)
	}
	n.directory.Store(n.savedDirectory())
	n.savedVersion = n.directory.Load().Version
	if needed := n.directory.Load().commands(); needed > n.knownCommands() {
		return nil, errOldProgram(needed, n.knownCommands())
	}
	return n, n.checkSettings()
}

// openHost takes the directory's lock and opens the logs.
func (n *Node) openHost() (err error) {
	if err := raftlog.Tune(); err != nil {
		return err
	}
	logs := &raftlog.Factory{FollowerBytesPerSecond: uint64(n.config.CatchUpBytesPerS)}
	if n.host, err = dragonboat.NewNodeHost(n.hostConfig(logs)); err != nil {
		return fmt.Errorf("start raft at %s: %w", n.config.Info.RaftAddress, err)
	}
	n.log = logs.Log()
	return nil
}

// Open starts the node's replicas. It returns before they have leaders.
func Open(c Config) (*Node, error) {
	n, err := prepareNode(c)
	if err == nil {
		err = n.openHost()
	}
	if err != nil {
		return nil, err
	}
	// The host holds the lock of the directory, so no other process restores there.
	if err := os.RemoveAll(filepath.Join(c.Directory, restoreName)); err != nil {
		c.Logger.Warn("cannot remove what a restore has left", "error", err)
	}
	if err := n.log.Trim(); err != nil {
		c.Logger.Warn("cannot give back reserved space of logs", "error", err)
	}
	n.reconcile()
	if n.state.Bootstrapping {
		n.workers.Go(n.begin)
	}
	for _, s := range n.localShards() {
		if err := n.log.CheckFiles(s.shardID, s.replicaID); err != nil {
			n.Close()
			return nil, err
		}
	}
	n.workers.Go(n.countPulses)
	n.workers.Go(n.beatForever)
	n.workers.Go(n.watchWitnesses)
	n.workers.Go(n.reconcileForever)
	n.workers.Go(n.replaceLost)
	n.workers.Go(n.followForever)
	n.workers.Go(n.maintainForever)
	n.workers.Go(n.tendForever)
	n.workers.Go(n.compareForever)
	n.workers.Go(n.balanceForever)
	return n, nil
}

// savedDirectory gives the directory that was saved last, or the first one. A damaged file is no
// reason to stop: the newest directory comes from the other nodes.
func (n *Node) savedDirectory() *Directory {
	d := &Directory{}
	err := readJSON(filepath.Join(n.config.Directory, directoryName), d)
	if err == nil {
		err = d.Ranges.Check()
	}
	if err == nil {
		return d
	}
	if !errors.Is(err, fs.ErrNotExist) {
		n.config.Logger.Error("the saved directory is lost", "error", err)
	}
	return n.state.Genesis.Directory()
}

func (n *Node) hostConfig(logs *raftlog.Factory) config.NodeHostConfig {
	// Nodes of different clusters must refuse each other. A deployment's ID is not 0.
	id, _ := n.state.Genesis.ID()
	deployment, _ := strconv.ParseUint(id[:15], 16, 64)
	c := config.NodeHostConfig{
		DeploymentID:        deployment + 1,
		NodeHostDir:         filepath.Join(n.config.Directory, raftName),
		RTTMillisecond:      n.config.TickMs,
		RaftAddress:         n.config.Info.RaftAddress,
		NotifyCommit:        true,
		RaftEventListener:   (*listener)(n),
		SystemEventListener: (*listener)(n),
	}
	c.Expert.TransportFactory = n.transportFactory()
	c.Expert.LogDBFactory = logs
	c.Expert.LogDB = config.GetTinyMemLogDBConfig()
	c.Expert.Engine = config.GetDefaultEngineConfig()
	c.Expert.Engine.ExecShards = n.config.ExecShards
	return c
}

// keptChanges is how many changes of the directory its log holds before it is shortened, and after.
const keptChanges = 1024

func (n *Node) shardConfig(shardID, replicaID uint64) config.Config {
	c := config.Config{
		ShardID:            shardID,
		ReplicaID:          replicaID,
		CheckQuorum:        true,
		PreVote:            true,
		ElectionRTT:        n.config.ElectionTicks,
		HeartbeatRTT:       n.config.HeartbeatTicks,
		MaxInMemLogSize:    n.config.LogMemoryBytes,
		CompactionOverhead: keptChanges,
	}
	// Logs of other shards are shortened by their bytes: see shorten.
	if shardID == directoryShard {
		c.SnapshotEntries = keptChanges
	}
	return c
}

// inTicks gives a time of at least some ticks, in which dragonboat counts time-outs.
func (n *Node) inTicks(least time.Duration) time.Duration {
	return max(least, 10*time.Duration(n.config.TickMs)*time.Millisecond)
}

// pause waits. It gives false when the node stops.
func (n *Node) pause(interval time.Duration) bool {
	select {
	case <-n.stopped:
		return false
	case <-time.After(interval):
		return true
	}
}

// untilStopped gives a context that ends when the node stops. Call the other result at last.
func (n *Node) untilStopped() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-n.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// listener takes dragonboat's events. Its methods may not block.
type listener Node

// LeaderUpdated is called when a shard has another leader or none.
func (l *listener) LeaderUpdated(info raftio.LeaderInfo) {
	s := (*Node)(l).shard(info.ShardID)
	if s != nil && s.replicaID == info.ReplicaID {
		s.noteLeader(info.LeaderID, info.Term)
	}
}

// SnapshotRecovered is called when a replica has loaded a snapshot.
func (l *listener) SnapshotRecovered(info raftio.SnapshotInfo) {
	go (*Node)(l).snapshotLoaded(info)
}

// NodeHostShuttingDown and the other events are ignored.
func (l *listener) NodeHostShuttingDown()                       {}
func (l *listener) NodeUnloaded(raftio.NodeInfo)                {}
func (l *listener) NodeDeleted(raftio.NodeInfo)                 {}
func (l *listener) NodeReady(raftio.NodeInfo)                   {}
func (l *listener) MembershipChanged(raftio.NodeInfo)           {}
func (l *listener) ConnectionEstablished(raftio.ConnectionInfo) {}
func (l *listener) ConnectionFailed(raftio.ConnectionInfo)      {}
func (l *listener) SendSnapshotStarted(raftio.SnapshotInfo)     {}
func (l *listener) SendSnapshotCompleted(raftio.SnapshotInfo)   {}
func (l *listener) SendSnapshotAborted(raftio.SnapshotInfo)     {}
func (l *listener) SnapshotReceived(raftio.SnapshotInfo)        {}
func (l *listener) SnapshotCreated(raftio.SnapshotInfo)         {}
func (l *listener) SnapshotCompacted(raftio.SnapshotInfo)       {}
func (l *listener) LogCompacted(raftio.EntryInfo)               {}
func (l *listener) LogDBCompacted(raftio.EntryInfo)             {}

// shard gives the shard's replica here, or nil.
func (n *Node) shard(shardID uint64) *shard {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.shards[shardID]
}

func (n *Node) localShards() []*shard {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var all []*shard
	for _, s := range n.shards {
		all = append(all, s)
	}
	return all
}

// Drain refuses to be ready from now on, and hands leadership to other replicas until ctx ends. A
// leader that waits for another one to take over refuses proposals, so it is asked again only after
// a while.
func (n *Node) Drain(ctx context.Context) {
	n.draining.Store(true)
	again := time.NewTicker(transferInterval)
	defer again.Stop()
	for attempt := 0; ; attempt++ {
		n.giveUpLeadership(ctx, attempt)
		for asks := false; !asks; {
			moved := n.leadersMoved.wait()
			if n.leading() == 0 {
				return
			}
			select {
			case <-ctx.Done():
				n.config.Logger.Warn("stopping while leading", "shards", n.leading())
				return
			case <-again.C:
				asks = true
			case <-moved:
			}
		}
	}
}

// Close stops all replicas. Calls that are under way fail.
func (n *Node) Close() {
	n.draining.Store(true)
	close(n.stopped)
	n.workers.Wait()
	for _, s := range n.localShards() {
		s.stop()
	}
	n.host.Close()
}
