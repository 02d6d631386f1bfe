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
	"engine_race/cluster/keyspace"
)

// position is how far a replica has come. It has the index of the last entry that was applied, and
// the highest token of a command up to there.
type position struct {
	index, token uint64
	// The shard's keys after that entry. The zero value: those with which the shard began.
	bounds keyspace.Entry
}

// The file of the position: a magic number, the index, the token, the bounds, and a CRC-32C of
// them. The bounds are missing until a command changes them, and the token too while it is 0. No
// command had a token in the first version.
const (
	appliedName  = "applied"
	appliedMagic = 0x6572_6170_706c_6431
	firstBytes   = 20
	tokenBytes   = firstBytes + 8
	boundsBytes  = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readApplied gives the position that was stored. found is false if there is none.
func readApplied(directory string) (at position, found bool, err error) {
	path := filepath.Join(directory, appliedName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, false, nil
	}
	if err != nil {
		return at, false, err
	}
	if len(data) != firstBytes && len(data) != tokenBytes && len(data) != tokenBytes+boundsBytes ||
		binary.BigEndian.Uint64(data) != appliedMagic {
		return at, false, fmt.Errorf("%w: %s is damaged", errDamaged, path)
	}
	body := data[:len(data)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[len(body):]) {
		return at, false, fmt.Errorf("%w: %s is damaged", errDamaged, path)
	}
	at.index = binary.BigEndian.Uint64(body[8:])
	if len(data) >= tokenBytes {
		at.token = binary.BigEndian.Uint64(body[16:])
	}
	if len(data) > tokenBytes {
		at.bounds = parseBounds(body[24:])
	}
	return at, true, nil
}

// writeApplied stores the position. It is durable, as a whole, when the call returns.
func writeApplied(directory string, at position) error {
	data := binary.BigEndian.AppendUint64(make([]byte, 0, tokenBytes+boundsBytes), appliedMagic)
	data = binary.BigEndian.AppendUint64(data, at.index)
	if at.hasBounds() || at.token != 0 {
		data = binary.BigEndian.AppendUint64(data, at.token)
	}
	if at.hasBounds() {
		data = appendBounds(data, at.bounds)
	}
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
	return files.WriteWhole(filepath.Join(directory, appliedName), data)
}

// removeApplied forgets the index, durably.
func removeApplied(directory string) error {
	return files.Remove(filepath.Join(directory, appliedName))
}
