package testkit

import (
	"net"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A machine that stands still takes no more of a test's patience than a slow try.
func TestPatienceOutlastsAMachineThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		lasts := tryFor(time.Millisecond, func() bool {
			tries++
			time.Sleep(time.Hour)
			return tries == 3
		})
		if !lasts {
			t.Errorf("it ended after %d tries", tries)
		}
		began := time.Now()
		if tryFor(time.Millisecond, func() bool { return false }) || time.Since(began) != patience {
			t.Errorf("it lasted for %v", time.Since(began))
		}
	})
}

func TestTheKernelGivesFreeAddressesToNobody(t *testing.T) {
	addresses := slices.Concat(FreeAddresses(t, "127.0.0.1", 100), FreeAddresses(t, "127.0.0.1", 100))
	slices.Sort(addresses)
	if distinct := len(slices.Compact(slices.Clone(addresses))); distinct != 200 {
		t.Errorf("%d addresses differ", distinct)
	}
	for _, address := range addresses {
		_, text, _ := net.SplitHostPort(address)
		// Linux gives the ports from 32768 on to whoever asks for any.
		if port, err := strconv.Atoi(text); err != nil || port < 1024 || port >= 32768 {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAnotherProcessHasOtherPorts(t *testing.T) {
	own := FreePorts(t, "127.0.0.1", 1)
	other, err := takeBlock()
	if err != nil {
		t.Fatal(err)
	}
	defer other.lock.Close()
	if own >= other.first && own < other.end {
		t.Errorf("both have port %d", own)
	}
}

// Another program listens on a port of the block.
func TestPortsInARowAreFree(t *testing.T) {
	const count = 100
	taken := FreePorts(t, "127.0.0.1", count) + count/2
	listen := func(port int) net.Listener {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	defer listen(taken).Close()
	for range 2 * blockPorts / count {
		first := FreePorts(t, "127.0.0.1", count)
		for port := first; port < first+count; port++ {
			listen(port).Close()
		}
	}
}
