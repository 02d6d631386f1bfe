package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"engine_race/cluster/service"
)

// Validate checks the settings, but opens no file. Its error has a line for each problem, which
// names the setting.
func (c *Config) Validate() error {
	problems := c.checkNode()
	problems = append(problems, c.checkCluster()...)
	problems = append(problems, c.checkRanges()...)
	problems = append(problems, c.checkValueBytes())
	problems = append(problems, c.checkEngine()...)
	problems = append(problems, c.checkTLS()...)
	problems = append(problems, c.checkLog())
	_, err := c.parseUsers()
	problems = append(problems, err)
	if !c.AllowInsecure {
		problems = append(problems, c.insecurities()...)
	}
	return errors.Join(problems...)
}

// ValidateForInit checks what only the command init needs: a list of nodes that has this one.
func (c *Config) ValidateForInit() error {
	if len(c.Cluster.Nodes) == 0 {
		return errors.New("cluster.nodes: is empty, but init needs the initial nodes")
	}
	for _, node := range c.Cluster.Nodes {
		if node.ID == c.NodeID {
			return nil
		}
	}
	return fmt.Errorf("cluster.nodes: lists no node with node_id = %d; "+
		"a node that the list lacks uses join", c.NodeID)
}

// ValidateForJoin checks what only the command join needs: addresses that other nodes and clients
// can connect to.
func (c *Config) ValidateForJoin() error {
	self := c.Self()
	for _, named := range []namedAddress{{"raft_address", self.RaftAddress},
		{"client_address", self.ClientAddress}, {"admin_address", self.AdminAddress}} {
		if err := checkAddress(named.setting, named.address, true); err != nil {
			return fmt.Errorf("%w: list this node in cluster.nodes with such an address", err)
		}
	}
	return nil
}

// LogWarnings logs every refusal that the settings turned off.
func (c *Config) LogWarnings(logger *slog.Logger) {
	if c.AllowInsecure {
		logger.Warn("allow_insecure = true: the node accepts settings that it refuses by default")
		for _, problem := range c.insecurities() {
			logger.Warn("insecure setting accepted", "problem", problem.Error())
		}
	}
	if c.AllowPlainMetrics && c.MetricsAddress != "" && !loopback(c.MetricsAddress) {
		logger.Warn("allow_plain_metrics = true: metrics are served without TLS outside loopback",
			"metrics_address", c.MetricsAddress)
	}
}

type namedAddress struct{ setting, address string }

func (c *Config) addresses() []namedAddress {
	return []namedAddress{{"raft_address", c.RaftAddress}, {"client_address", c.ClientAddress},
		{"admin_address", c.AdminAddress}}
}

func (c *Config) checkNode() []error {
	var problems []error
	if c.NodeID == 0 {
		problems = append(problems, errors.New("node_id: must be set, and not to 0"))
	}
	if c.DataDir == "" {
		problems = append(problems, errors.New("data_dir: must be set"))
	}
	if c.BackupDir != "" && c.DataDir != "" && inside(c.DataDir, c.BackupDir) {
		problems = append(problems, errors.New("backup_dir: contains data_dir, "+
			"so a backup could be written over the node's data"))
	}
	listened := c.addresses()
	if c.MetricsAddress != "" {
		listened = append(listened, namedAddress{"metrics_address", c.MetricsAddress})
	}
	problems = append(problems, checkDistinct(listened)...)
	for _, named := range listened {
		mustDial := named.setting == "raft_address"
		problems = append(problems, checkAddress(named.setting, named.address, mustDial))
	}
	return problems
}

// inside says whether the path is the directory or lies below it.
func inside(path, directory string) bool {
	relative, err := filepath.Rel(directory, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, "../")
}

// checkAddress refuses what is no host:port. An address to dial needs a host that others can reach.
func checkAddress(setting, address string, mustDial bool) error {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %q is no address like 127.0.0.1:7001", setting, address)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%s: %q has no port from 1 to 65535", setting, address)
	}
	// An IPv6 address may have a zone, but a zone belongs to one machine.
	if _, err := netip.ParseAddr(host); strings.ContainsAny(host, " \t\r\n/@") ||
		strings.Contains(host, ":") && err != nil || mustDial && strings.Contains(host, "%") {
		return fmt.Errorf("%s: %q has no valid host", setting, address)
	}
	ip := net.ParseIP(host)
	if mustDial && (host == "" || (ip != nil && ip.IsUnspecified())) {
		return fmt.Errorf("%s: %q names no host; other nodes need one to connect to",
			setting, address)
	}
	return nil
}

