// Package bench compares engine-raced with other stores on one machine. Bare dragonboat, dragonboat
// over Pebble, and etcd are clusters on loopback, as engine-raced is, with a process for each node.
// The engine alone is one process. Rounds alternate, and opponents that wait for their turn are
// stopped.
//
// Run is for one goroutine. It owns its directory, its children and their memory groups.
package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"engine_race/cluster/bench/load"
	"engine_race/cluster/bench/multiread"
	"engine_race/cluster/bench/raftnode"
)

const startTimeout = 90 * time.Second

// The names of the opponents.
const (
	Engine     = "engine"
	Bare       = raftnode.Bare
	Pebble     = raftnode.Pebble
	PebbleLate = raftnode.PebbleLate
	Etcd       = "etcd"
	MultiRead  = multiread.Kind
	CatchUp    = "catch_up" // engine-raced with a node that misses writes
	Flood      = "flood"    // engine-raced with more requests than it can take
)

// Names lists the opponents in the order of their turns.
var Names = []string{Bare, Engine, Pebble, PebbleLate, Etcd, MultiRead, CatchUp, Flood}

// Each node has a port of each kind: raft, clients and admin.
const (
	maxNodes  = 7
	portKinds = 3
)

// opponent is a running cluster.
type opponent struct {
	name      string
	options   Options
	directory string
	nodes     []*process
	groups    []*memoryGroup
	driver    *process // nil when the leader drives itself
}

// ports gives the addresses of one kind of the nodes: 0, 1 or 2.
func (o *opponent) ports(kind int) []string {
	place := slices.Index(Names, o.name)
	var addresses []string
	for node := range o.options.Nodes {
		port := o.options.Port + (place*portKinds+kind)*maxNodes + node
		addresses = append(addresses, "127.0.0.1:"+strconv.Itoa(port))
	}
	return addresses
}

func (o *opponent) nodeCount() int {
	if o.name == MultiRead {
		return 1
	}
	return o.options.Nodes
}

