package faults

import (
	"context"
	"fmt"
	"net"
	"time"

	"engine_race/cluster/check/wire"
)

// pipelined is how many requests a bad client sends without ever reading an answer.
const pipelined = 20_000

// badClients bothers one node. Afterwards its process must be the same one, and be ready.
func badClients(ctx context.Context, e *Env) error {
	node := e.anyNode()
	before := e.Cluster.PID(node)
	e.Log.Info("bad clients", "node", node)
	ctx, cancel := context.WithTimeout(ctx, e.Hold)
	defer cancel()
	address := e.Cluster.Info(node).ClientAddress
	requests := badRequests(e)
	for i := 0; ctx.Err() == nil; i++ {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			_ = wait(ctx, 10*time.Millisecond)
			continue
		}
		defer conn.Close() // each stays open until the end of the fault
		_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		// The node may close the connection, or stop reading: so the result tells nothing.
		_, _ = conn.Write(requests[i%len(requests)])
		_ = wait(ctx, 20*time.Millisecond)
	}
	if after := e.Cluster.PID(node); after != before {
		return fmt.Errorf("node %d was process %d, and is %d after bad clients", node, before, after)
	}
	return nil
}

func badRequests(e *Env) [][]byte {
	junk := make([]byte, 4096)
	for i := range junk {
		junk[i] = byte(e.Random.Uint32())
	}
	var flood []byte
	get := wire.Request([]byte("GET"), wire.KeyBytes(e.Random.Uint64()))
	for range pipelined {
		flood = append(flood, get...)
	}
	set := wire.Request([]byte("SET"), wire.KeyBytes(1), junk)
	return [][]byte{
		nil,
		set[:len(set)/2],
		[]byte("*1000000000\r\n"),
		[]byte("*2\r\n$3\r\nGET\r\n$99999999999\r\n"),
		[]byte("*-7\r\n$-9\r\n"),
		junk,
		flood,
		wire.Request([]byte("SET"), []byte("short"), []byte("abc")),
		wire.Request([]byte("AUTH"), []byte("nobody"), []byte("wrong")),
	}
}
