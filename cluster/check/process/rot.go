package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"engine_race/cluster/check/value"
)

// Rot changes a byte of each value that the stores of a node have on the disk, as a failing disk
// does. It gives the number of values. The node may run meanwhile: replicas that it removes are
// left out.
func (c *Cluster) Rot(id int) (int, error) {
	changed := 0
	root := filepath.Join(c.nodes[id-1].dataDir, "replicas")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		count, err := rotFile(path, c.options.ValueSize)
		changed += count
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err == nil && changed == 0 {
		err = fmt.Errorf("node %d has no values below %s", id, root)
	}
	return changed, err
}

func rotFile(path string, values value.Size) (int, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	changed := 0
	size := int64(values.Bytes())
	block, middle := make([]byte, size), size/2
	// Files of values have holes of many gigabytes.
	for at := int64(0); ; at += size {
		data, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return changed, file.Sync()
		}
		if err != nil {
			return changed, fmt.Errorf("%s: %w", path, err)
		}
		at = data - data%size
		count, err := file.ReadAt(block, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return changed, err
		}
		if _, err := values.Decode(binary.LittleEndian.Uint64(block), block[:count]); err != nil {
			continue
		}
		if _, err := file.WriteAt([]byte{^block[middle]}, at+middle); err != nil {
			return changed, err
		}
		changed++
	}
}
