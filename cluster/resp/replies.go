package resp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"engine_race/cluster/service"
)

// replyError is the text of an error reply. Its first word is the kind.
type replyError string

func (err replyError) Error() string { return string(err) }

// unknownReply is an error reply that leaves open whether a write was done. Observers find
// service.ErrUnknown in it.
type unknownReply struct{ replyError }

func (unknownReply) Unwrap() error { return service.ErrUnknown }

const (
	errNoAuth    = replyError("NOAUTH Authentication required.")
	errWrongPass = replyError(
		"WRONGPASS invalid username-password pair or user is disabled.")
	errWrongType = replyError(
		"WRONGTYPE Operation against a key holding the wrong kind of value")
	errSyntax     = replyError("ERR syntax error")
	errNotInteger = replyError("ERR value is not an integer or out of range")
	errBusyMemory = replyError("BUSY nothing was done: too many bytes are in flight, try again")
	errStopping   = replyError("UNAVAILABLE nothing was done: the node is stopping")
	errMaxClients = replyError("ERR max number of clients reached")
)

// An access says whether a failed call may have written.
type access int

const (
	reading access = iota
	writing
)

// serviceReply turns an error of the service into the reply. The text says whether a write may have
// been done. An error of no known kind counts as an unknown outcome.
func serviceReply(err error, kind access) error {
	detail := func(sentinel error) string {
		text := strings.TrimPrefix(err.Error(), sentinel.Error())
		if text = strings.TrimPrefix(text, ": "); text == "" {
			return ""
		}
		return ": " + text[:min(len(text), 200)]
	}
	format := func(text string, sentinel error) replyError {
		return replyError(text + detail(sentinel))
	}
	unknown := func() error {
		if errors.Is(err, context.DeadlineExceeded) {
			return unknownReply{"UNKNOWN the write may or may not have been done: the time is over"}
		}
		return unknownReply{
			format("UNKNOWN the write may or may not have been done", service.ErrUnknown)}
	}
	switch {
	// ErrUnknown first: a write that was done in part wraps the refusal of another part.
	case errors.Is(err, service.ErrUnknown) && kind == writing:
		return unknown()
	case errors.Is(err, service.ErrUnavailable):
		return format("UNAVAILABLE nothing was done: no leader or no quorum in time",
			service.ErrUnavailable)
	case errors.Is(err, service.ErrBusy):
		return format("BUSY nothing was done: a limit of the node is reached, try again",
			service.ErrBusy)
	case errors.Is(err, service.ErrFull):
		return format("FULL nothing was done: the disk is full", service.ErrFull)
	case errors.Is(err, service.ErrLoading):
		return format("LOADING nothing was done: the replica has not applied its log yet",
			service.ErrLoading)
	case errors.Is(err, service.ErrCorrupt) && kind == reading:
		return format("CORRUPT nothing was done: stored data failed its checksum",
			service.ErrCorrupt)
	case errors.Is(err, service.ErrCorrupt):
		return unknownReply{format("CORRUPT stored data failed its checksum, and the write may or"+
			" may not have been done", service.ErrCorrupt)}
	case kind == reading:
		return format("UNAVAILABLE nothing was done: the read failed", service.ErrUnknown)
	default:
		return unknown()
	}
}

// countReply counts an error reply by its first word.
func (counters *Counters) countReply(text string) {
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "UNKNOWN":
		counters.RepliesUnknown.Add(1)
	case "UNAVAILABLE":
		counters.RepliesUnavailable.Add(1)
	case "BUSY":
		counters.RepliesBusy.Add(1)
	case "FULL":
		counters.RepliesFull.Add(1)
	case "LOADING":
		counters.RepliesLoading.Add(1)
	case "CORRUPT":
		counters.RepliesCorrupt.Add(1)
	default:
		counters.RepliesError.Add(1)
	}
}

// wrongCount is the reply to a command with too few or too many arguments.
func wrongCount(name string) error {
	return replyError(fmt.Sprintf("ERR wrong number of arguments for '%s' command", name))
}
