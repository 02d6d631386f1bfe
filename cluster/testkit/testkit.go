// Package testkit has what the tests of several packages need.
//
// Thread safety: all functions may be called from any goroutine that may call t.Fatal.
package testkit

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience keeps a broken test from hanging. It is long enough for a machine that is busy.
	patience = 60 * time.Second
	// mostOfTry is what one try and its pause take of it at most. A machine may stand still for
	// minutes: that says nothing of the program.
	mostOfTry = patience / 4
)

// Eventually waits until something has happened.
func Eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	if !tryFor(time.Millisecond, happened) {
		t.Fatalf("not in time: %s", what)
	}
}

// Succeeds tries until there is no error.
func Succeeds(t testing.TB, what string, try func() error) {
	t.Helper()
	var err error
	succeeds := func() bool {
		err = try()
		return err == nil
	}
	if !tryFor(10*time.Millisecond, succeeds) {
		t.Fatalf("%s: %v", what, err)
	}
}

// tryFor tries as long as patience lasts, and waits for a pause between two tries.
func tryFor(pause time.Duration, try func() bool) bool {
	for waited := time.Duration(0); waited < patience; {
		began := time.Now()
		if try() {
			return true
		}
		time.Sleep(pause)
		waited += min(time.Since(began), mostOfTry)
	}
	return false
}

// FreeAddresses gives addresses of a host on which nobody listens. It skips the test if the machine
// has no such host: not all have IPv6.
func FreeAddresses(t testing.TB, host string, count uint64) []string {
	t.Helper()
	var addresses []string
	first := FreePorts(t, host, int(count))
	for port := first; port < first+int(count); port++ {
		addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return addresses
}

// FreePorts gives the first of `count` ports in a row on which nobody listens at the host. They are
// not given again before most others of the process's block.
func FreePorts(t testing.TB, host string, count int) int {
	t.Helper()
	b, err := ownBlock()
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for free, tries := 0, 0; free < count; tries++ {
		if b.next-free+count > b.end {
			b.next, free = b.first+1, 0
		}
		if tries > 2*blockPorts {
			t.Fatalf("there are no %d free ports in a row", count)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(b.next)))
		b.next++
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			free = 0
		case err != nil:
			t.Skipf("this machine has no %s: %v", host, err)
		default:
			listener.Close()
			free++
		}
	}
	return b.next - count
}

// A node that has stopped must get its port again. So ports are below those that the kernel gives
// to connections, and to listeners that ask for any port. Tests of several packages run at once:
// each process has a block of its own.
const firstPort, endPort, blockPorts = 20_000, 32_000, 500

type block struct {
	lock       net.Listener // on the first port; the block is taken as long as it listens
	first, end int

	mu   sync.Mutex
	next int
}

var ownBlock = sync.OnceValues(takeBlock)

func takeBlock() (*block, error) {
	for first := firstPort; first < endPort; first += blockPorts {
		lock, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
		if err == nil {
			return &block{lock: lock, first: first, end: first + blockPorts, next: first + 1}, nil
		}
	}
	return nil, errors.New("other processes have all ports of tests")
}
