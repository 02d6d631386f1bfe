package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"engine_race/cluster/check/fake"
	"engine_race/cluster/check/wire"
	"engine_race/cluster/testkit"
)

const parentVariable = "ENGINE_RACED_CHECK_PARENT"

// TestMain makes the test's own program a fake node, or a parent that will be killed.
func TestMain(m *testing.M) {
	fake.RunIfNode()
	if dir := os.Getenv(parentVariable); dir != "" {
		os.Exit(parent(dir))
	}
	os.Exit(m.Run())
}

func options(dir string) Options {
	return Options{Binary: os.Args[0], Dir: dir, Nodes: 3, Shards: 2,
		Env: []string{fake.RunVariable + "=1"}, ReadyIn: 30 * time.Second,
		RequestTimeout: 10 * time.Second}
}

func started(t *testing.T, options Options) *Cluster {
	t.Helper()
	c, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.StartAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func set(c *Cluster, id int, key, version uint64) error {
	conn, err := c.Dialer(id).Dial(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Set(key, c.ValueSize().Encode(key, version))
}

func TestNodesGetTheirTimeLimit(t *testing.T) {
	const lines = "limits.request_timeout_ms = 8000\nlimits.drain_timeout_ms = 8000\n"
	for _, test := range []struct {
		limit  time.Duration
		extra  string
		wanted bool
	}{{0, "", false}, {8 * time.Second, "", true}, {8 * time.Second, "[limits]", false}} {
		opts := options(t.TempDir())
		opts.NodeTimeout, opts.Extra = test.limit, test.extra
		c, err := New(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(c.nodes[1].config)
		before, _, _ := strings.Cut(string(text), "[cluster]")
		if err != nil || strings.Contains(before, lines) != test.wanted {
			t.Errorf("%v, %q: %v, %s", test.limit, test.extra, err, text)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNodesAreKilledAndKeepTheirData(t *testing.T) {
	c := started(t, options(t.TempDir()))
	if err := set(c, 1, 7, 1); err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 3; id++ {
		if err := c.Kill(id); err != nil || c.Running(id) {
			t.Fatal(err)
		}
	}
	if err := set(c, 1, 7, 2); err == nil {
		t.Error("a killed node answers")
	}
	if err := c.StartAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := c.Dialer(2).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	bytes, err := conn.Get(7)
	if version, decodeErr := c.ValueSize().Decode(7, bytes); err != nil || version != 1 {
		t.Errorf("version %d, %v, %v", version, err, decodeErr)
	}
	if crashes := c.Crashes(); len(crashes) > 0 {
		t.Error(crashes)
	}
}

func TestPausedNodeDoesNotAnswerUntilItIsResumed(t *testing.T) {
	c := started(t, options(t.TempDir()))
	conn, err := c.Dialer(1).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := c.Pause(1); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- conn.Set(7, c.ValueSize().Encode(7, 1)) }()
	// The kernel connects for a process that is paused, so only the request meets its silence.
	var impatient *wire.Conn
	testkit.Succeeds(t, "a connection to a paused node", func() (err error) {
		impatient, err = wire.Dialer{Address: c.Info(1).ClientAddress,
			Timeout: 200 * time.Millisecond}.Dial(t.Context())
		return err
	})
	defer impatient.Close()
	err = impatient.Set(7, c.ValueSize().Encode(7, 1))
	if wire.Classify(err) != wire.Unknown || len(answered) > 0 {
		t.Errorf("a paused node: %v, %d answers", err, len(answered))
	}
	if err := c.Resume(1); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := c.WaitReady(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

func TestTerminateDrains(t *testing.T) {
	c := started(t, options(t.TempDir()))
	if err := c.Terminate(t.Context(), 2); err != nil || c.Running(2) {
		t.Fatalf("%v, running: %v", err, c.Running(2))
	}
	if err := c.Ready(t.Context(), 2); err == nil {
		t.Error("a stopped node is ready")
	}
	if crashes := c.Crashes(); len(crashes) > 0 {
		t.Error(crashes)
	}
}

func TestCrashIsReported(t *testing.T) {
	c := started(t, options(t.TempDir()))
	if err := syscall.Kill(c.PID(3), syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a crash is reported", func() bool { return len(c.Crashes()) > 0 })
	if text := c.Crashes()[0]; !strings.Contains(text, "node 3") {
		t.Error(text)
	}
}

func TestWipedNodeNeedsToJoin(t *testing.T) {
	c := started(t, options(t.TempDir()))
	if err := c.Wipe(2); err == nil {
		t.Error("the data of a running node was wiped")
	}
	if err := c.Kill(2); err != nil {
		t.Fatal(err)
	}
	if err := c.Wipe(2); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(2); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(t.Context(), 2); err == nil {
		t.Error("a node without data serves")
	}
	if err := c.Init(t.Context(), 2); err == nil {
		t.Error("a node that has served was initialised again")
	}
	if err := c.Join(t.Context(), 2, 1, false); err == nil {
		t.Error("a node took a number that is in use")
	}
	if err := c.Join(t.Context(), 2, 1, true); err != nil {
		t.Fatal(err)
	}
	if err := c.StartAll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOperatorsMoveLeaders(t *testing.T) {
	c := started(t, options(t.TempDir()))
	for _, want := range []int{3, 1} {
		if err := c.MoveLeader(t.Context(), 2, 2, want); err != nil {
			t.Fatal(err)
		}
		if leader, err := c.Leader(t.Context(), 2); err != nil || leader != want {
			t.Errorf("node %d leads, %v, want %d", leader, err, want)
		}
	}
	if err := c.MoveLeader(t.Context(), 2, 99, 1); err == nil {
		t.Error("a shard that does not exist has moved")
	}
}

func TestDiskIsFilledAndFreed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	opts := options(t.TempDir())
	opts.DiskBytes = 64 << 20
	c := started(t, opts)
	if err := c.FillDisk(2); err != nil {
		t.Fatal(err)
	}
	if err := set(c, 2, 7, 1); wire.Classify(err) != wire.Refused {
		t.Errorf("a write with a full disk: %v", err)
	}
	if err := set(c, 1, 7, 1); err != nil {
		t.Errorf("another node's disk is full too: %v", err)
	}
	if err := c.FreeDisk(2); err != nil {
		t.Fatal(err)
	}
	if err := set(c, 2, 7, 1); err != nil {
		t.Error(err)
	}
}

// parent starts a cluster, prints the process ids, and waits to be killed.
func parent(dir string) int {
	c, err := New(context.Background(), options(dir))
	if err == nil {
		err = c.StartAll(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.PID(1), c.PID(2), c.PID(3))
	time.Sleep(time.Minute)
	return 1
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pids [3]int
	if _, err := fmt.Sscan(line, &pids[0], &pids[1], &pids[2]); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	for _, pid := range pids {
		testkit.Eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return !alive(pid) })
	}
}

// alive is false for zombies, which only wait for somebody to collect them.
func alive(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestClockOffsetReachesTheNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("time namespaces need root")
	}
	c := started(t, options(t.TempDir()))
	if err := c.Kill(1); err != nil {
		t.Fatal(err)
	}
	c.SetClockOffset(1, 1000*time.Second)
	if err := c.StartAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timens_offsets", c.PID(1)))
	if err != nil || !strings.Contains(string(text), "1000") {
		t.Errorf("%q, %v", text, err)
	}
	own, _ := os.Readlink("/proc/self/ns/time")
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", c.PID(1)))
	if err != nil || own == its {
		t.Errorf("the node has the time namespace %q, the test %q, %v", its, own, err)
	}
}
