package admin_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"engine_race/cluster/admin"
	"engine_race/cluster/gate"
)

// TestSilentConnectionsAreBounded opens more connections to the admin address than the gate
// permits. The oldest of them ends, and a peer gets an answer.
func TestSilentConnectionsAreBounded(t *testing.T) {
	security, friend := peerTLS(t)
	options := admin.Options{Control: &fakeControl{}, TLS: security}
	server := start(t, options.WithHeaderTimeout(time.Hour))
	var oldest net.Conn
	for i := range gate.PerSource + 1 {
		conn, err := net.Dial("tcp", server.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
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
	if err := dial(t, server, friend).MoveLeader(ctx, 1, 2); err != nil {
		t.Fatal(err)
	}
}
