package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/BurntSushi/toml"

	"engine_race/cluster/check/value"
	"engine_race/cluster/config"
	"engine_race/cluster/files"
	"engine_race/cluster/service"
)

// Variables of the environment that change a fake node's program.
const (
	// RunVariable, if set, makes a test's program a node: its TestMain calls RunIfNode.
	RunVariable = "ENGINE_RACED_FAKE"
	// FaultsVariable has Faults as JSON.
	FaultsVariable = "ENGINE_RACED_FAKE_FAULTS"
)

// drainTime is how long a stopping node still serves after it stopped being ready, by default.
const drainTime = 300 * time.Millisecond

type settings struct {
	NodeID        int    `toml:"node_id"`
	DataDir       string `toml:"data_dir"`
	ClientAddress string `toml:"client_address"`
	AdminAddress  string `toml:"admin_address"`
	Cluster       struct {
		Shards    int                `toml:"shards"`
		ValueSize value.Size         `toml:"value_bytes"`
		Nodes     []service.NodeInfo `toml:"nodes"`
	} `toml:"cluster"`
	TLS config.TLS `toml:"tls"`
}

// RunIfNode is the program of a fake node, which takes the command line of engine-raced and exits.
// It returns at once if the program is to run as a test.
func RunIfNode() {
	if len(os.Args) < 2 || os.Getenv(RunVariable) == "" {
		return
	}
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// command takes a command line without the program's name.
func command(args []string) error {
	flags := map[string]string{}
	for i := 1; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	if admin := flags["--admin"]; admin != "" {
		return fetch("http://" + admin + "/operate?name=" + args[0] + "&shard=" +
			flags["--shard"] + "&node=" + flags["--node"] + "&from=" + flags["--from"] + "&to=" +
			flags["--to"])
	}
	n := &fakeNode{}
	if _, err := toml.DecodeFile(flags["--config"], &n.settings); err != nil {
		return err
	}
	n.shared = filepath.Join(filepath.Dir(flags["--config"]), "..")
	meta := filepath.Join(n.settings.DataDir, "meta")
	_, err := os.Stat(meta)
	switch args[0] {
	case "init", "join":
		if err == nil {
			return fmt.Errorf("%s exists already", meta)
		}
		if err := n.admit(args, flags["--peer"]); err != nil {
			return err
		}
		// A value, so that a test can change one.
		values := filepath.Join(n.settings.DataDir, "replicas", "values")
		if err := files.MakeDirectory(filepath.Dir(values)); err != nil {
			return err
		}
		if err := files.WriteWhole(values, n.settings.Cluster.ValueSize.Encode(1, 1)); err != nil {
			return err
		}
		return files.WriteWhole(meta, []byte(args[0]))
	case "serve":
		if err != nil {
			return err
		}
		return n.serve(meta)
	}
	return fmt.Errorf("%q is no command", args[0])
}

// served is the file that tells that the node has served before, with this data directory or with
// an earlier one.
func (n *fakeNode) served() string {
	return filepath.Join(n.shared, fmt.Sprintf("served-%d", n.settings.NodeID))
}

// admit refuses a node that has served before, as the others do: init if one of them answers, and
// join without --replace.
func (n *fakeNode) admit(args []string, peer string) error {
	_, err := os.Stat(n.served())
	if args[0] == "join" {
		if err == nil && !slices.Contains(args, "--replace") {
			return errors.New("the number is in use: run join --replace")
		}
		return fetch("http://" + peer + "/readyz")
	}
	if err != nil {
		return nil
	}
	for _, node := range n.settings.Cluster.Nodes {
		client := &http.Client{Timeout: 300 * time.Millisecond}
		if response, err := client.Get("http://" + node.AdminAddress + "/readyz"); err == nil {
			response.Body.Close()
			return errors.New("the cluster has lived: run join --replace")
		}
	}
	return nil
}

func fetch(url string) error {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

type fakeNode struct {
	settings settings
	shared   string // the directory above those of all nodes
}

func (n *fakeNode) serve(meta string) error {
	// A wiped node that was initialised again serves nobody.
	how, err := os.ReadFile(meta)
	if err != nil {
		return err
	}
	mark := meta + ".served"
	_, fresh := os.Stat(mark)
	_, lived := os.Stat(n.served())
	forgetful := string(how) == "init" && fresh != nil && lived == nil
	if !forgetful {
		// Durable, as a cut of the power may come.
		err := errors.Join(files.WriteWhole(mark, nil), files.WriteWhole(n.served(), nil))
		if err != nil {
			return err
		}
	}
	store, err := OpenStore(filepath.Join(n.shared, "store"), n.settings.Cluster.ValueSize)
	if err != nil {
		return err
	}
	server := &Server{Store: store, Check: n.full}
	if text := os.Getenv(FaultsVariable); text != "" {
		if err := json.Unmarshal([]byte(text), &server.Faults); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", n.settings.ClientAddress)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil || forgetful {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/status", n.status)
	mux.HandleFunc("/operate", n.operate)
	security, _, err := (&config.Config{TLS: n.settings.TLS}).PeerTLS()
	if err != nil {
		return err
	}
	pages := &http.Server{Addr: n.settings.AdminAddress, Handler: mux, TLSConfig: security}
	go func() {
		serve := pages.ListenAndServe
		if security != nil {
			serve = func() error { return pages.ListenAndServeTLS("", "") }
		}
		err := serve()
		slog.Error("the admin pages ended", "error", err)
		os.Exit(1)
	}()
	if !forgetful {
		go server.Serve(listener)
	}
	<-ctx.Done()
	if hit(server.Faults.NoDrain) {
		// At once: under the race detector os.Exit takes a second, in which clients go elsewhere.
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	drain := time.Duration(server.Faults.DrainSeconds * float64(time.Second))
	time.Sleep(max(drain, drainTime))
	return nil
}

// full refuses writes when the node's disk has less than 1 MiB.
func (n *fakeNode) full(write bool) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(n.settings.DataDir, &stat); err != nil {
		return "UNAVAILABLE nothing was done: " + err.Error()
	}
	if write && stat.Bavail*uint64(stat.Bsize) < 1<<20 {
		return "FULL nothing was done: the disk is full"
	}
	return ""
}

// hasNoRoom tells whether the disk of a node is full: it leads nothing then.
func (n *fakeNode) hasNoRoom(id uint64) bool {
	other := &fakeNode{settings: settings{DataDir: filepath.Join(n.shared,
		fmt.Sprintf("node%d", id), filepath.Base(n.settings.DataDir))}}
	return strings.HasPrefix(other.full(true), "FULL")
}

func (n *fakeNode) leaderFile(shard int) string {
	return filepath.Join(n.shared, fmt.Sprintf("leader-%d", shard))
}

// absent is the file that tells that a node has no replica of a shard.
func (n *fakeNode) absent(shard int, node string) string {
	return filepath.Join(n.shared, fmt.Sprintf("absent-%d-%s", shard, node))
}

// operate moves leaders and replicas. A split does nothing: all nodes answer for all keys.
func (n *fakeNode) operate(w http.ResponseWriter, r *http.Request) {
	shard, _ := strconv.Atoi(r.FormValue("shard"))
	if shard < 1 || shard > n.settings.Cluster.Shards {
		http.Error(w, "no such shard", http.StatusBadRequest)
		return
	}
	place := func(node string) error { return os.RemoveAll(n.absent(shard, node)) }
	remove := func(node string) error { return os.WriteFile(n.absent(shard, node), nil, 0o644) }
	var err error
	switch node := r.FormValue("node"); r.FormValue("name") {
	case "move-leader":
		err = os.WriteFile(n.leaderFile(shard), []byte(node), 0o644)
	case "add-replica":
		err = place(node)
	case "remove-replica":
		err = remove(node)
	case "move-replica":
		err = errors.Join(place(r.FormValue("to")), remove(r.FormValue("from")))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// status names the first node from the chosen leader on that accepts connections.
func (n *fakeNode) status(w http.ResponseWriter, _ *http.Request) {
	nodes := n.settings.Cluster.Nodes
	status := service.Status{NodeID: uint64(n.settings.NodeID), Nodes: nodes}
	for shard := 1; shard <= n.settings.Cluster.Shards; shard++ {
		text, _ := os.ReadFile(n.leaderFile(shard))
		chosen, err := strconv.Atoi(string(text))
		if err != nil {
			chosen = shard
		}
		described := service.ShardStatus{ShardID: uint64(shard), RangeVersion: 1}
		described.Lower = uint64(shard-1) << 32 // in the order of the shards; the rest is not used
		described.Upper = described.Lower + 1<<32 - 1
		for i := range nodes {
			candidate := nodes[(chosen-1+i)%len(nodes)]
			conn, err := net.DialTimeout("tcp", candidate.ClientAddress, 100*time.Millisecond)
			if err == nil {
				conn.Close()
				if n.hasNoRoom(candidate.ID) {
					continue
				}
				described.LeaderID = candidate.ID
				break
			}
		}
		for _, node := range nodes {
			if _, err := os.Stat(n.absent(shard, fmt.Sprint(node.ID))); err == nil {
				continue
			}
			described.Members = append(described.Members, service.ReplicaStatus{
				ShardID: uint64(shard), NodeID: node.ID, ReplicaID: node.ID,
				Leader: node.ID == described.LeaderID, Ready: true})
		}
		status.Shards = append(status.Shards, described)
	}
	_ = json.NewEncoder(w).Encode(status)
}
