// Package config reads the settings of one node: a TOML file, and flags that override it.
//
// Purpose: one validated value, Config, which every other package takes its settings from. The
// package also loads the certificates, the passwords and the log handler that the settings name.
//
// Thread safety: a Config may be read by any number of goroutines once Load has returned it. The
// TLS configurations that it gives may be used by any number of goroutines.
//
// Ownership: the caller owns the Config. The package keeps no state and starts no goroutine.
package config

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"engine_race/cluster/service"
)

// Config has the settings of one node. Default gives the values of settings that are not given.
type Config struct {
	// NodeID numbers the node within the cluster. It is not 0 and is never used again.
	NodeID uint64 `toml:"node_id"`
	// DataDir holds the node's stores and logs. Load makes it absolute.
	DataDir string `toml:"data_dir"`
	// RaftAddress is where other nodes reach this one, as host:port.
	RaftAddress string `toml:"raft_address"`
	// ClientAddress is where the node listens for RESP clients, as host:port.
	ClientAddress string `toml:"client_address"`
	// AdminAddress is where the node serves operators and other nodes over HTTP, as host:port.
	AdminAddress string `toml:"admin_address"`
	// MetricsAddress serves health and metrics without TLS, as host:port. Empty: nowhere.
	MetricsAddress string `toml:"metrics_address"`
	// BackupDir is the directory that backups are written below and restored from. Empty: the
	// node refuses backups and restores. Load makes it absolute.
	BackupDir string `toml:"backup_dir"`
	// SecretFile has the secret that nodes and operators show each other. Empty: with peer TLS
	// none, otherwise a file in the configuration directory of the node's user. Load makes it
	// absolute.
	SecretFile string `toml:"secret_file"`
	// AllowInsecure turns the refusals of Validate that concern security into warnings.
	AllowInsecure bool `toml:"allow_insecure"`
	// AllowPlainMetrics permits a MetricsAddress outside loopback.
	AllowPlainMetrics bool `toml:"allow_plain_metrics"`

	Cluster Cluster       `toml:"cluster"`
	Raft    Raft          `toml:"raft"`
	Engine  EngineOptions `toml:"engine"`
	Limits  Limits        `toml:"limits"`
	TLS     TLS           `toml:"tls"`
	Auth    Auth          `toml:"auth"`
	Log     Log           `toml:"log"`
}

// Cluster describes the first cluster, which the command init makes. The command serve takes the
// node's own addresses from it, and divides Limits.MemoryBytes by its counts.
type Cluster struct {
	Name string `toml:"name"`
	// Shards is the count of ranges of the key space, 1 to 1024.
	Shards int `toml:"shards"`
	// Replicas is the count of replicas of each shard: odd, 1 to 7, at most one a node.
	Replicas int `toml:"replicas"`
	// ValueBytes is the size of all values: 8 to 1 MiB, and what MostValueBytes allows. It never
	// changes. 0 names none: see SizeOfValues.
	ValueBytes int `toml:"value_bytes"`
	// Nodes lists the initial nodes.
	Nodes []service.NodeInfo `toml:"nodes"`
}

// SizeOfValues is the size that init takes, and the one that limits are checked with as long as the
// cluster's is not known.
func (c *Cluster) SizeOfValues() int { return cmp.Or(c.ValueBytes, service.DefaultValueBytes) }

