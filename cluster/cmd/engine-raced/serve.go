package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"engine_race/cluster/admin"
	"engine_race/cluster/config"
	"engine_race/cluster/node"
	"engine_race/cluster/replica"
	"engine_race/cluster/resp"
)

// runNode runs init, join, unsafe-recover or serve. The exit code is 0 after a clean end.
func runNode(command string, arguments []string, errorsOut io.Writer) (exitCode int) {
	flags := flag.NewFlagSet("engine-raced "+command, flag.ContinueOnError)
	flags.SetOutput(errorsOut)
	path := flags.String("config", "", "the configuration file")
	own := setUpFlags{command: command}
	own.register(flags)
	overrides := config.AddFlags(flags, arguments)
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		return exitUsage // The flags have told why.
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	default:
		err = own.check()
	}
	if err != nil {
		fmt.Fprintf(errorsOut, "engine-raced %s: %v\n", command, err)
		return exitUsage
	}
	c, err := config.Load(*path, overrides)
	if err == nil && command == "init" {
		err = c.ValidateForInit()
	}
	if err == nil && command == "join" {
		err = c.ValidateForJoin()
	}
	if err == nil {
		err = limitsOf(c).Validate()
	}
	if err == nil {
		err = checkStores(c)
	}
	shown := "" // to other nodes, and by them
	if err == nil {
		if err = c.MakeSecret(); err == nil {
			shown, err = c.Secret()
		}
	}
	if err != nil {
		fmt.Fprintln(errorsOut, "engine-raced:", err)
		return exitConfig
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := c.NewLogger(errorsOut)
	slog.SetDefault(logger)
	c.LogWarnings(logger)
	if command == "serve" {
		err = serve(ctx, c, shown, logger)
	} else {
		err = own.run(ctx, c, shown, logger)
	}
	if err != nil {
		logger.Error("cannot "+command, "error", err)
		if errors.Is(err, node.ErrSettings) || errors.Is(err, errSize) {
			return exitConfig
		}
		return exitFailed
	}
	return exitDone
}

// storeCount is how many stores share the memory that the node may take.
func storeCount(c *config.Config) int {
	return max(1, c.Cluster.Shards*c.Cluster.Replicas/max(1, len(c.Cluster.Nodes)))
}

func storeOptions(c *config.Config) map[string]string {
	// Half of the records may be dead: moves of live ones slow three replicas down at once.
	options := map[string]string{"bucket_count": "16", "file_count": "4",
		"reclaim_dead_percent": "50"}
	memory := c.Limits.MemoryBytes / int64(storeCount(c))
	options["memory_budget_bytes"] = strconv.FormatInt(memory, 10)
	maps.Copy(options, c.Engine)
	return options
}

// checkStores fails if no store can be opened as configured: dragonboat would end the process.
func checkStores(c *config.Config) error {
	if err := replica.CheckOptions(storeOptions(c), c.Cluster.SizeOfValues()); err != nil {
		return fmt.Errorf("[engine], or limits.memory_bytes, which %d stores share: %w", storeCount(c),
			err)
	}
	return nil
}

// errSize: the node cannot serve the size of the cluster's values.
var errSize = errors.New("configuration refused")

// checkSize checks the settings with the size of the cluster's values. Those that name this size
// were checked when they were loaded.
func checkSize(c *config.Config, valueBytes int) error {
	if valueBytes == c.Cluster.SizeOfValues() {
		return nil
	}
	sized := *c
	sized.Cluster.ValueBytes = valueBytes
	err := sized.Validate()
	if err == nil {
		err = checkStores(&sized)
	}
	if err != nil {
		return fmt.Errorf("%w: this cluster has values of %d bytes: %w", errSize, valueBytes, err)
	}
	return nil
}

// nodeConfig gives the settings of package node.
func nodeConfig(c *config.Config, server *tls.Config, client func() *tls.Config, shown string,
	logger *slog.Logger) node.Config {
	scheme := "http"
	if client != nil {
		scheme = "https"
	}
	return node.Config{
		Expected:  expectedOf(c),
		CheckSize: func(valueBytes int) error { return checkSize(c, valueBytes) },
		Directory: c.DataDir, Info: c.Self(),
		TickMs: c.Raft.RTTMs, ElectionTicks: c.Raft.ElectionRTT,
		HeartbeatTicks: c.Raft.HeartbeatRTT,
		LogMemoryBytes: c.Raft.LogMemoryBytes, LogBytes: c.Raft.LogBytes,
		CatchUpBytesPerS: c.Raft.CatchUpBytesPerS,
		SpreadReplicas:   c.Raft.SpreadReplicas, SpreadLeaders: c.Raft.SpreadLeaders,
		ExecShards:            c.Raft.ExecShards,
		SyncInterval:          time.Duration(c.Raft.SyncIntervalMs) * time.Millisecond,
		CompareInterval:       c.Limits.CompareInterval(),
		CompareBytesPerSecond: c.Limits.CompareBytesPerSecond,
		Engine:                storeOptions(c),
		PeerServer:            server, PeerClient: client, Secret: shown,
		Client: node.NewClient(client, shown), Scheme: scheme, Logger: logger,
	}
}

