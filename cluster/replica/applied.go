package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"engine_race/cluster/files"
)

// The file of the applied index: a magic number, the index, and a CRC-32C of both.
const (
	appliedName  = "applied"
	appliedMagic = 0x6572_6170_706c_6431
	appliedBytes = 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readApplied gives the index that was stored. found is false if there is none.
func readApplied(directory string) (index uint64, found bool, err error) {
	path := filepath.Join(directory, appliedName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if len(data) != appliedBytes || binary.BigEndian.Uint64(data) != appliedMagic ||
		crc32.Checksum(data[:16], castagnoli) != binary.BigEndian.Uint32(data[16:]) {
		return 0, false, fmt.Errorf("%s is damaged: remove this replica and add another", path)
	}
	return binary.BigEndian.Uint64(data[8:]), true, nil
}

// writeApplied stores the index. It is durable, as a whole, when the call returns.
func writeApplied(directory string, index uint64) error {
	data := binary.BigEndian.AppendUint64(make([]byte, 0, appliedBytes), appliedMagic)
	data = binary.BigEndian.AppendUint64(data, index)
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
	return files.WriteWhole(filepath.Join(directory, appliedName), data)
}

// removeApplied forgets the index, durably.
func removeApplied(directory string) error {
	return files.Remove(filepath.Join(directory, appliedName))
}
