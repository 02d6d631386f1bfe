package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"
)

// The call that lets an ext4 file system end at once. With the flag it writes nothing more, its
// journal included: what was not synced is lost.
const (
	ext4Shutdown   = 0x8004587d
	withoutJournal = uint32(2)
)

// CutPower ends a node as a power loss does: its process is killed, and its file system loses what
// was neither synced nor written back. Start brings the node back. The node must have a file system
// of its own.
func (c *Cluster) CutPower(id int) error {
	n := c.nodes[id-1]
	if !n.mounted {
		return fmt.Errorf("node %d has no file system of its own", id)
	}
	if err := c.Kill(id); err != nil {
		return err
	}
	if err := shutDown(n.dataDir); err != nil {
		return fmt.Errorf("node %d: shut down the file system: %w", id, err)
	}
	if err := unmount(n.dataDir); err != nil {
		return err
	}
	n.mounted = false
	// Other nodes' mount namespaces may still have the old file system. A mount of the same file
	// would give that one, so the new one gets a copy.
	image := filepath.Join(n.dir, imageName)
	for _, argv := range [][]string{
		{"cp", "--sparse=always", image, image + ".new"},
		{"mv", image + ".new", image},
		{"mount", "-o", "loop", image, n.dataDir},
	} {
		if output, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("node %d: %q: %w: %s", id, argv, err, output)
		}
	}
	n.mounted = true
	return nil
}

func shutDown(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	flag := withoutJournal
	_, _, number := syscall.Syscall(syscall.SYS_IOCTL, directory.Fd(), ext4Shutdown,
		uintptr(unsafe.Pointer(&flag)))
	if number != 0 {
		err = number
	}
	return errors.Join(err, directory.Close())
}
