// Package replica keeps a range of the keys in a store of its own: a state machine for dragonboat.
//
// The index of the last applied entry is stored by Sync alone, after the store was made durable.
// After a power loss a store keeps a prefix of each bucket's records. An index that was stored
// together with the records could be ahead of some of them. Entries are absolute puts and
// deletions: after a restart those behind the stored index are applied again, and lead to the same
// state.
//
// Thread safety: dragonboat calls Update, Sync, PrepareSnapshot, RecoverFromSnapshot and Close one
// at a time. Lookup, SaveSnapshot, SyncInBackground and the getters may be called at any time.
package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/files"
	"engine_race/cluster/keyspace"
)

const (
	storeName = "store"
	// Lookups of a replica that run at one time. Each holds a thread while it waits for the disk.
	maxLookups = 32
)

// ErrClosed: the replica was closed, is loading a snapshot, or has left out entries after Stop.
var ErrClosed = errors.New("the replica has no open store")

// Config says where a replica lies and how it is opened.
type Config struct {
	Directory string
	// The keys that the store takes, both included. The shard has none outside of them at any time.
	Lower, Upper uint64
	// Closed: the shard begins without keys. A command gives it its first ones: see bounds.go.
	Closed bool
	// ValueBytes is the size of the cluster's values.
	ValueBytes int
	Options    map[string]string // of the engine
	Logger     *slog.Logger
}

// Replica is the state machine.
type Replica struct {
	config Config
	reader uint64

	// Guards the store. It is nil before Open, after Close and while a snapshot is loaded.
	mu    sync.RWMutex
	store *engine.Store

	// Has an element during each Update. It guards the tracker: nil, or the one that was begun last.
	updating chan struct{}
	tracker  *Tracker

	writer writer // of Update and RecoverFromSnapshot
	looked looked // of Update

	// Guards the stored index, which never falls but for a snapshot that is loaded.
	syncMu sync.Mutex
	synced atomic.Uint64

	applied  atomic.Pointer[position]
	bounds   atomic.Pointer[keyspace.Entry] // Update may be ahead of `applied` with them
	full     atomic.Bool
	stopping atomic.Bool
	// Entries were left out after Stop or a failure: nothing may be stored any more.
	dead    atomic.Bool
	failure atomic.Pointer[Failure]

	// Guards the last mark, and the channel that is closed when another comes.
	markMu      sync.Mutex
	marked      *marked
	markChanged chan struct{}

	// Has room for the lookups that may run at one time.
	lookups chan struct{}

	// The last index of the Update that began last.
	begun atomic.Uint64

	// How many walks for a count have begun.
	countsBegun atomic.Uint64
	// Guards the last count, which was walk number countNumber. It holds as long as countIndex is
	// the applied index and no Update has begun, unless that is 0.
	countMu                        sync.Mutex
	count, countNumber, countIndex uint64
}

// New makes a replica, which dragonboat opens.
func New(config Config) *Replica {
	r := &Replica{config: config, reader: rand.Uint64(), lookups: make(chan struct{}, maxLookups),
		markChanged: make(chan struct{}), updating: make(chan struct{}, 1)}
	r.applied.Store(&position{})
	r.setBounds(position{})
	return r
}

// Reader is a random number that no other replica has, nor this one after a restart. The replica
// reads for the commands that have it.
func (r *Replica) Reader() uint64 { return r.reader }

// ValueBytes is the size of each value.
func (r *Replica) ValueBytes() int { return r.config.ValueBytes }

// Applied is the index of the last entry that was applied.
func (r *Replica) Applied() uint64 { return r.applied.Load().index }

// Token is the highest token of a command that was applied.
func (r *Replica) Token() uint64 { return r.applied.Load().token }

// Synced is the index that a restart begins with.
func (r *Replica) Synced() uint64 { return r.synced.Load() }

// Full tells whether the disk has no room for an entry that waits to be applied.
func (r *Replica) Full() bool { return r.full.Load() }

// Stop lets an Update fail that waits for room on a full disk.
func (r *Replica) Stop() { r.stopping.Store(true) }

// Metrics gives the counters of the engine in Prometheus' text format.
func (r *Replica) Metrics() (string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.store == nil {
		return "", ErrClosed
	}
	return r.store.Metrics()
}

// Open opens the store and gives the stored index. After a failure it waits until dragonboat stops
// the replica: it ends the process for any other error.
func (r *Replica) Open(stopped <-chan struct{}) (uint64, error) {
	index, err := r.open()
	if err != nil {
		r.fail(err, true)
		<-stopped
		return 0, statemachine.ErrOpenStopped
	}
	return index, nil
}

