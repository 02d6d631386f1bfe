package resp

import (
	"fmt"
	"time"

	"engine_race/cluster/budget"
	"engine_race/cluster/service"
)

// Sizes that no option changes, in bytes.
const (
	// ReplyBytes bounds a reply to MGET, RANGE or SCAN.
	ReplyBytes = 16 << 20
	// BaseBufferBytes is the read buffer of a connection that has nothing buffered. It is also the
	// longest inline command. Every larger buffer counts as bytes in flight.
	BaseBufferBytes = 8 << 10
	// flushBytes is how many bytes of replies are gathered before they are sent.
	flushBytes = 64 << 10
	// preAuthBytes and preAuthArguments bound a command of a client that is not authenticated.
	preAuthBytes     = 16 << 10
	preAuthArguments = 16
	// patternBytes bounds the pattern of SCAN's MATCH.
	patternBytes = 1 << 10
)

// Encoded sizes, in bytes: an array header, and "$8\r\n" key "\r\n".
const (
	headerReplyBytes = 16
	keyReplyBytes    = 4 + service.KeyBytes + 2
)

// A write holds this for each op. Its value is copied into a command, and again into an entry of
// the log. Keys, ops and answers lie beside.
const (
	writeCopies  = 2
	writeOpBytes = 128
)

// scanKeyBytes is what a key of SCAN takes: a service.Record and its encoded reply, rounded up.
const scanKeyBytes = 64

const (
	// MaxScanKeys bounds SCAN's COUNT; a greater COUNT counts as this one.
	MaxScanKeys     = 10_000
	DefaultScanKeys = 10
)

// groupWriteOps is how many ops one Service.Write has, if more than one command of a round asks for
// them. Limits.PipelineBytes bounds their bytes.
const groupWriteOps = 64

// Limits bounds what clients may use. A field that is 0 takes its default.
type Limits struct {
	// Clients is how many connections may be open. Others get an error and are closed.
	// Default 10000.
	Clients int
	// CommandBytes bounds one command as it is encoded. A client that declares a longer one gets an
	// error and is closed. Default 8 MiB.
	CommandBytes int
	// CommandArguments bounds the arguments of one command, its name included. Default 16384.
	CommandArguments int
	// PipelineCommands and PipelineBytes bound a round: the commands of one client that are
	// buffered and executed together. Further commands wait in the socket. Defaults 1024 and 1 MiB.
	PipelineCommands int
	PipelineBytes    int
	// BytesInFlight bounds the requests and replies that are held for all clients together, buffers
	// of BaseBufferBytes aside. Default 256 MiB.
	BytesInFlight int64
	// BusyWait is how long a client waits for room among BytesInFlight; the server reads nothing
	// from the client meanwhile. Then its command gets BUSY. Default 500 ms.
	BusyWait time.Duration
	// IdleTimeout closes connections without requests; negative: never. Default 5 minutes.
	IdleTimeout time.Duration
	// CommandTimeout is how long a command may take from its first byte to its last, and a TLS
	// handshake from its beginning to its end. A client that needs a password has as long to send
	// it. It also bounds the time from MULTI to EXEC or DISCARD. Default 30 s.
	CommandTimeout time.Duration
	// WriteTimeout is how long a client may take to accept 128 KiB of replies. Then its connection
	// is closed. Default 10 s.
	WriteTimeout time.Duration
	// RequestTimeout is the deadline of each call of the service. Default 2 s.
	RequestTimeout time.Duration
	// AuthDelay is how long the reply to a first wrong password waits. It grows by as much with
	// each further one on the connection, up to ten times. Default 100 ms.
	AuthDelay time.Duration
	// DrainIdle is how long a connection must be silent to be closed by Shutdown. Default 50 ms.
	DrainIdle time.Duration
}

// withDefaults fills fields that are 0.
func (limits Limits) withDefaults() Limits {
	integer := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	duration := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	integer(&limits.Clients, 10_000)
	integer(&limits.CommandBytes, 8<<20)
	integer(&limits.CommandArguments, 16384)
	integer(&limits.PipelineCommands, 1024)
	integer(&limits.PipelineBytes, 1<<20)
	if limits.BytesInFlight == 0 {
		limits.BytesInFlight = 256 << 20
	}
	duration(&limits.BusyWait, 500*time.Millisecond)
	duration(&limits.IdleTimeout, 5*time.Minute)
	duration(&limits.CommandTimeout, 30*time.Second)
	duration(&limits.WriteTimeout, 10*time.Second)
	duration(&limits.RequestTimeout, 2*time.Second)
	duration(&limits.AuthDelay, 100*time.Millisecond)
	duration(&limits.DrainIdle, 50*time.Millisecond)
	return limits
}

// Validate refuses limits that cannot work. New does the same.
func (limits Limits) Validate() error { return limits.withDefaults().validate() }

// validate refuses limits that no request could satisfy.
func (limits Limits) validate() error {
	const smallest = 2 * BaseBufferBytes
	switch {
	case limits.Clients < 1, limits.PipelineCommands < 1, limits.PipelineBytes < 1:
		return fmt.Errorf("resp: limits on clients and pipelines must be at least 1")
	case limits.CommandArguments < 3 || limits.CommandArguments > 1<<20:
		return fmt.Errorf("resp: the limit on arguments is %d, not from 3 to 1048576",
			limits.CommandArguments)
	case limits.CommandBytes < smallest || limits.CommandBytes > 1<<30:
		return fmt.Errorf("resp: the limit on a command is %d bytes, not from %d to 1 GiB",
			limits.CommandBytes, smallest)
	case limits.PipelineBytes > 1<<28:
		return fmt.Errorf("resp: the limit on a pipeline is %d bytes, more than 256 MiB",
			limits.PipelineBytes)
	case limits.BytesInFlight < limits.leastBytesInFlight():
		return fmt.Errorf("resp: the limit on bytes in flight is %d, less than %d: one client may"+
			" need %d, and leaves room for others", limits.BytesInFlight,
			limits.leastBytesInFlight(), limits.mostOfClient())
	case limits.BusyWait < 0, limits.CommandTimeout < 0, limits.WriteTimeout < 0,
		limits.RequestTimeout < 0, limits.AuthDelay < 0, limits.DrainIdle < 0:
		return fmt.Errorf("resp: a time-out is negative")
	}
	return nil
}

// strangersShare is the part of the bytes in flight, and a strangersShare-th of the connections is
// what clients have that are not known yet.
const strangersShare = 16

// strangers is how many connections may be of clients that are not known yet.
func (limits Limits) strangers() int {
	return max(limits.Clients/strangersShare, min(limits.Clients, strangersShare))
}

func (limits Limits) strangersBytes() int64 { return limits.BytesInFlight / strangersShare }

// Budget makes the budget of known clients.
func (limits Limits) Budget() *budget.Budget {
	limits = limits.withDefaults()
	return budget.New(limits.BytesInFlight - limits.strangersBytes())
}

// mostOfClient is what one client may need: a command's buffer and arguments, and the copies of a
// write or the greatest reply. While the buffer grows, the smaller one takes less than these.
func (limits Limits) mostOfClient() int64 {
	buffer, copies := bufferBytes(bufferClass(limits.CommandBytes)), writeCopies*limits.CommandBytes
	arguments := limits.CommandArguments * (2*spanBytes + writeOpBytes)
	return int64(buffer + max(copies, ReplyBytes) + flushBytes + arguments)
}

// leastBytesInFlight is the least limit with which one client gets what it may need.
func (limits Limits) leastBytesInFlight() int64 {
	least := budget.Least(limits.mostOfClient())
	return least + least/(strangersShare-1) + 1
}
