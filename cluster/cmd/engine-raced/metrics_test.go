package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"engine_race/cluster/resp"
	"engine_race/cluster/service"
)

// failing is a service whose writes fail.
type failing struct {
	service.Service
	err error
}

func (*failing) ValueBytes() int { return service.DefaultValueBytes }

func (f *failing) Write(context.Context, []service.Op, bool) ([]bool, error) { return nil, f.err }

// TestOutcomesAreMeasured has writes that end in each way, and looks for their outcomes.
func TestOutcomesAreMeasured(t *testing.T) {
	for _, test := range []struct {
		err     error
		outcome string
	}{
		{nil, "done"},
		{service.ErrUnavailable, "refused"},
		{service.ErrUnknown, "unknown"},
		{fmt.Errorf("%w: late: %w", service.ErrUnknown, context.DeadlineExceeded), "unknown"},
		{service.ErrCorrupt, "unknown"},
	} {
		registry := prometheus.NewRegistry()
		server, err := resp.New(resp.Options{Service: &failing{err: test.err},
			Observer: newLatencies(registry).observe})
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve(listener)
		set(t, listener.Addr().String())
		server.Close()
		if got := outcomes(t, registry); got != "set "+test.outcome {
			t.Errorf("%v: measured %q", test.err, got)
		}
	}
}

// set sends a SET and waits for its reply.
func set(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testDeadline))
	fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$8\r\nk0000001\r\n$4096\r\n%s\r\n",
		strings.Repeat("x", service.DefaultValueBytes))
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

// outcomes gives the labels of all measured commands.
func outcomes(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, family := range families {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				found = append(found, label.GetValue())
			}
		}
	}
	return strings.Join(found, " ")
}