// startOpponent starts the processes, and waits until one leads.
func startOpponent(name string, options Options) (*opponent, error) {
	o := &opponent{name: name, options: options, directory: filepath.Join(options.Directory, name)}
	if err := o.start(); err != nil {
		o.stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return o, nil
}

func (o *opponent) start() error {
	if err := os.MkdirAll(o.directory, 0o755); err != nil {
		return err
	}
	for node := 1; node <= o.nodeCount(); node++ {
		if err := o.startNode(node); err != nil {
			return err
		}
	}
	var err error
	switch o.name {
	case Engine, CatchUp:
		o.driver, err = startProcess(nil, o.log("driver"), o.options.Self, childCommand,
			"--kind", respDriver)
	case Etcd:
		o.driver, err = startProcess(nil, o.log("driver"), o.options.program("cluster-bench-etcd"),
			"-clients", strings.Join(o.ports(1), ","))
	}
	if err != nil {
		return err
	}
	_, _, err = o.awaitLeader()
	return err
}

func (o *opponent) log(name string) string { return filepath.Join(o.directory, name+".log") }

func (o *opponent) startNode(node int) error {
	var group *memoryGroup
	if o.options.MemoryMiB > 0 && o.name != Flood { // The node's own limit is measured there.
		var err error
		name := fmt.Sprintf("cluster_bench_%d_%s_%d", os.Getpid(), o.name, node)
		if group, err = newMemoryGroup(name, o.options.MemoryMiB<<20); err != nil {
			return err
		}
		o.groups = append(o.groups, group)
	}
	child, err := o.launch(node, group, false)
	if err != nil {
		return err
	}
	o.nodes = append(o.nodes, child)
	return nil
}

// launch starts the process of a node. `again`: the node was started before.
func (o *opponent) launch(node int, group *memoryGroup, again bool) (*process, error) {
	number := strconv.Itoa(node)
	directory := filepath.Join(o.directory, "node"+number)
	program, arguments := o.options.Self, []string{childCommand, "--kind", o.name, "--node", number,
		"--addresses", strings.Join(o.ports(0), ","), "--dir", directory,
		"--store-bytes", strconv.FormatUint(o.options.storeBytes(), 10),
		"--value-bytes", strconv.Itoa(o.options.ValueBytes)}
	switch o.name {
	case Engine, CatchUp, Flood:
		config := o.config(node)
		if !again {
			if err := o.initialise(node, directory, config); err != nil {
				return nil, err
			}
		}
		program = o.options.program("engine-raced")
		arguments = []string{"serve", "--config", config}
	case Etcd:
		program, arguments = o.options.program("cluster-bench-etcd"), []string{"-node", number,
			"-peers", strings.Join(o.ports(0), ","), "-clients", strings.Join(o.ports(1), ","),
			"-dir", directory}
	}
	return startProcess(group, o.log("node"+number), program, arguments...)
}

// awaitLeader waits until the cluster has a leader, and gives what leader gives.
func (o *opponent) awaitLeader() (*process, []string, error) {
	end := time.Now().Add(startTimeout)
	for {
		driver, addresses, err := o.leader()
		if err == nil {
			return driver, addresses, nil
		}
		for _, node := range o.nodes {
			if node.hasEnded() {
				return nil, nil, fmt.Errorf("a node has ended: %s", node.logEnd())
			}
		}
		if time.Now().After(end) {
			return nil, nil, fmt.Errorf("no leader in %v: %w", startTimeout, err)
		}
		pause()
	}
}

// leader gives the process that takes orders, and the addresses of the leader's clients if that
// process needs them.
func (o *opponent) leader() (*process, []string, error) {
	switch o.name {
	case Engine, CatchUp, Flood:
		addresses, err := o.engineLeaders()
		return o.driver, addresses, err
	case Etcd:
		state, err := o.driver.ask(load.Work{Kind: load.State})
		if err == nil && !state.Leads {
			err = errors.New(state.FirstError)
		}
		return o.driver, nil, err
	}
	for _, node := range o.nodes {
		state, err := node.ask(load.Work{Kind: load.State})
		if err != nil {
			return nil, nil, err
		}
		if state.Leads {
			return node, nil, nil
		}
	}
	return nil, nil, errors.New("no node leads")
}

// do works off an order at the leader.
func (o *opponent) do(work load.Work) (load.Figures, error) {
	driver, addresses, err := o.awaitLeader()
	if err != nil {
		return load.Figures{}, fmt.Errorf("%s: %w", o.name, err)
	}
	work.Addresses = addresses
	figures, err := driver.ask(work)
	if err != nil {
		return figures, fmt.Errorf("%s: %w", o.name, err)
	}
	return figures, nil
}

// cpuTime is what all its processes have used until now.
func (o *opponent) cpuTime() time.Duration {
	total := time.Duration(0)
	if o.driver != nil {
		total = o.driver.cpuTime()
	}
	for _, node := range o.nodes {
		total += node.cpuTime()
	}
	return total
}

// suspend stops the nodes until resume lets them go on. Raft counts ticks, so no time passes for
// nodes that are stopped.
func (o *opponent) suspend() error { return o.signal(syscall.SIGSTOP) }

func (o *opponent) resume() error {
	if err := o.signal(syscall.SIGCONT); err != nil {
		return err
	}
	_, _, err := o.awaitLeader()
	return err
}

func (o *opponent) signal(signal syscall.Signal) error {
	var failures []error
	for _, node := range o.nodes {
		failures = append(failures, node.signal(signal))
	}
	return errors.Join(failures...)
}

// stop ends all processes and deletes the data.
func (o *opponent) stop() {
	if o.driver != nil {
		o.driver.stop()
	}
	// All at once: a node that is alone may wait for the others.
	_ = o.signal(syscall.SIGCONT)
	for _, node := range o.nodes {
		_ = node.orders.Close()
		_ = node.signal(syscall.SIGTERM)
	}
	for _, node := range o.nodes {
		node.stop()
	}
	for _, group := range o.groups {
		_ = group.remove()
	}
	if !o.options.Keep {
		_ = os.RemoveAll(o.directory)
	}
}
