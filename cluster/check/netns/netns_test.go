package netns

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

const (
	modeVariable = "ENGINE_RACED_CHECK_NETNS"
	patience     = 30 * time.Second
	quiet        = 500 * time.Millisecond // how long nothing may arrive over a cut link
)

// TestMain makes the test's own program an echo server, a client, or a run that gets killed.
func TestMain(m *testing.M) {
	switch os.Getenv(modeVariable) {
	case "":
		os.Exit(m.Run())
	case "echo":
		echo(os.Args[1])
	case "relay": // sends each line of its input to the server, and prints what comes back
		conn, err := net.Dial("tcp", os.Args[1])
		if err != nil {
			panic(err)
		}
		fmt.Println("connected")
		go io.Copy(os.Stdout, conn)
		io.Copy(conn, os.Stdin)
	case "killed":
		n, err := New(2)
		if err != nil {
			panic(err)
		}
		fmt.Println(n.number)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

func echo(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	fmt.Println("listening")
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go io.Copy(conn, conn)
	}
}

func network(t *testing.T, nodes int) *Net {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n, err := New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// peer is a process whose lines are read in the background.
type peer struct {
	input io.Writer
	lines chan string
}

func (n *Net) start(t *testing.T, node int, mode, address string) *peer {
	t.Helper()
	argv := []string{os.Args[0], address}
	if node != Clients {
		argv = n.Command(node, argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), modeVariable+"="+mode)
	cmd.Stderr = os.Stderr
	input, inputErr := cmd.StdinPipe()
	output, outputErr := cmd.StdoutPipe()
	if inputErr != nil || outputErr != nil {
		t.Fatal(inputErr, outputErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	p := &peer{input: input, lines: make(chan string, 100)}
	go func() {
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	p.expect(t, map[string]string{"echo": "listening", "relay": "connected"}[mode])
	return p
}

func (p *peer) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case line := <-p.lines:
		if line != want {
			t.Fatalf("got %q, want %q", line, want)
		}
	case <-time.After(patience):
		t.Fatalf("%q does not arrive", want)
	}
}

func (p *peer) expectNothing(t *testing.T) {
	t.Helper()
	select {
	case line := <-p.lines:
		t.Fatalf("%q came over a link that is cut", line)
	case <-time.After(quiet):
	}
}

func TestCutsAreOneWayAndHeal(t *testing.T) {
	n := network(t, 3)
	address := n.Host(2) + ":9000"
	n.start(t, 2, "echo", address)
	tests := []struct {
		name     string
		from, to int
		sender   int // whose requests no longer come back
		others   int // whose requests still do
	}{
		{"requests of a node", 1, 2, 1, 3},
		{"answers to a node", 2, 3, 3, 1},
		{"requests of clients", Clients, 2, Clients, 1},
		{"answers to clients", 2, Clients, Clients, 3},
	}
	for _, test := range tests {
		sender := n.start(t, test.sender, "relay", address)
		others := n.start(t, test.others, "relay", address)
		if err := n.Cut(test.from, test.to); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		fmt.Fprintln(sender.input, "cut")
		fmt.Fprintln(others.input, "free")
		others.expect(t, "free")
		sender.expectNothing(t)
		if err := n.Heal(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		sender.expect(t, "cut") // TCP sends it again
	}
}

func TestSlowLinkDelaysAndHeals(t *testing.T) {
	n := network(t, 2)
	address := n.Host(2) + ":9000"
	n.start(t, 2, "echo", address)
	relay := n.start(t, 1, "relay", address)
	if err := n.Slow(2, 1000); err != nil {
		t.Fatal(err)
	}
	// 256 KiB at 1000 kbit/s last 2 s, less the bursts of 32 kB at each side.
	text := make([]byte, 1<<10)
	for i := range text {
		text[i] = 'x'
	}
	start := time.Now()
	go func() {
		for range 256 {
			fmt.Fprintf(relay.input, "%s\n", text)
		}
	}()
	for range 256 {
		relay.expect(t, string(text))
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("256 KiB took %v over a link of 1000 kbit/s", took)
	}
	if err := n.Heal(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(relay.input, "healed")
	relay.expect(t, "healed")
}

// killedRun gives the number of a network whose process has died.
func killedRun(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeVariable+"=killed")
	output, _ := cmd.Output() // it dies by SIGKILL
	var number int
	if _, err := fmt.Sscan(string(output), &number); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	return number
}

func TestDeadRunsAreRemoved(t *testing.T) {
	network(t, 1) // skips without root; a living run stays
	number := killedRun(t)
	dead := &Net{number: number}
	// Another run may have removed it already.
	living := network(t, 1)
	if _, err := os.Stat("/run/netns/" + dead.namespace(1)); living.number != number && err == nil {
		t.Errorf("the namespace of network %d is still there", number)
	}
	if _, err := os.Stat("/sys/class/net/" + dead.bridge()); living.number != number && err == nil {
		t.Errorf("the bridge of network %d is still there", number)
	}
	if _, err := os.Stat("/sys/class/net/" + living.bridge()); err != nil {
		t.Error(err)
	}
}

func TestManyRunsRemoveTheSameDeadOnes(t *testing.T) {
	network(t, 1)
	killedRun(t)
	failures := make(chan error)
	const runs = 8
	for range runs {
		go func() { failures <- removeDead() }()
	}
	for range runs {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}