func checkDistinct(addresses []namedAddress) []error {
	var problems []error
	first := make(map[string]string)
	for _, named := range addresses {
		if other, taken := first[named.address]; taken {
			problems = append(problems, fmt.Errorf("%s: %q is also the address of %s",
				named.setting, named.address, other))
			continue
		}
		first[named.address] = named.setting
	}
	return problems
}

func (c *Config) checkCluster() []error {
	var problems []error
	cluster := &c.Cluster
	if cluster.Name == "" {
		problems = append(problems, errors.New("cluster.name: must not be empty"))
	}
	if cluster.Shards < 1 || cluster.Shards > 1024 {
		problems = append(problems, fmt.Errorf("cluster.shards: %d is not from 1 to 1024",
			cluster.Shards))
	}
	if cluster.Replicas < 1 || cluster.Replicas > 7 || cluster.Replicas%2 == 0 {
		problems = append(problems, fmt.Errorf("cluster.replicas: %d is not 1, 3, 5 or 7",
			cluster.Replicas))
	}
	if len(cluster.Nodes) == 0 {
		return problems
	}
	if cluster.Replicas > len(cluster.Nodes) {
		problems = append(problems, fmt.Errorf("cluster.replicas: %d replicas need as many nodes, "+
			"but cluster.nodes has %d", cluster.Replicas, len(cluster.Nodes)))
	}
	return append(problems, c.checkNodeList()...)
}

func (c *Config) checkNodeList() []error {
	var problems []error
	seen := make(map[uint64]bool)
	var all []namedAddress
	for i, node := range c.Cluster.Nodes {
		if node.ID == 0 {
			problems = append(problems, fmt.Errorf("cluster.nodes[%d].id: must not be 0", i))
		} else if seen[node.ID] {
			problems = append(problems, fmt.Errorf("cluster.nodes[%d].id: %d is listed twice",
				i, node.ID))
		}
		seen[node.ID] = true
		for _, named := range addressesOf(i, node) {
			problems = append(problems, checkAddress(named.setting, named.address, true))
			all = append(all, named)
		}
		if node.ID == c.NodeID && node.RaftAddress != c.RaftAddress {
			problems = append(problems, fmt.Errorf("cluster.nodes[%d].raft: is %q, but "+
				"raft_address of this node is %q", i, node.RaftAddress, c.RaftAddress))
		}
		// Others call the address of the list. One that listens on all addresses has another there.
		if node.ID == c.NodeID && node.AdminAddress != c.AdminAddress &&
			checkAddress("", c.AdminAddress, true) == nil {
			problems = append(problems, fmt.Errorf("cluster.nodes[%d].admin: is %q, but "+
				"admin_address of this node is %q", i, node.AdminAddress, c.AdminAddress))
		}
	}
	return append(problems, checkDistinct(all)...)
}

func addressesOf(index int, node service.NodeInfo) []namedAddress {
	prefix := fmt.Sprintf("cluster.nodes[%d].", index)
	return []namedAddress{{prefix + "raft", node.RaftAddress},
		{prefix + "client", node.ClientAddress}, {prefix + "admin", node.AdminAddress}}
}

// leastCatchUp lets eight snapshots at a time, in pieces of 2 MiB, go on within 900 ticks.
const leastCatchUp = 2 << 20

