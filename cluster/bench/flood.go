package bench

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/redcon"
)

// The claim of floods: the peak memory of a node over what it may take. That is its bytes in flight
// and what it takes at rest, with its records read once. Of all nodes the worst counts.
const floodClaim = "memory_flood_ratio"

const (
	floodBytesInFlight = 128 << 20
	floodPassword      = "password-of-a-bench"
	mostFloodRecords   = 4000
	floodReplyBytes    = 16 << 20 // that an MGET may have
	floodFillBytes     = 1 << 20  // of an MSET
	// Strangers of each node, for each client of a kind. They are more than the node has places for.
	strangersPerClient = 16
	floodRest          = 3 * time.Second
	floodPatience      = 10 * time.Second
)

// floodRecords is how many records there are, and keys of one call: an MGET can have no more.
func floodRecords(valueBytes int) int {
	const beside = 64 // bytes of the reply for a value
	return min(mostFloodRecords, floodReplyBytes/(valueBytes+beside))
}

// floodSettings are those of a node that has passwords, so that it has strangers.
func floodSettings() string {
	return fmt.Sprintf("max_bytes_in_flight = %d\n[auth]\nusers = {default = \"sha256:%x\"}\n",
		floodBytesInFlight, sha256.Sum256([]byte(floodPassword)))
}

// flood gives all nodes more DELs of absent keys, large MGETs and strangers than they can take.
// Half of the clients with MGETs read no reply.
func (r *runner) flood(o *opponent) error {
	records := floodRecords(r.options.ValueBytes)
	if err := floodFill(o.ports(1), r.options.ValueBytes); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	time.Sleep(floodRest)
	rest := make([]int64, len(o.nodes))
	for i, node := range o.nodes {
		var err error
		if rest[i], err = node.memory("VmRSS"); err != nil {
			return err
		}
		if err := node.forgetPeak(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(),
		time.Duration(r.options.Seconds*float64(time.Second)))
	defer cancel()
	var group sync.WaitGroup
	for _, address := range o.ports(1) {
		for i := range r.options.Clients {
			group.Go(func() { floodWith(ctx, address, delsOf(i, records), true) })
			group.Go(func() { floodWith(ctx, address, mgetOf(records), i%2 == 0) })
		}
		for range strangersPerClient * r.options.Clients {
			group.Go(func() { floodStranger(ctx, address) })
		}
	}
	group.Wait()
	worst := 0.0
	for i, node := range o.nodes {
		peak, err := node.memory("VmHWM")
		if err != nil {
			return errors.New("a node has ended: " + node.logEnd())
		}
		ratio := float64(peak) / float64(rest[i]+floodBytesInFlight)
		r.options.Note("flood: node %d takes %d MiB at rest, and at most %d MiB: %.2f of its budget",
			i+1, rest[i]>>20, peak>>20, ratio)
		worst = max(worst, ratio)
	}
	r.result.Rounds[floodClaim] = append(r.result.Rounds[floodClaim], worst)
	return floodProbe(o.ports(1))
}

// floodDial connects as a user.
func floodDial(address string) (net.Conn, *bufio.Reader, error) {
	conn, err := net.DialTimeout("tcp", address, floodPatience)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(floodPatience))
	reader := bufio.NewReader(conn)
	if _, err = conn.Write(command("AUTH", floodPassword)); err == nil {
		_, err = reader.ReadString('\n')
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, reader, nil
}

func command(words ...string) []byte {
	text := redcon.AppendArray(nil, len(words))
	for _, word := range words {
		text = redcon.AppendBulkString(text, word)
	}
	return text
}

func floodKey(number uint64) string {
	// Spread over all shards.
	return string(binary.BigEndian.AppendUint64(nil, number*0x9e3779b97f4a7c15))
}

// floodFill writes the records, and has each node read them once: its caches are warm then.
func floodFill(addresses []string, valueBytes int) error {
	value, records := strings.Repeat("v", valueBytes), floodRecords(valueBytes)
	step := max(1, min(100, floodFillBytes/valueBytes))
	for i, address := range addresses {
		conn, reader, err := floodDial(address)
		if err != nil {
			return err
		}
		defer conn.Close()
		for first := 0; i == 0 && first < records; first += step {
			words := []string{"MSET"}
			for number := first; number < min(first+step, records); number++ {
				words = append(words, floodKey(uint64(number)), value)
			}
			_ = conn.SetDeadline(time.Now().Add(floodPatience))
			if _, err := conn.Write(command(words...)); err != nil {
				return err
			}
			if reply, err := reader.ReadString('\n'); err != nil || reply != "+OK\r\n" {
				return fmt.Errorf("MSET gets %q, %w", reply, err)
			}
		}
		if _, err := conn.Write(append(mgetOf(records), command("PING")...)); err != nil {
			return err
		}
		for {
			if reply, err := reader.ReadString('\n'); err != nil {
				return err
			} else if strings.HasPrefix(reply, "+") {
				break
			}
		}
	}
	return nil
}

func mgetOf(records int) []byte {
	words := []string{"MGET"}
	for number := range uint64(records) {
		words = append(words, floodKey(number))
	}
	return command(words...)
}

// delsOf deletes keys that are absent.
func delsOf(client, records int) []byte {
	words := []string{"DEL"}
	for number := range uint64(records) {
		words = append(words, floodKey(1<<32+uint64(client*records)+number))
	}
	return command(words...)
}

// floodWith sends the same command again and again, and reads replies or does not. It connects
// again when the node ends the connection.
func floodWith(ctx context.Context, address string, text []byte, reads bool) {
	for ctx.Err() == nil {
		conn, reader, err := floodDial(address)
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Time{})
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		if reads {
			go func() { _, _ = io.Copy(io.Discard, reader) }()
		}
		for err == nil {
			_, err = conn.Write(text)
		}
		stop()
		conn.Close()
	}
}

// floodStranger sends the most of a command that a stranger may, and waits until it is thrown out.
func floodStranger(ctx context.Context, address string) {
	half := append([]byte("*2\r\n$4\r\nAUTH\r\n$16000\r\n"), make([]byte, 15_000)...)
	for ctx.Err() == nil {
		conn, err := net.DialTimeout("tcp", address, floodPatience)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		_, _ = conn.Write(half)
		_, _ = io.Copy(io.Discard, conn)
		stop()
		conn.Close()
	}
}

// floodProbe fails unless each node answers a user soon after the floods.
func floodProbe(addresses []string) error {
	for _, address := range addresses {
		conn, reader, err := floodDial(address)
		if err == nil {
			_, err = conn.Write(command("GET", floodKey(1)))
		}
		if err == nil {
			_, err = reader.ReadString('\n')
			conn.Close()
		}
		if err != nil {
			return fmt.Errorf("after the floods %s does not answer: %w", address, err)
		}
	}
	return nil
}

// memory reads a figure of the process's memory, in bytes: VmRSS now, or VmHWM at most.
func (p *process) memory(name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			var kib int64
			_, err := fmt.Sscan(rest, &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc has no %s", name)
}

// forgetPeak makes VmHWM what the process takes now.
func (p *process) forgetPeak() error {
	const peak = "5"
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte(peak), 0)
}
