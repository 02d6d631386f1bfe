// Package engine is the store of 8-byte keys and values of one size, by way of its C API.
//
// Keys are numbers: their 8 bytes read big-endian. Every method of a Store may be called from any
// goroutine, also beside Close. A Snapshot may be read from any goroutine, a Batch and an Iterator
// are used by one at a time. Each call holds its thread while it waits for the disk, so callers
// bound how many run at once.
package engine

/*
#cgo CFLAGS: -I${SRCDIR}/../../include
#cgo LDFLAGS: ${SRCDIR}/../../lib/libengine.a -lstdc++ -lm -lpthread -lrt
#include "calls.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"unsafe"
)

// Version is the version of the engine that is linked.
func Version() string { return C.GoString(C.engine_race_version()) }

// Codes that callers handle. Every error of this package is one of them as errors.Is tells, or
// another code in an *Error.
var (
	ErrNotFound        = &Error{Code: C.ENGINE_RACE_NOT_FOUND}
	ErrCorruption      = &Error{Code: C.ENGINE_RACE_CORRUPTION}
	ErrInvalidArgument = &Error{Code: C.ENGINE_RACE_INVALID_ARGUMENT}
	ErrFull            = &Error{Code: C.ENGINE_RACE_FULL}
	ErrNotSupported    = &Error{Code: C.ENGINE_RACE_NOT_SUPPORTED}
)

// Error is a code of the engine, with the engine's message.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string {
	name := C.GoString(C.engine_race_code_name(C.int(e.Code)))
	if e.Message == "" {
		return name
	}
	return name + ": " + e.Message
}

// Is compares codes.
func (e *Error) Is(target error) bool {
	var other *Error
	return errors.As(target, &other) && other.Code == e.Code
}

func failure(out *C.outcome) error {
	if out.code == C.ENGINE_RACE_OK {
		return nil
	}
	return &Error{Code: int(out.code), Message: C.GoString(&out.message[0])}
}

// codeError gives the error of one record's code.
func codeError(code int32) error {
	if code == C.ENGINE_RACE_OK {
		return nil
	}
	return &Error{Code: int(code)}
}

// Store is an open store. Close ends it; its snapshots and iterators fail after that.
type Store struct {
	store      *C.engine_race_store
	queue      *C.engine_race_log_queue
	valueBytes int
}

// Open opens the store in a directory, made when missing. Options are named as in the engine, their
// values are texts.
func Open(directory string, options map[string]string) (*Store, error) {
	o, err := newOptions(options)
	if err != nil {
		return nil, err
	}
	defer C.engine_race_options_destroy(o)
	s := &Store{}
	if code := C.engine_race_log_queue_create(1024, &s.queue); code != C.ENGINE_RACE_OK {
		return nil, &Error{Code: int(code), Message: "cannot make a queue of log messages"}
	}
	C.engine_race_options_set_log_queue(o, s.queue)
	name := C.CString(directory)
	defer C.free(unsafe.Pointer(name))
	var out C.outcome
	C.er_open(name, o, &s.store, &out)
	if err := failure(&out); err != nil {
		C.engine_race_log_queue_destroy(s.queue)
		return nil, fmt.Errorf("open the store in %s: %w", directory, err)
	}
	s.valueBytes = int(C.engine_race_value_bytes(s.store))
	return s, nil
}

// ValueBytes is the size of each value of the store.
func (s *Store) ValueBytes() int { return s.valueBytes }

// Sized gives a copy of options of a store, with the size of its values.
func Sized(options map[string]string, valueBytes int) map[string]string {
	sized := map[string]string{}
	maps.Copy(sized, options)
	sized["value_bytes"] = strconv.Itoa(valueBytes)
	return sized
}

func newOptions(options map[string]string) (*C.engine_race_options, error) {
	o := C.engine_race_options_create()
	if o == nil {
		return nil, &Error{Code: C.ENGINE_RACE_OUT_OF_MEMORY}
	}
	for name, value := range options {
		cName, cValue := C.CString(name), C.CString(value)
		var out C.outcome
		C.er_set(o, cName, cValue, &out)
		C.free(unsafe.Pointer(cName))
		C.free(unsafe.Pointer(cValue))
		if err := failure(&out); err != nil {
			C.engine_race_options_destroy(o)
			return nil, fmt.Errorf("option %s = %q: %w", name, value, err)
		}
	}
	return o, nil
}

// Close waits for calls under way, and closes the store. The second call fails.
func (s *Store) Close() error {
	var out C.outcome
	C.er_close(s.store, &out)
	return failure(&out)
}

// LogMessage is a message of the engine. Level is 0, 1 or 2: information, a warning, an error.
type LogMessage struct {
	Level int
	Text  string
}

// TakeLog gives the messages that wait, oldest first. One goroutine at a time may call it, also
// after Close.
func (s *Store) TakeLog() []LogMessage {
	var messages []LogMessage
	message := C.engine_race_log_message{}
	message.struct_bytes = C.sizeof_engine_race_log_message
	for C.engine_race_log_queue_take(s.queue, &message) == C.ENGINE_RACE_OK {
		messages = append(messages, LogMessage{int(message.level), C.GoString(&message.text[0])})
	}
	return messages
}

// Results has the outcome of a read of many keys, by their places.
type Results []int32

// Err is nil if key i was read, and ErrNotFound if it is absent.
func (r Results) Err(i int) error { return codeError(r[i]) }

func checkMany(keys []uint64, values []byte, valueBytes int, results Results) error {
	if len(values) != len(keys)*valueBytes || len(results) != len(keys) {
		return fmt.Errorf("%w: %d keys with %d bytes of values and %d results", ErrInvalidArgument,
			len(keys), len(values), len(results))
	}
	return nil
}

// ReadMany reads many keys at once: the value of keys[i] goes to values[i*ValueBytes:], its outcome
// to results[i]. An absent key or a damaged record fails in results alone.
func (s *Store) ReadMany(keys []uint64, values []byte, results Results) error {
	if err := checkMany(keys, values, s.valueBytes, results); err != nil || len(keys) == 0 {
		return err
	}
	var out C.outcome
	C.er_read_many(s.store, C.size_t(len(keys)), (*C.uint64_t)(&keys[0]),
		unsafe.Pointer(&values[0]), (*C.int)(&results[0]), &out)
	return failure(&out)
}

// Sync makes all acknowledged writes durable.
func (s *Store) Sync() error {
	var out C.outcome
	C.er_sync(s.store, &out)
	return failure(&out)
}

// Write writes a batch as a whole. ErrFull: nothing was written.
func (s *Store) Write(batch *Batch) error {
	var out C.outcome
	C.er_write_batch(s.store, batch.batch, &out)
	return failure(&out)
}

// Batch is a list of puts and deletions. It copies values. Destroy frees it.
type Batch struct {
	batch      *C.engine_race_batch
	valueBytes int
	entries    int
	bytes      int
}

// The kinds of operations that Append takes. One is encoded as its kind in a byte, the key as 8
// bytes big-endian, and for OpPut the value.
const (
	OpDelete = C.er_op_delete
	OpPut    = C.er_op_put
	OpRead   = C.er_op_read // writes nothing
)

// NewBatch makes an empty batch for stores with values of this size.
func NewBatch(valueBytes int) (*Batch, error) {
	if valueBytes < C.ENGINE_RACE_MIN_VALUE_BYTES || valueBytes > C.ENGINE_RACE_MAX_VALUE_BYTES {
		return nil, fmt.Errorf("%w: no store has values of %d bytes", ErrInvalidArgument, valueBytes)
	}
	b := C.engine_race_batch_create(C.uint32_t(valueBytes))
	if b == nil {
		return nil, &Error{Code: C.ENGINE_RACE_OUT_OF_MEMORY}
	}
	return &Batch{batch: b, valueBytes: valueBytes}, nil
}

// Put adds a record, whose value has the batch's size.
func (b *Batch) Put(key uint64, value []byte) error {
	if len(value) != b.valueBytes {
		return fmt.Errorf("%w: a value has %d bytes, not %d", ErrInvalidArgument, len(value),
			b.valueBytes)
	}
	code := C.engine_race_batch_write(b.batch, C.uint64_t(key), unsafe.Pointer(&value[0]))
	if code == C.ENGINE_RACE_OK {
		b.entries++
		b.bytes += b.valueBytes
	}
	return codeError(int32(code))
}

// Append adds encoded operations in one call. After an error the batch has those before the one
// that failed.
func (b *Batch) Append(ops []byte) error {
	if len(ops) == 0 {
		return nil
	}
	var added C.size_t
	code := C.er_batch_append(b.batch, (*C.uint8_t)(&ops[0]), C.size_t(len(ops)),
		C.size_t(b.valueBytes), &added)
	b.entries += int(added)
	b.bytes += len(ops)
	return codeError(int32(code))
}

// Len is the number of entries, earlier ones of a key included.
func (b *Batch) Len() int { return b.entries }

// Bytes is about the memory that the entries take.
func (b *Batch) Bytes() int { return b.bytes }

// Clear drops all entries and keeps their memory.
func (b *Batch) Clear() {
	C.engine_race_batch_clear(b.batch)
	b.entries, b.bytes = 0, 0
}

// Destroy frees the batch.
func (b *Batch) Destroy() { C.engine_race_batch_destroy(b.batch) }

// Metrics gives the engine's counters and latencies in Prometheus' text format.
func (s *Store) Metrics() (string, error) {
	name := C.CString("prometheus")
	defer C.free(unsafe.Pointer(name))
	var text *C.char
	var out C.outcome
	C.er_property(s.store, name, &text, &out)
	if err := failure(&out); err != nil {
		return "", err
	}
	defer C.engine_race_free(unsafe.Pointer(text))
	return C.GoString(text), nil
}