func (c *Config) checkRanges() []error {
	const hourMs = 3_600_000
	raft, limits := &c.Raft, &c.Limits
	ranges := []struct {
		setting             string
		value, lower, upper uint64
	}{
		{"raft.rtt_ms", raft.RTTMs, 1, 10_000},
		{"raft.election_rtt", raft.ElectionRTT, 3, 1000},
		{"raft.heartbeat_rtt", raft.HeartbeatRTT, 1, 100},
		{"raft.log_bytes", raft.LogBytes, 1 << 20, 1 << 40},
		{"raft.catch_up_bytes_per_s", uint64(raft.CatchUpBytesPerS), 0, 1 << 40},
		{"raft.exec_shards", raft.ExecShards, 1, 64},
		{"raft.sync_interval_ms", raft.SyncIntervalMs, 100, hourMs},
		{"raft.log_memory_bytes", raft.LogMemoryBytes, 1 << 20, 1 << 40},
		{"limits.max_clients", uint64(limits.MaxClients), 1, 1_000_000},
		{"limits.max_client_bytes_in_flight", uint64(limits.MaxClientBytesInFlight), 64 << 10,
			1 << 40},
		{"limits.max_bytes_in_flight", uint64(limits.MaxBytesInFlight), 64 << 10, 1 << 40},
		{"limits.memory_bytes", uint64(limits.MemoryBytes), 64 << 20, 1 << 44},
		{"limits.request_timeout_ms", uint64(limits.RequestTimeoutMs), 10, hourMs},
		{"limits.idle_timeout_ms", uint64(limits.IdleTimeoutMs), 0, 24 * hourMs},
		{"limits.drain_timeout_ms", uint64(limits.DrainTimeoutMs), 0, hourMs},
		{"limits.admin_timeout_ms", uint64(limits.AdminTimeoutMs), 100, hourMs},
		{"limits.compare_interval_s", uint64(limits.CompareIntervalS), 0, 365 * 24 * 3600},
		{"limits.compare_bytes_per_second", uint64(limits.CompareBytesPerSecond), 64 << 10, 1 << 40},
		{"limits.backup_timeout_s", uint64(limits.BackupTimeoutS), 1, 7 * 24 * 3600},
	}
	var problems []error
	for _, r := range ranges {
		// A negative number became one that is greater than every upper bound.
		if r.value < r.lower || r.value > r.upper {
			problems = append(problems, fmt.Errorf("%s: %d is not from %d to %d", r.setting,
				int64(r.value), r.lower, r.upper))
		}
	}
	if rate := raft.CatchUpBytesPerS; rate > 0 && rate < leastCatchUp {
		problems = append(problems, fmt.Errorf("raft.catch_up_bytes_per_s: %d is neither 0 nor %d or "+
			"more: the pieces of a snapshot would come so slowly that it is given up", rate, leastCatchUp))
	}
	if raft.ElectionRTT <= 2*raft.HeartbeatRTT {
		problems = append(problems, fmt.Errorf("raft.election_rtt: %d must be more than twice "+
			"raft.heartbeat_rtt, which is %d", raft.ElectionRTT, raft.HeartbeatRTT))
	}
	if limits.MaxClientBytesInFlight > limits.MaxBytesInFlight {
		problems = append(problems, fmt.Errorf("limits.max_client_bytes_in_flight: %d is more "+
			"than limits.max_bytes_in_flight, which is %d", limits.MaxClientBytesInFlight,
			limits.MaxBytesInFlight))
	}
	return problems
}

// setBytes is what a SET has beside its value, rounded up.
const setBytes = 256

// logValues is how many values the entries of a shard in memory must have room for: those of all
// proposals under way.
const logValues = 4

// MostValueBytes is the largest size of values that the limits allow. A SET may not be longer than
// commands may be, and proposals must fit the memory for entries.
func (c *Config) MostValueBytes() int {
	return int(min(service.MaxValueBytes, c.Limits.MaxClientBytesInFlight-setBytes,
		int64(c.Raft.LogMemoryBytes/logValues)-setBytes))
}

func (c *Config) checkValueBytes() error {
	size, most := c.Cluster.SizeOfValues(), c.MostValueBytes()
	if size >= service.MinValueBytes && size <= most {
		return nil
	}
	return fmt.Errorf("cluster.value_bytes: %d is not from %d to %d, the largest size that "+
		"limits.max_client_bytes_in_flight and raft.log_memory_bytes leave room for", size,
		service.MinValueBytes, most)
}

// ownOptions are options of the engine that the node sets itself, with the reason.
func ownOptions() map[string]string {
	return map[string]string{
		"key_range":           "each store has the range of its shard",
		"read_only":           "a node writes what it is sent",
		"create_if_missing":   "a store that is lost must not begin anew as an empty one",
		"paths":               "stores of several shards cannot share them",
		"create_among_files":  "stores lie in directories of their own",
		"value_bytes":         "cluster.value_bytes is that of all stores",
		"memory_budget_bytes": "limits.memory_bytes is what all stores share",
	}
}

func (c *Config) checkEngine() []error {
	var problems []error
	own := ownOptions()
	for _, name := range slices.Sorted(maps.Keys(c.Engine)) {
		if reason, taken := own[name]; taken {
			problems = append(problems, fmt.Errorf("engine.%s: the node sets it itself: %s", name,
				reason))
		}
	}
	return problems
}

func (c *Config) checkTLS() []error {
	var problems []error
	t := &c.TLS
	peer := []string{t.PeerCA, t.PeerCert, t.PeerKey}
	if countSet(peer) != 0 && countSet(peer) != len(peer) {
		problems = append(problems, errors.New("tls.peer_ca, tls.peer_cert, tls.peer_key: "+
			"set all of them or none"))
	}
	if (t.ClientCert == "") != (t.ClientKey == "") {
		problems = append(problems, errors.New("tls.client_cert, tls.client_key: "+
			"set both of them or none"))
	}
	if t.ClientCA != "" && t.ClientCert == "" {
		problems = append(problems, errors.New("tls.client_ca: needs tls.client_cert and "+
			"tls.client_key"))
	}
	return problems
}

func countSet(texts []string) int {
	count := 0
	for _, text := range texts {
		if text != "" {
			count++
		}
	}
	return count
}