// serve runs the node until ctx ends. Then it drains: it stops being ready, hands leadership over,
// and lets requests that are under way end.
func serve(ctx context.Context, c *config.Config, shown string,
	logger *slog.Logger) error {
	survive(logger)
	node.LogTo(logger)
	raiseFileLimit(c, logger)
	peerServer, peerClient, err := c.PeerTLS()
	if err != nil {
		return err
	}
	clients, err := c.ClientTLS()
	if err != nil {
		return err
	}
	expiries, err := c.CertificateExpiries()
	if err != nil {
		return err
	}
	users, err := c.Users()
	if err != nil {
		return err
	}
	limitMemory(c)
	configured := nodeConfig(c, peerServer, peerClient, shown, logger)
	configured.Budget = limitsOf(c).Budget()
	n, err := node.Open(configured)
	if err != nil {
		return err
	}
	defer n.Close()
	registry := prometheus.NewRegistry()
	latencies := newLatencies(registry)
	server, err := resp.New(resp.Options{Service: n, Limits: limitsOf(c),
		Budget: configured.Budget, TLS: clients, Users: users, Logger: logger,
		Observer: latencies.observe})
	if err != nil {
		return err
	}
	defer server.Close()
	operators, err := admin.New(admin.Options{Address: c.AdminAddress,
		MetricsAddress: c.MetricsAddress, TLS: peerServer, Secret: shown, Hosts: c.Hosts(),
		Control: n, Registry: registry,
		Sources: []admin.Source{countersOf(server), comparisonsOf(n),
			nodeMetrics(c.DataDir, n.ValueBytes()), expiriesOf(expiries)},
		Gatherer:  storesGatherer(n.StoreMetrics),
		BackupDir: c.BackupDir, Logger: logger,
		Timeout: c.Limits.AdminTimeout(), BackupTimeout: c.Limits.BackupTimeout()})
	if err != nil {
		return err
	}
	for path, handler := range n.Handlers() {
		operators.Handle(path, handler)
	}
	listener, err := net.Listen("tcp", c.ClientAddress)
	if err != nil {
		return err
	}
	if err := operators.Start(); err != nil {
		return errors.Join(err, listener.Close())
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	logger.Info("serving", "clients", c.ClientAddress, "admin", operators.Address(),
		"raft", c.RaftAddress)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	drain(c, logger, n, server, operators)
	return err
}

// memoryBeside is what the Go runtime takes beside the bytes in flight: its own structures, stacks,
// and the buffers of connections that are idle.
const memoryBeside = 32 << 20

// limitMemory lets the collector run early rather than let garbage be as much as what is in use.
// GOMEMLIMIT has precedence.
func limitMemory(c *config.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(c.Limits.MaxBytesInFlight + memoryBeside)
	}
}

// drain takes at most the drain time-out, and two seconds each for clients' connections that are
// left and for calls of nodes.
func drain(c *config.Config, logger *slog.Logger, n *node.Node, server *resp.Server,
	operators *admin.Server) {
	logger.Info("draining")
	ctx, cancel := context.WithTimeout(context.Background(), c.Limits.DrainTimeout())
	defer cancel()
	// Clients need the rest of the time.
	leaders, cancelLeaders := context.WithTimeout(ctx, c.Limits.DrainTimeout()/2)
	defer cancelLeaders()
	n.Drain(leaders)
	if err := server.Shutdown(ctx); err != nil {
		logger.Warn("clients were disconnected", "error", err)
	}
	if err := operators.Shutdown(ctx); err != nil {
		logger.Warn("calls of operators and nodes were ended", "error", err)
	}
}

func limitsOf(c *config.Config) resp.Limits {
	limits := resp.Limits{Clients: c.Limits.MaxClients,
		CommandBytes:  int(c.Limits.MaxClientBytesInFlight),
		BytesInFlight: c.Limits.MaxBytesInFlight, IdleTimeout: c.Limits.IdleTimeout(),
		RequestTimeout: c.Limits.RequestTimeout()}
	if limits.IdleTimeout == 0 {
		limits.IdleTimeout = -1
	}
	return limits
}
