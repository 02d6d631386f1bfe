package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"engine_race/cluster/bench/load"
)

const (
	stopTimeout = 20 * time.Second
	pollTime    = 50 * time.Millisecond
	// The unit of times in /proc, on all of Linux's machines.
	clockTick = 10 * time.Millisecond
)

func pause() { time.Sleep(pollTime) }

// process is a child. One goroutine at a time uses it. Its standard error goes to a file.
type process struct {
	command *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
	log     string
	ended   chan struct{} // closed when the child has ended
}

// startProcess starts a program in a session of its own, so that Ctrl-C reaches only this process,
// which then ends its children.
func startProcess(group *memoryGroup, log, program string, arguments ...string) (
	*process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	shell := append([]string{"-c", group.enter() + `exec "$0" "$@"`, program}, arguments...)
	command := exec.Command("/bin/sh", shell...)
	command.Stderr = file
	command.Env = append(os.Environ(), group.environment()...)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	orders, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not a StdoutPipe: Wait would close it under a reader.
	answers, childEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.Stdout = childEnd
	err = command.Start()
	childEnd.Close()
	if err != nil {
		answers.Close()
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	p := &process{command: command, orders: orders, answers: bufio.NewReader(answers), log: log,
		ended: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// ask gives the child an order and waits for its answer.
func (p *process) ask(work load.Work) (load.Figures, error) {
	figures, err := load.Ask(p.orders, p.answers, work)
	if err != nil {
		return figures, fmt.Errorf("%w; its log ends: %s", err, p.logEnd())
	}
	return figures, nil
}

// cpuTime is what the child's threads have used until now.
func (p *process) cpuTime() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	// Behind the name, which is in parentheses: fields 14 and 15 of all are user and system time.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// logEnd is the last part of the child's log.
func (p *process) logEnd() string {
	const mostBytes = 600
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-mostBytes):]))
}

func (p *process) signal(signal syscall.Signal) error {
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// stop ends the child: gently first.
func (p *process) stop() {
	_ = p.signal(syscall.SIGCONT)
	_ = p.orders.Close()
	_ = p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.signal(syscall.SIGKILL)
		<-p.ended
	}
}
