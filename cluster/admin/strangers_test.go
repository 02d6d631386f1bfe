package admin_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"engine_race/cluster/admin"
	"engine_race/cluster/gate"
)

// TestSilentConnectionsAreBounded opens more connections to the admin address than the gate
// permits. The oldest of them ends, and a peer gets an answer.
func TestSilentConnectionsAreBounded(t *testing.T) {
	testStrangers(t, func(net.Conn) {})
}

// Everybody may ask for a node's health. A connection that did so, and is silent from then on, is
// not one of a node.
func TestConnectionsThatAskedForHealthAloneAreBounded(t *testing.T) {
	testStrangers(t, func(conn net.Conn) {
		request := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	})
}

// testStrangers lets each connection do what strangers may.
func testStrangers(t *testing.T, do func(net.Conn)) {
	t.Helper()
	options := admin.Options{Control: &fakeControl{}}
	server := start(t, options.WithHeaderTimeout(time.Hour))
	var oldest net.Conn
	for i := range gate.PerSource + 1 {
		conn, err := net.Dial("tcp", server.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		do(conn)
		if i == 0 {
			oldest = conn
		}
	}
	_ = oldest.SetReadDeadline(time.Now().Add(testDeadline))
	if _, err := oldest.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the oldest silent connection stays: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := dial(t, server, nil).MoveLeader(ctx, 1, 2); err != nil {
		t.Fatal(err)
	}
}
