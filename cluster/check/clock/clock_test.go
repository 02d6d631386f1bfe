package clock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const childVariable = "ENGINE_RACED_CHECK_CLOCK"

// TestMain makes the test's own program print its clocks: one line for each line that it reads.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	start := time.Now()
	for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
		fmt.Println(time.Now().Unix(), time.Since(start).Nanoseconds())
	}
}

type child struct {
	cmd    *exec.Cmd
	input  io.Writer
	output *bufio.Reader
}

// clocks gives the wall clock of the child, and the monotonic time since its start.
func (c *child) clocks(t *testing.T) (time.Time, time.Duration) {
	t.Helper()
	fmt.Fprintln(c.input)
	var seconds, monotonic int64
	if _, err := fmt.Fscanln(c.output, &seconds, &monotonic); err != nil {
		t.Fatal(err)
	}
	return time.Unix(seconds, 0), time.Duration(monotonic)
}

func (c *child) shift(t *testing.T, offset time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		err := ShiftWall(c.cmd.Process.Pid, offset)
		if resumed := c.cmd.Process.Signal(syscall.SIGCONT); resumed != nil {
			t.Fatal(resumed)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestWallClockJumpsAndTheMonotonicClockDoesNot(t *testing.T) {
	if runtime.GOARCH != "amd64" || os.Geteuid() != 0 {
		t.Skip("this needs root on amd64")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	input, inputErr := cmd.StdinPipe()
	output, outputErr := cmd.StdoutPipe()
	if err := errors.Join(inputErr, outputErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	c := &child{cmd: cmd, input: input, output: bufio.NewReader(output)}
	before, _ := c.clocks(t)
	if apart := time.Since(before).Abs(); apart > time.Minute {
		t.Fatalf("the clocks are %v apart before any shift", apart)
	}
	for _, offset := range []time.Duration{time.Hour, -100 * time.Hour, 0} {
		c.shift(t, offset)
		wall, monotonic := c.clocks(t)
		if apart := (time.Until(wall) - offset).Abs(); apart > time.Minute {
			t.Errorf("offset %v: the wall clock is wrong by %v", offset, apart)
		}
		if monotonic < 0 || monotonic > 10*time.Minute {
			t.Errorf("offset %v: the monotonic clock jumped to %v", offset, monotonic)
		}
	}
	if wall := time.Since(before); wall.Abs() > 10*time.Minute {
		t.Errorf("the test's own clock jumped: %v", wall)
	}
}
