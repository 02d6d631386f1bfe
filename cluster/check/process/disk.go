package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ballastStepBytes is how much FillDisk asks for at once, at first.
const ballastStepBytes = 64 << 20

// imageName is the file that holds a node's file system.
const imageName = "disk"

// mountDisk gives the node a file system of its own, in a file.
func mountDisk(n *node, bytes int64) error {
	if os.Geteuid() != 0 {
		return errors.New("a file system for each node needs root: mount refuses other users")
	}
	image := filepath.Join(n.dir, imageName)
	file, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(bytes), file.Close()); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-m", "0", image},
		{"mount", "-o", "loop", image, n.dataDir},
	} {
		if output, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("node %d: %q: %w: %s", n.id, argv, err, output)
		}
	}
	n.mounted = true
	return os.Remove(filepath.Join(n.dataDir, "lost+found"))
}

func unmount(path string) error {
	if err := syscall.Unmount(path, 0); err == nil {
		return nil
	}
	if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// unmountBelow unmounts everything below the directory. Failures show up at the next mount.
func unmountBelow(dir string) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			_ = unmount(fields[4])
		}
	}
}

// FillDisk writes a ballast file until the node's disk has no room.
func (c *Cluster) FillDisk(id int) error {
	n := c.nodes[id-1]
	if !n.mounted {
		return fmt.Errorf("node %d has no file system of its own", id)
	}
	file, err := os.OpenFile(n.ballast(), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	var at int64
	for step := int64(ballastStepBytes); step >= 4096; {
		err := syscall.Fallocate(int(file.Fd()), 0, at, step)
		switch {
		case err == nil:
			at += step
		case errors.Is(err, syscall.ENOSPC):
			step /= 2
		case !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("node %d: fill the disk: %w", id, err)
		}
	}
	return nil
}

// FreeDisk removes the ballast file. It does nothing if there is none.
func (c *Cluster) FreeDisk(id int) error {
	if err := os.Remove(c.nodes[id-1].ballast()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (n *node) ballast() string { return filepath.Join(n.dataDir, "ballast") }

// Wipe deletes the data of a node that does not run, as if its disk were new.
func (c *Cluster) Wipe(id int) error {
	if c.Running(id) {
		return fmt.Errorf("node %d runs: its data cannot be wiped", id)
	}
	entries, err := os.ReadDir(c.nodes[id-1].dataDir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(c.nodes[id-1].dataDir, entry.Name())
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
