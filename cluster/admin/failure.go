package admin

import (
	"context"
	"errors"
	"net/http"

	"engine_race/cluster/service"
)

// Failure is the body of every answer that is no success.
type Failure struct {
	// Error says what failed, for people.
	Error string `json:"error"`
	// Kind names the error of package service, for programs: see KindError.
	Kind string `json:"kind"`
}

// kind ties an error to its name in a Failure and to its HTTP code.
type kind struct {
	err    error
	name   string
	status int
}

// kinds lists what errors.Is can find. The first match wins: a call whose outcome is unknown must
// not look like one that did nothing.
func kinds() []kind {
	return []kind{
		{service.ErrUnknown, "unknown", http.StatusGatewayTimeout},
		{service.ErrInvalid, "invalid", http.StatusBadRequest},
		{service.ErrConflict, "conflict", http.StatusConflict},
		{service.ErrBusy, "busy", http.StatusServiceUnavailable},
		{service.ErrLoading, "loading", http.StatusServiceUnavailable},
		{service.ErrUnavailable, "unavailable", http.StatusServiceUnavailable},
		{service.ErrFull, "full", http.StatusInsufficientStorage},
		{service.ErrCorrupt, "corrupt", http.StatusInternalServerError},
		{context.DeadlineExceeded, "unknown", http.StatusGatewayTimeout},
		{context.Canceled, "unknown", http.StatusGatewayTimeout},
	}
}

func kindOf(err error) kind {
	own := (*callError)(nil)
	errors.As(err, &own)
	for _, k := range kinds() {
		if errors.Is(err, k.err) {
			if own != nil && own.status != 0 {
				k.status = own.status
			}
			return k
		}
	}
	return kind{err: err, name: "internal", status: http.StatusInternalServerError}
}

// KindError returns the error of package service that a Failure names, or nil if it names none.
func KindError(name string) error {
	for _, k := range kinds() {
		if k.name == name {
			return k.err
		}
	}
	return nil
}

// callError is an error of this package's own checks.
type callError struct {
	message string
	status  int // 0: that of the cause
	cause   error
}

func (e *callError) Error() string { return e.message }
func (e *callError) Unwrap() error { return e.cause }

func invalid(message string) error {
	return &callError{message: message, cause: service.ErrInvalid}
}

func errCopying() error {
	return &callError{message: "nothing was done: another backup or restore of this node is under way",
		cause: service.ErrBusy}
}
