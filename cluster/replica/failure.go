package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"engine_race/cluster/engine"
	"engine_race/cluster/files"
)

// Failure says why a replica cannot do its work. Dragonboat ends the process, with the replicas of
// all shards, for an error of a state machine. So a replica tells dragonboat of none: it keeps its
// failure, and the node replaces it.
type Failure struct {
	Err error
	// Stopped: the replica applies nothing any more and answers nothing. Otherwise some of its data
	// is damaged: it answers for the rest, but it can give no other replica a copy.
	Stopped bool
}

// Failure gives the first failure, or nil. A failure that stops the replica replaces one that does
// not.
func (r *Replica) Failure() *Failure { return r.failure.Load() }

func (r *Replica) fail(err error, stops bool) {
	if stops {
		r.dead.Store(true)
	}
	next := &Failure{Err: err, Stopped: stops}
	for {
		before := r.failure.Load()
		if before != nil && (before.Stopped || !stops) {
			return
		}
		if r.failure.CompareAndSwap(before, next) {
			break
		}
	}
	r.config.Logger.Error("a replica has failed", "directory", r.config.Directory,
		"stopped", stops, "error", err)
}

// noteDamage looks at the error of a lookup, a scan or a backup.
func (r *Replica) noteDamage(err error) {
	if errors.Is(err, engine.ErrCorruption) {
		r.fail(err, false)
	}
}

// IsDamage tells whether a failure is one of the stored data: to open the store again is no help.
func (f *Failure) IsDamage() bool {
	return errors.Is(f.Err, engine.ErrCorruption) || errors.Is(f.Err, errDamaged)
}

// MayPass tells whether a failure says nothing of the data: the disk is full, or the configuration
// or the program is another one.
func (f *Failure) MayPass() bool {
	return errors.Is(f.Err, engine.ErrFull) || isFullDisk(f.Err) ||
		errors.Is(f.Err, engine.ErrInvalidArgument) || errors.Is(f.Err, engine.ErrNotSupported)
}

// errDamaged: the files of a replica do not belong together, or were given up.
var errDamaged = errors.New("the replica is lost")

const lostName = "lost"

// GiveUp notes in a replica's directory that its data is lost, for good. Check fails from then on.
func GiveUp(directory string, reason error) error {
	return files.WriteWhole(filepath.Join(directory, lostName), []byte(reason.Error()+"\n"))
}

// Check looks at the files of a replica that is not open. It fails when the replica was given up or
// its index is damaged, and when an index is stored but the store is not there. No Open could go on
// then. A file that cannot be read now, for want of rights or of open files, proves nothing.
func Check(directory string) error {
	reason, err := os.ReadFile(filepath.Join(directory, lostName))
	if err == nil {
		return fmt.Errorf("%w: %s was given up: %s", errDamaged, directory, reason)
	}
	at, found, err := readApplied(directory)
	if errors.Is(err, errDamaged) {
		return err
	}
	if err != nil || !found || at.index == 0 {
		return nil
	}
	_, err = os.Stat(filepath.Join(directory, storeName, "manifest"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the store below %s: %w", errDamaged, directory, err)
	}
	return nil
}
