package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// memoryGroup limits the memory of the processes in it, the page cache of their files included.
type memoryGroup struct {
	path       string
	limitBytes uint64
}

const killedWait = 100 // tries to remove a group whose processes were killed

// newMemoryGroup makes a group of the kernel's first or second hierarchy. It takes root.
func newMemoryGroup(name string, limitBytes uint64) (*memoryGroup, error) {
	var failures []error
	for _, place := range []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		if _, err := os.Stat(filepath.Join(place.root, "cgroup.procs")); err != nil {
			failures = append(failures, err)
			continue
		}
		group := &memoryGroup{path: filepath.Join(place.root, name), limitBytes: limitBytes}
		if err := os.Mkdir(group.path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			failures = append(failures, err)
			continue
		}
		limit := []byte(strconv.FormatUint(limitBytes, 10))
		if err := os.WriteFile(filepath.Join(group.path, place.limit), limit, 0o644); err != nil {
			failures = append(failures, err, group.remove())
			continue
		}
		return group, nil
	}
	return nil, fmt.Errorf("memory cannot be limited: %w", errors.Join(failures...))
}

// enter is a shell command that puts its own process into the group; empty without a group.
func (g *memoryGroup) enter() string {
	if g == nil {
		return ""
	}
	return "echo $$ > '" + filepath.Join(g.path, "cgroup.procs") + "' && "
}

// environment tells Go's collector of garbage to leave half of the memory to the page cache, and to
// memory that it does not manage.
func (g *memoryGroup) environment() []string {
	if g == nil {
		return nil
	}
	return []string{"GOMEMLIMIT=" + strconv.FormatUint(g.limitBytes/2, 10)}
}

// remove deletes the group. Its processes have ended; the kernel may take a moment to notice.
func (g *memoryGroup) remove() error {
	if g == nil {
		return nil
	}
	var err error
	for range killedWait {
		err = os.Remove(g.path)
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}
		pause()
	}
	return err
}