func (r *Replica) open() (uint64, error) {
	if err := files.MakeDirectory(r.config.Directory); err != nil {
		return 0, err
	}
	at, found, err := readApplied(r.config.Directory)
	if err != nil {
		return 0, err
	}
	if err := Check(r.config.Directory); err != nil {
		return 0, err
	}
	// Without an index the store may hold a part of a snapshot.
	store, err := r.openStore(!found)
	if err != nil {
		return 0, err
	}
	if err := r.publish(store, at); err != nil {
		return 0, errors.Join(err, store.Close())
	}
	return at.index, nil
}

func (r *Replica) openStore(wipe bool) (*engine.Store, error) {
	directory := filepath.Join(r.config.Directory, storeName)
	if wipe {
		if err := os.RemoveAll(directory); err != nil {
			return nil, err
		}
	}
	options := engine.Sized(r.config.Options, r.config.ValueBytes)
	options["key_range"] = fmt.Sprintf("%d-%d", r.config.Lower, r.config.Upper)
	return engine.Open(directory, options)
}

// CheckOptions fails if the engine refuses these options of a store, or its values. It opens one in
// a temporary directory. Other reasons why a store cannot be opened, such as a full disk, do not
// count.
func CheckOptions(options map[string]string, valueBytes int) error {
	directory, err := os.MkdirTemp("", "engine-raced")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(directory)
	store, err := engine.Open(filepath.Join(directory, storeName), engine.Sized(options, valueBytes))
	if err == nil {
		return store.Close()
	}
	if errors.Is(err, engine.ErrInvalidArgument) {
		return err
	}
	return nil
}

// publish lets lookups and updates use a store that holds all entries up to a position.
func (r *Replica) publish(store *engine.Store, at position) error {
	writer, err := r.newWriter(store, func() error {
		if r.stopping.Load() {
			return errStopped
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.forgetTracked()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store, r.writer = store, writer
	r.applied.Store(&at)
	r.setBounds(at)
	r.begun.Store(at.index)
	r.synced.Store(at.index)
	r.setMark(nil)
	r.logMessages(store)
	return nil
}

func (r *Replica) logMessages(store *engine.Store) {
	for _, message := range store.TakeLog() {
		level := []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError}[min(message.Level, 2)]
		r.config.Logger.Log(context.Background(), level, message.Text,
			"directory", r.config.Directory)
	}
}

// closeStore waits for lookups that are under way, and for a backup. Others are refused meanwhile.
func (r *Replica) closeStore() error {
	r.mu.Lock()
	store, last := r.store, r.writer
	r.store, r.writer = nil, writer{}
	r.mu.Unlock()
	if store == nil {
		return nil
	}
	r.setMark(nil)
	err := store.Close()
	r.logMessages(store)
	last.destroy()
	return err
}

// isWhole tells whether the store is open and has all entries that dragonboat counts as applied. A
// dead replica has left some out. The caller holds `mu`.
func (r *Replica) isWhole() bool { return r.store != nil && !r.dead.Load() }

// Close closes the store.
func (r *Replica) Close() error { return r.closeStore() }

// Sync makes applied entries durable, and then stores their index. It fails with a noSnapshotError.
// Dragonboat calls it before it takes a snapshot, and after it has loaded one. After a load an
// error would end the process; there is nothing to sync then.
func (r *Replica) Sync() error {
	err := r.sync()
	r.noteSync(err)
	if err != nil {
		return &noSnapshotError{err}
	}
	return nil
}

// SyncInBackground is Sync beside Update, so that dragonboat's own calls have little left to do.
// It does nothing while there is no store.
func (r *Replica) SyncInBackground() error {
	if r.Applied() == r.synced.Load() {
		return nil
	}
	err := r.sync()
	r.noteSync(err)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// noteSync looks at the error of a sync. A disk without room may have some later. After any other
// error the store takes no writes.
func (r *Replica) noteSync(err error) {
	if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, engine.ErrFull) &&
		!isFullDisk(err) {
		r.fail(fmt.Errorf("sync the store: %w", err), true)
	}
}

// isFullDisk tells whether a file could not be written for want of room.
func isFullDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func (r *Replica) sync() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.syncMu.Lock()
	defer r.syncMu.Unlock()
	// Read before the store is synced: entries up to here were written to the store.
	at := *r.applied.Load()
	isSynced := at.index == r.synced.Load() && at.index != 0
	// A dead replica may have left later entries out, unless none came.
	if isSynced && at.index == r.begun.Load() {
		return nil
	}
	if !r.isWhole() {
		return ErrClosed
	}
	if isSynced {
		return nil
	}
	if err := r.store.Sync(); err != nil {
		return err
	}
	if err := writeApplied(r.config.Directory, at); err != nil {
		return err
	}
	r.synced.Store(at.index)
	return nil
}
