// Package testkit has what the tests of several packages need.
//
// Thread safety: all functions may be called from any goroutine that may call t.Fatal.
package testkit

import (
	"net"
	"testing"
	"time"
)

// patience keeps a broken test from hanging. It is long enough for a machine that is busy.
const patience = 60 * time.Second

// Eventually waits until something has happened.
func Eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Succeeds tries until there is no error.
func Succeeds(t testing.TB, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// FreeAddresses gives addresses of a host on which nobody listens. They differ from each other. It
// skips the test if the machine has no such host: not all have IPv6.
func FreeAddresses(t testing.TB, host string, count uint64) []string {
	t.Helper()
	var addresses []string
	for range count {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Skipf("this machine has no %s: %v", host, err)
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}
