// Package process runs the nodes of a cluster as child processes and hurts them: it kills, pauses,
// restarts and wipes them, and fills their disks. A Cluster's methods may be called from any
// goroutine, but calls for one node must not overlap. The Cluster owns its directory below
// Options.Dir, its mounts and its processes. The processes die with their parent.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"engine_race/cluster/check/value"
	"engine_race/cluster/check/wire"
	"engine_race/cluster/files"
	"engine_race/cluster/service"
)

// clusterSecret is what the nodes and this package show each other.
const clusterSecret = "secret-of-a-check"

// Ports of each node. They are below those that the kernel gives to outgoing connections.
const (
	lockPort   = "17800"
	clientPort = "17801"
	raftPort   = "17802"
	adminPort  = "17803"
	maxNodes   = 200
)

// Network says where nodes run. Package netns has one of network namespaces.
type Network interface {
	// Host gives the address of a node, without a port.
	Host(node int) string
	// Command wraps the program and its arguments so that they run as the node.
	Command(node int, argv []string) []string
}

// Options describes a cluster.
type Options struct {
	Binary    string // the program engine-raced
	Dir       string // for configuration, data and logs
	Nodes     int    // numbered from 1 on
	Shards    int
	ValueSize value.Size
	Network   Network // nil: each node has a loopback address
	// DiskBytes is the size of each node's own file system. 0: data lies in a plain directory,
	// and disks cannot be filled. Otherwise the caller must be root.
	DiskBytes int64
	// LogBytes is how much a log grows before it is shortened. Replicas that are added later get
	// a snapshot then, not the whole log. 0: the nodes' default.
	LogBytes int64
	// TLS gives the nodes certificates for the connections between them.
	TLS   bool
	Extra string   // more lines of each node's configuration file
	Env   []string // more variables, "NAME=value"
	Log   *slog.Logger
	// ReadyIn bounds how long a node may take from its start to its readiness.
	ReadyIn time.Duration
	// RequestTimeout bounds each request of a client, and NodeTimeout what a node takes for it. A
	// table [limits] in Extra replaces NodeTimeout. 0: the nodes' default.
	RequestTimeout, NodeTimeout time.Duration
}

// Cluster is a set of nodes.
type Cluster struct {
	options Options
	nodes   []*node
	starts  chan func()
	number  int          // of the loopback network
	lock    net.Listener // holds the loopback network; nil in a Network
	pages   *http.Client // of the admin addresses

	mu      sync.Mutex
	crashes []string
}

type node struct {
	id        int
	info      service.NodeInfo
	dir       string
	dataDir   string
	config    string
	mounted   bool
	tls       string        // that table of the configuration file, if there is one
	monotonic time.Duration // offset of its clocks, see SetClockOffset

	mu      sync.Mutex
	running *child // nil: the node does not run
}

// New makes the directories, disks and configuration files of all nodes, and runs `init` for
// each. No node is started. After an error nothing is left but files below Dir.
func New(ctx context.Context, options Options) (*Cluster, error) {
	if options.Nodes < 1 || options.Nodes > maxNodes || options.Shards < 1 {
		return nil, fmt.Errorf("%d nodes, %d shards: 1 to %d nodes and 1 shard are needed",
			options.Nodes, options.Shards, maxNodes)
	}
	if err := options.ValueSize.Check(); err != nil {
		return nil, err
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	binary, err := filepath.Abs(options.Binary)
	if err != nil {
		return nil, err
	}
	options.Binary = binary
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, err
	}
	unmountBelow(options.Dir) // left by an earlier run that was killed
	c := &Cluster{options: options, starts: make(chan func()), pages: http.DefaultClient}
	go startAll(c.starts)
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ValueSize gives the size of the cluster's values.
func (c *Cluster) ValueSize() value.Size { return c.options.ValueSize }

// startAll starts children on one thread that lives as long as the cluster. The kernel kills a
// child with the death signal when the thread that started it ends.
func startAll(starts <-chan func()) {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}

func (c *Cluster) prepare(ctx context.Context) error {
	if c.options.Network == nil {
		if err := c.claim(); err != nil {
			return err
		}
	}
	for id := 1; id <= c.options.Nodes; id++ {
		dir := filepath.Join(c.options.Dir, fmt.Sprintf("node%d", id))
		n := &node{id: id, dir: dir, dataDir: filepath.Join(dir, "data"),
			config: filepath.Join(dir, "engine-raced.toml"), info: c.addresses(id)}
		if err := os.MkdirAll(n.dataDir, 0o755); err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
		if c.options.DiskBytes > 0 {
			if err := mountDisk(n, c.options.DiskBytes); err != nil {
				return err
			}
		}
	}
	if err := files.WriteWhole(c.secretPath(), []byte(clusterSecret)); err != nil {
		return err
	}
	if c.options.TLS {
		if err := c.secure(); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := os.WriteFile(n.config, []byte(c.configuration(n)), 0o644); err != nil {
			return err
		}
		if err := c.Init(ctx, n.id); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) secretPath() string { return filepath.Join(c.options.Dir, "secret") }

// claim takes a loopback network 127.77.x that no other cluster of this machine has. A listener on
// its last address holds it until Close.
func (c *Cluster) claim() error {
	var err error
	for i := range 250 {
		c.number = 1 + (os.Getpid()+i)%250
		if c.lock, err = net.Listen("tcp", net.JoinHostPort(c.host(254), lockPort)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no loopback network is free: %w", err)
}

// host gives a node's address. Each node has one of its own, so that no port can be taken. A port
// that is found free may be given to another program before the node starts.
func (c *Cluster) host(id int) string {
	if c.options.Network != nil {
		return c.options.Network.Host(id)
	}
	return fmt.Sprintf("127.77.%d.%d", c.number, id)
}

func (c *Cluster) addresses(id int) service.NodeInfo {
	return service.NodeInfo{ID: uint64(id),
		RaftAddress:   net.JoinHostPort(c.host(id), raftPort),
		ClientAddress: net.JoinHostPort(c.host(id), clientPort),
		AdminAddress:  net.JoinHostPort(c.host(id), adminPort)}
}

// Nodes gives the number of nodes.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Info gives the addresses of a node.
func (c *Cluster) Info(id int) service.NodeInfo { return c.nodes[id-1].info }

// Dialer says how clients reach the node.
func (c *Cluster) Dialer(id int) wire.Dialer {
	return wire.Dialer{Address: c.Info(id).ClientAddress, Timeout: c.options.RequestTimeout}
}

// HasDisks says whether each node has a file system of its own.
func (c *Cluster) HasDisks() bool { return c.options.DiskBytes > 0 }

// Crashes lists the nodes that ended although nobody asked them to, with the end of their log.
func (c *Cluster) Crashes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.crashes...)
}

// Close kills all nodes and unmounts their disks. Files stay.
func (c *Cluster) Close() error {
	var failures []error
	for _, n := range c.nodes {
		failures = append(failures, c.Kill(n.id))
		if n.mounted {
			failures = append(failures, unmount(n.dataDir))
			n.mounted = false
		}
	}
	close(c.starts)
	if c.lock != nil {
		failures = append(failures, c.lock.Close())
	}
	return errors.Join(failures...)
}
