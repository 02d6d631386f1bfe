// Package netns gives each node of a cluster a network namespace, with a veth pair into a bridge
// that belongs to the caller's own namespace. It cuts links in either direction and slows nodes
// down. It needs root and iproute2, and no firewall.
//
// A cut makes the sender resolve the receiver's address to a hardware address that nobody has. So
// packets vanish without any error, in one direction, and connections stay open, as they do when a
// switch fails. A Net's methods may be called from any goroutine. The Net owns its namespaces and
// its bridge until Close. New removes those of runs that have died.
package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Clients is the number that Cut takes for the caller's own side, where clients run.
const Clients = 0

const (
	prefix      = "erc" // of all names; the kernel allows 15 bytes for a name
	maxNetworks = 250
	maxNodes    = 200
	lockPath    = "/run/engine-raced-check.lock"
	nowhere     = "02:00:00:00:00:fe" // a hardware address that no interface has
)

// Net is the network of one run.
type Net struct {
	number int // of the run: addresses are 10.77.number.node
	nodes  int

	mu   sync.Mutex
	cuts map[[2]int]bool // [from, to]
	slow map[int]bool
}

// New makes a network. It fails for users other than root.
func New(nodes int) (*Net, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces need root: run the check as root, or without " +
			"faults of the network")
	}
	if nodes < 1 || nodes > maxNodes {
		return nil, fmt.Errorf("%d nodes, not 1 to %d", nodes, maxNodes)
	}
	if err := removeDead(); err != nil {
		return nil, err
	}
	n := &Net{nodes: nodes, cuts: map[[2]int]bool{}, slow: map[int]bool{}}
	if err := n.makeBridge(); err != nil {
		return nil, err
	}
	for node := 1; node <= nodes; node++ {
		if err := n.makeNode(node); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// makeBridge takes the first number that no run has. The bridge's alias names the owner.
func (n *Net) makeBridge() error {
	var err error
	for i := range maxNetworks {
		n.number = 1 + (os.Getpid()+i)%maxNetworks
		if err = ip("link", "add", n.bridge(), "type", "bridge"); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	start, err := startTime(os.Getpid())
	if err == nil {
		err = ip("link", "set", n.bridge(), "alias", fmt.Sprintf("%d %s", os.Getpid(), start))
	}
	if err == nil {
		err = ip("addr", "add", n.Host(254)+"/24", "dev", n.bridge())
	}
	if err == nil {
		err = ip("link", "set", n.bridge(), "up")
	}
	if err != nil {
		return errors.Join(err, n.Close())
	}
	return nil
}

func (n *Net) makeNode(node int) error {
	name, outside := n.namespace(node), n.outside(node)
	for _, args := range [][]string{
		{"netns", "add", name},
		{"link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name},
		{"link", "set", outside, "master", n.bridge(), "up"},
		{"-n", name, "addr", "add", n.Host(node) + "/24", "dev", "eth0"},
		{"-n", name, "link", "set", "eth0", "up"},
		{"-n", name, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) bridge() string            { return prefix + strconv.Itoa(n.number) }
func (n *Net) namespace(node int) string { return fmt.Sprintf("%s%dn%d", prefix, n.number, node) }
func (n *Net) outside(node int) string   { return fmt.Sprintf("%s%dv%d", prefix, n.number, node) }

// Host gives the address of a node.
func (n *Net) Host(node int) string {
	if node == Clients {
		node = 254
	}
	return fmt.Sprintf("10.77.%d.%d", n.number, node)
}

// Command wraps a command line so that it runs in the node's namespace, with the same process id.
func (n *Net) Command(node int, argv []string) []string {
	return append([]string{"ip", "netns", "exec", n.namespace(node)}, argv...)
}

// Cut lets no packet of `from` reach `to` any more. Either may be Clients.
func (n *Net) Cut(from, to int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := ip(n.neighbour(from, "replace", n.Host(to), "lladdr", nowhere, "nud", "permanent")...)
	if err == nil {
		n.cuts[[2]int{from, to}] = true
	}
	return err
}

// CutBoth cuts both directions.
func (n *Net) CutBoth(a, b int) error { return errors.Join(n.Cut(a, b), n.Cut(b, a)) }

// neighbour gives the arguments that change an entry of the sender's neighbour table.
func (n *Net) neighbour(from int, args ...string) []string {
	args = append([]string{"neigh"}, args...)
	if from == Clients {
		return append(args, "dev", n.bridge())
	}
	return append(append([]string{"-n", n.namespace(from)}, args...), "dev", "eth0")
}

// Slow limits what the node sends and what it receives, to kilobits a second.
func (n *Net) Slow(node, kilobits int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[node] = true
	limit := []string{"root", "tbf", "rate", strconv.Itoa(kilobits) + "kbit", "burst", "32kb",
		"latency", "400ms"}
	return errors.Join(
		run("tc", append([]string{"qdisc", "replace", "dev", n.outside(node)}, limit...)...),
		run("tc", append([]string{"-n", n.namespace(node), "qdisc", "replace", "dev", "eth0"},
			limit...)...))
}

// Heal undoes all cuts and limits.
func (n *Net) Heal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var failures []error
	for cut := range n.cuts {
		err := ip(n.neighbour(cut[0], "del", n.Host(cut[1]))...)
		if err == nil {
			delete(n.cuts, cut)
		}
		failures = append(failures, err)
	}
	for node := range n.slow {
		err := errors.Join(
			run("tc", "qdisc", "del", "dev", n.outside(node), "root"),
			run("tc", "-n", n.namespace(node), "qdisc", "del", "dev", "eth0", "root"))
		if err == nil {
			delete(n.slow, node)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// Close removes the network. Nodes must have ended.
func (n *Net) Close() error { return remove(n.number) }

// link is what `ip -json link show` tells.
type link struct {
	Name  string `json:"ifname"`
	Alias string `json:"ifalias"`
}

// removeDead removes the networks of processes that do not exist any more. One process does so at a
// time: two would delete the same links.
func removeDead() error {
	lock, err := os.OpenFile(lockPath, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lockPath, err)
	}
	text, err := exec.Command("ip", "-json", "link", "show", "type", "bridge").Output()
	if err != nil {
		return fmt.Errorf("ip link show: %w", err)
	}
	var links []link
	if len(text) > 0 {
		if err := json.Unmarshal(text, &links); err != nil {
			return fmt.Errorf("ip link show: %w", err)
		}
	}
	var failures []error
	for _, found := range links {
		number, err := strconv.Atoi(strings.TrimPrefix(found.Name, prefix))
		var pid int
		var start string
		if _, scanErr := fmt.Sscan(found.Alias, &pid, &start); scanErr != nil || err != nil {
			continue // not ours, or being made right now
		}
		if now, err := startTime(pid); err != nil || now != start {
			failures = append(failures, remove(number))
		}
	}
	return errors.Join(failures...)
}

// remove deletes the namespaces of a network, and the bridge last: it shows that they are there.
func remove(number int) error {
	n := &Net{number: number}
	listed, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var failures []error
	for _, entry := range listed {
		if strings.HasPrefix(entry.Name(), n.bridge()+"n") {
			failures = append(failures, ip("netns", "del", entry.Name()))
		}
	}
	links, err := os.ReadDir("/sys/class/net")
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	for _, entry := range links {
		if strings.HasPrefix(entry.Name(), n.bridge()+"v") {
			// The kernel deletes it with the namespace, soon: so a failure tells nothing.
			_ = ip("link", "del", entry.Name())
		}
	}
	return errors.Join(append(failures, ip("link", "del", n.bridge()))...)
}

// startTime tells processes with the same id apart.
func startTime(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields[19], nil
}

func ip(args ...string) error { return run("ip", args...) }

func run(name string, args ...string) error {
	output, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, output)
	}
	return nil
}
