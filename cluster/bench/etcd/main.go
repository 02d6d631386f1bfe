// Command cluster-bench-etcd has both ends of the bench's opponent etcd: a server, and a driver
// with the clients. It is a module of its own, because etcd needs a hundred others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"engine_race/cluster/bench/etcd/load"
)

const startTimeout = 60 * time.Second

// Settings of raft as the other opponents have them.
const (
	heartbeatMs = 20
	electionMs  = 200
	// quotaBytes is above all that a bench writes: etcd keeps old revisions until it compacts.
	quotaBytes = 32 << 30
)

func main() {
	node := flag.Int("node", 0, "be the server with this number, from 1")
	peers := flag.String("peers", "", "peers' addresses, separated by commas")
	clients := flag.String("clients", "", "clients' addresses, separated by commas")
	directory := flag.String("dir", "", "the server's data")
	flag.Parse()
	err := run(*node, strings.Split(*peers, ","), strings.Split(*clients, ","), *directory)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster-bench-etcd:", err)
		os.Exit(1)
	}
}

func run(node int, peers, clients []string, directory string) error {
	if node == 0 {
		driver := &driver{addresses: clients}
		defer driver.close()
		return load.Serve(os.Stdin, os.Stdout, driver.do)
	}
	if node > len(peers) || len(peers) != len(clients) || directory == "" {
		return fmt.Errorf("node %d needs a directory, and an address of each kind", node)
	}
	return serve(node, peers, clients, directory)
}

// serve runs a server until its input ends or it is told to stop.
func serve(node int, peers, clients []string, directory string) error {
	config := embed.NewConfig()
	config.Name = fmt.Sprintf("node%d", node)
	config.Dir = directory
	peer := url.URL{Scheme: "http", Host: peers[node-1]}
	client := url.URL{Scheme: "http", Host: clients[node-1]}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	var members []string
	for i, address := range peers {
		members = append(members, fmt.Sprintf("node%d=http://%s", i+1, address))
	}
	config.InitialCluster = strings.Join(members, ",")
	config.TickMs, config.ElectionMs = heartbeatMs, electionMs
	config.QuotaBackendBytes = quotaBytes
	// Old revisions go, as in a store that keeps the last value of each key alone.
	config.AutoCompactionMode, config.AutoCompactionRetention = "revision", "1000"
	config.LogLevel = "error"
	config.LogOutputs = []string{"stderr"}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(startTimeout):
		return errors.New("etcd was not ready in time")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	go func() {
		defer stop()
		// The runner's death ends its servers.
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd: %w", err)
	}
}
