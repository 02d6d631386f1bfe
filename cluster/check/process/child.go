package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// child is one run of a node's process.
type child struct {
	cmd     *exec.Cmd
	done    chan struct{} // closed after the process has ended
	failure error         // of the process; read it after done
	ended   bool          // somebody asked the process to end; guarded by node.mu
}

// commandTime bounds the commands that end by themselves: init, join, and those of operators.
const commandTime = 60 * time.Second

// stopTime bounds the wait for SIGSTOP: a thread stops when its system call can be interrupted.
const stopTime = 10 * time.Second

// SetClockOffset lets the node's next starts run in a time namespace, whose monotonic and boot
// clocks differ by the offset. 0 ends this. It needs root.
func (c *Cluster) SetClockOffset(id int, offset time.Duration) {
	c.nodes[id-1].monotonic = offset
}

// argv gives the command line that runs the program as the node.
func (c *Cluster) argv(n *node, args ...string) []string {
	argv := append([]string{c.options.Binary}, args...)
	if n.monotonic != 0 {
		seconds := strconv.FormatInt(int64(n.monotonic.Seconds()), 10)
		argv = append([]string{"unshare", "--time", "--monotonic", seconds, "--boottime", seconds},
			argv...)
	}
	if c.options.Network != nil {
		argv = c.options.Network.Command(n.id, argv)
	}
	return argv
}

// Init runs `init` for the node.
func (c *Cluster) Init(ctx context.Context, id int) error { return c.Try(ctx, id, "init") }

// Try runs a command of the program with the node's configuration file and further flags, until it
// ends. The error has its output, and is an *exec.ExitError.
func (c *Cluster) Try(ctx context.Context, id int, command string, flags ...string) error {
	args := append([]string{command, "--config", c.nodes[id-1].config}, flags...)
	return c.command(ctx, id, args...)
}

// Join runs `join` for a node without data. `via` is a node that runs. With `replaces` the node may
// have a number that is in use.
func (c *Cluster) Join(ctx context.Context, id, via int, replaces bool) error {
	flags := []string{"--peer", c.Info(via).AdminAddress}
	if replaces {
		flags = append(flags, "--replace")
	}
	return c.Try(ctx, id, "join", flags...)
}

// command runs the program until it ends.
func (c *Cluster) command(ctx context.Context, id int, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	argv := c.argv(c.nodes[id-1], args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), c.options.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := c.start(cmd); err != nil {
		return fmt.Errorf("node %d: %s: %w", id, args[0], err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("node %d: %q: %w: %s", id, args, err, output.Bytes())
	}
	return nil
}

// start starts the command on the thread of startAll.
func (c *Cluster) start(cmd *exec.Cmd) error {
	result := make(chan error)
	c.starts <- func() { result <- cmd.Start() }
	return <-result
}

// Start runs `serve` for the node and returns at once. WaitReady tells when it serves. Its outputs
// are appended to the files stdout and stderr of the node's directory.
func (c *Cluster) Start(id int) error {
	n := c.nodes[id-1]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running != nil {
		return fmt.Errorf("node %d runs already", id)
	}
	argv := c.argv(n, "serve", "--config", n.config)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), c.options.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	for name, stream := range map[string]*io.Writer{"stdout": &cmd.Stdout, "stderr": &cmd.Stderr} {
		file, err := os.OpenFile(filepath.Join(n.dir, name),
			os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer file.Close() // the child has its own copy
		*stream = file
	}
	if err := c.start(cmd); err != nil {
		return fmt.Errorf("node %d: serve: %w", id, err)
	}
	n.running = &child{cmd: cmd, done: make(chan struct{})}
	go c.watch(n, n.running)
	return nil
}

// watch waits for the end of the process, and records an end that nobody asked for.
func (c *Cluster) watch(n *node, run *child) {
	run.failure = run.cmd.Wait()
	n.mu.Lock()
	if n.running == run {
		n.running = nil
	}
	asked := run.ended
	n.mu.Unlock()
	if !asked {
		text := fmt.Sprintf("node %d ended by itself: %v: %s", n.id, run.failure, n.logEnd())
		c.mu.Lock()
		c.crashes = append(c.crashes, text)
		c.mu.Unlock()
		c.options.Log.Error("a node ended by itself", "node", n.id, "error", run.failure)
	}
	close(run.done)
}

// logEnd gives the last part of the node's log.
func (n *node) logEnd() string {
	text, err := os.ReadFile(filepath.Join(n.dir, "stderr"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// signal sends a signal, and gives the run that got it, or nil if the node does not run.
func (n *node) signal(signal syscall.Signal, ends bool) (*child, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running == nil {
		return nil, nil
	}
	n.running.ended = n.running.ended || ends
	err := n.running.cmd.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return n.running, err
}

// Running says whether the node's process exists.
func (c *Cluster) Running(id int) bool { return c.PID(id) != 0 }

// PID gives the process id of a node, 0 if it does not run.
func (c *Cluster) PID(id int) int {
	n := c.nodes[id-1]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running == nil {
		return 0
	}
	return n.running.cmd.Process.Pid
}

// Kill sends SIGKILL, and waits for the end. It does nothing if the node does not run.
func (c *Cluster) Kill(id int) error {
	run, err := c.nodes[id-1].signal(syscall.SIGKILL, true)
	if run != nil && err == nil {
		<-run.done
	}
	return err
}

// Pause stops the node's process with SIGSTOP, and waits until all its threads have stopped.
func (c *Cluster) Pause(id int) error {
	run, err := c.nodes[id-1].signal(syscall.SIGSTOP, false)
	if run == nil || err != nil {
		return err
	}
	for limit := time.Now().Add(stopTime); !stopped(run.cmd.Process.Pid); {
		if time.Now().After(limit) {
			return fmt.Errorf("node %d does not stop in %v", id, stopTime)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// stopped says whether all threads of the process are stopped, or the process is gone.
func stopped(pid int) bool {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		name := bytes.LastIndexByte(text, ')') // the name may have any characters
		if name >= 0 && name+2 < len(text) && text[name+2] != 'T' {
			return false
		}
	}
	return true
}

// Resume lets a paused process go on.
func (c *Cluster) Resume(id int) error {
	_, err := c.nodes[id-1].signal(syscall.SIGCONT, false)
	return err
}

// Terminate sends SIGTERM and waits for the end. It fails if the exit code is not 0 or if ctx ends
// first.
func (c *Cluster) Terminate(ctx context.Context, id int) error {
	run, err := c.nodes[id-1].signal(syscall.SIGTERM, true)
	if run == nil || err != nil {
		return err
	}
	select {
	case <-run.done:
	case <-ctx.Done():
		return fmt.Errorf("node %d does not stop: %w", id, ctx.Err())
	}
	if run.failure != nil {
		return fmt.Errorf("node %d stopped badly: %w", id, run.failure)
	}
	return nil
}