// Raft has the settings of consensus. One tick lasts RTTMs.
type Raft struct {
	RTTMs        uint64 `toml:"rtt_ms"`
	ElectionRTT  uint64 `toml:"election_rtt"`
	HeartbeatRTT uint64 `toml:"heartbeat_rtt"`
	// LogBytes is how long a shard's log gets before it is shortened to a quarter.
	LogBytes uint64 `toml:"log_bytes"`
	// CatchUpBytesPerS bounds what the node sends to replicas that are behind: of logs, beside twice
	// of what is written meanwhile, and of snapshots. At least 2 MiB; 0: no bound.
	CatchUpBytesPerS int64 `toml:"catch_up_bytes_per_s"`
	// SpreadReplicas: replicas move from nodes with more of them than others, while no node is down
	// and no replica is behind. The setting of the node that leads the directory counts.
	SpreadReplicas bool `toml:"spread_replicas"`
	// SpreadLeaders: nodes that lead more shards than others hand some over.
	SpreadLeaders bool `toml:"spread_leaders"`
	// LogMemoryBytes bounds the entries of one shard that are kept in memory.
	LogMemoryBytes uint64 `toml:"log_memory_bytes"`
	// ExecShards is how many threads write logs. It cannot change once a node was started.
	ExecShards uint64 `toml:"exec_shards"`
	// SyncIntervalMs is how often stores are made durable. A restart repeats what came later.
	SyncIntervalMs uint64 `toml:"sync_interval_ms"`
}

// Limits bounds the resources that clients and operators can take.
type Limits struct {
	MaxClients             int   `toml:"max_clients"`
	MaxClientBytesInFlight int64 `toml:"max_client_bytes_in_flight"`
	MaxBytesInFlight       int64 `toml:"max_bytes_in_flight"`
	// MemoryBytes is what the stores of the node may take together.
	MemoryBytes      int64 `toml:"memory_bytes"`
	RequestTimeoutMs int64 `toml:"request_timeout_ms"`
	// IdleTimeoutMs: a client that sends nothing for so long is disconnected. 0: never.
	IdleTimeoutMs int64 `toml:"idle_timeout_ms"`
	// DrainTimeoutMs bounds how long a stopping node waits for the requests under way.
	DrainTimeoutMs int64 `toml:"drain_timeout_ms"`
	// AdminTimeoutMs bounds a call of an operator, except for backups and restores.
	AdminTimeoutMs int64 `toml:"admin_timeout_ms"`
	// BackupTimeoutS bounds a backup or a restore, in seconds.
	BackupTimeoutS int64 `toml:"backup_timeout_s"`
	// CompareIntervalS is how often the replicas of each shard are compared, in seconds. 0: never.
	CompareIntervalS int64 `toml:"compare_interval_s"`
	// CompareBytesPerSecond is how fast each replica is read for a comparison. A record counts for
	// service.LeastWorkBytes at least.
	CompareBytesPerSecond int64 `toml:"compare_bytes_per_second"`
}

// TLS names files in PEM format. They are read again when they change.
type TLS struct {
	PeerCA   string `toml:"peer_ca"`
	PeerCert string `toml:"peer_cert"`
	PeerKey  string `toml:"peer_key"`

	ClientCert string `toml:"client_cert"`
	ClientKey  string `toml:"client_key"`
	// ClientCA: clients need a certificate of this authority. Empty: they need none.
	ClientCA string `toml:"client_ca"`
}

// Auth says which passwords clients may use. Without any, clients need none.
type Auth struct {
	// Users has "sha256:<hex>" by user name.
	Users map[string]string `toml:"users"`
	// PasswordFile names a file with lines "user:sha256:<hex>".
	PasswordFile string `toml:"password_file"`
}

// Log says which messages the node writes to the standard error stream, and how.
type Log struct {
	Level  string `toml:"level"`  // debug, info, warn or error
	Format string `toml:"format"` // json or text
}

// EngineOptions has options of the engine's C API: texts by option name.
type EngineOptions map[string]string

// UnmarshalTOML takes texts, numbers and booleans, which it keeps as texts.
func (e *EngineOptions) UnmarshalTOML(value any) error {
	table, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("engine: must be a table, not %T", value)
	}
	options := make(EngineOptions, len(table))
	for name, option := range table {
		switch typed := option.(type) {
		case string:
			options[name] = typed
		case int64:
			options[name] = strconv.FormatInt(typed, 10)
		case float64:
			options[name] = strconv.FormatFloat(typed, 'g', -1, 64)
		case bool:
			options[name] = strconv.FormatBool(typed)
		default:
			return fmt.Errorf("engine.%s: must be a text, a number or a boolean", name)
		}
	}
	*e = options
	return nil
}

