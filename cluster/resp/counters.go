package resp

import "sync/atomic"

// Counters counts since the server's start, and has gauges. Any goroutine may read them.
type Counters struct {
	ConnectionsAccepted atomic.Uint64
	ConnectionsRefused  atomic.Uint64 // Limits.Clients was reached
	ConnectionsOpen     atomic.Int64  // gauge
	ConnectionsIdle     atomic.Uint64 // closed by IdleTimeout
	ConnectionsSlow     atomic.Uint64 // closed by WriteTimeout or CommandTimeout
	HandshakesFailed    atomic.Uint64 // TLS
	Commands            atomic.Uint64 // commands executed, errors included
	BytesReceived       atomic.Uint64 // without TLS's own
	BytesSent           atomic.Uint64 // without TLS's own
	ProtocolErrors      atomic.Uint64 // requests that could not be parsed
	AuthFailures        atomic.Uint64 // wrong passwords and unknown users
	RepliesUnknown      atomic.Uint64 // UNKNOWN: the write may have been done
	RepliesUnavailable  atomic.Uint64 // UNAVAILABLE
	RepliesBusy         atomic.Uint64 // BUSY, from the service or for want of room in flight
	RepliesFull         atomic.Uint64 // FULL
	RepliesLoading      atomic.Uint64 // LOADING
	RepliesCorrupt      atomic.Uint64 // CORRUPT
	RepliesError        atomic.Uint64 // every other error: wrong arguments, NOAUTH
}

// Observer learns how long a command took, in seconds, from its execution's begin to its reply's
// encoding, and its error or nil. The error is service.ErrUnknown, as errors.Is tells, if the
// outcome of a write is unknown. Commands that were joined took as long as their joint call. The
// command is a name in lower case, or "unknown". Commands that a transaction has queued are a part
// of its EXEC. Calls come from many goroutines.
type Observer func(command string, seconds float64, err error)