// Default returns the settings of a node whose file is empty. They lack a NodeID.
func Default() *Config {
	return &Config{
		DataDir:       "/var/lib/engine-raced",
		RaftAddress:   "127.0.0.1:7101",
		ClientAddress: "127.0.0.1:7001",
		AdminAddress:  "127.0.0.1:7201",
		Cluster:       Cluster{Name: "engine-race", Shards: 4, Replicas: 3},
		Raft: Raft{RTTMs: 20, ElectionRTT: 10, HeartbeatRTT: 2, LogBytes: 1 << 30,
			LogMemoryBytes: 256 << 20, ExecShards: 1, CatchUpBytesPerS: 32 << 20,
			SpreadReplicas: true, SpreadLeaders: true, SyncIntervalMs: 5000},
		Engine: EngineOptions{},
		Limits: Limits{MaxClients: 10_000, MaxClientBytesInFlight: 16 << 20,
			MaxBytesInFlight: 256 << 20, MemoryBytes: 1 << 30, RequestTimeoutMs: 2000,
			DrainTimeoutMs: 3000, AdminTimeoutMs: 30_000, BackupTimeoutS: 3600,
			CompareIntervalS: 24 * 3600, CompareBytesPerSecond: 16 << 20},
		Auth: Auth{Users: map[string]string{}},
		Log:  Log{Level: "info", Format: "json"},
	}
}

// Self describes this node to others: as cluster.nodes lists it, or else by its own addresses.
func (c *Config) Self() service.NodeInfo {
	for _, node := range c.Cluster.Nodes {
		if node.ID == c.NodeID {
			return node
		}
	}
	return service.NodeInfo{ID: c.NodeID, RaftAddress: c.RaftAddress,
		ClientAddress: c.ClientAddress, AdminAddress: c.AdminAddress}
}

// Hosts gives the names of hosts in the addresses of the node, in lower case.
func (c *Config) Hosts() []string {
	self := c.Self()
	var hosts []string
	for _, address := range []string{c.AdminAddress, c.MetricsAddress, self.AdminAddress} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			hosts = append(hosts, strings.TrimSuffix(strings.ToLower(host), "."))
		}
	}
	return hosts
}

// HasPeerTLS says whether the nodes of the cluster talk with mutual TLS.
func (c *Config) HasPeerTLS() bool { return c.TLS.PeerCA != "" }

// HasClientTLS says whether clients talk with TLS.
func (c *Config) HasClientTLS() bool { return c.TLS.ClientCert != "" }

// RequestTimeout bounds one request of a client.
func (l Limits) RequestTimeout() time.Duration { return milliseconds(l.RequestTimeoutMs) }

// IdleTimeout is 0 if idle clients stay connected.
func (l Limits) IdleTimeout() time.Duration { return milliseconds(l.IdleTimeoutMs) }

// DrainTimeout bounds the wait for requests under way when the node stops.
func (l Limits) DrainTimeout() time.Duration { return milliseconds(l.DrainTimeoutMs) }

// AdminTimeout bounds a call of an operator.
func (l Limits) AdminTimeout() time.Duration { return milliseconds(l.AdminTimeoutMs) }

// CompareInterval is 0 if replicas are not compared in the background.
func (l Limits) CompareInterval() time.Duration {
	return time.Duration(l.CompareIntervalS) * time.Second
}

// BackupTimeout bounds a backup or a restore.
func (l Limits) BackupTimeout() time.Duration {
	return time.Duration(l.BackupTimeoutS) * time.Second
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// loopback says whether only processes of this machine can reach the address. A host name other
// than localhost counts as outside loopback: its addresses can change.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
