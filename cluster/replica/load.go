package replica

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/lni/dragonboat/v4/statemachine"

	"engine_race/cluster/engine"
	"engine_race/cluster/service"
)

// load writes the records of a stream into an empty store, makes them durable and stores the
// stream's position, which it gives.
func (r *Replica) load(store *engine.Store, stream io.Reader,
	stopped <-chan struct{}) (position, error) {
	// Only dragonboat's own signal may end this: it counts on the records otherwise.
	ended := func() error {
		if isClosed(stopped) {
			return statemachine.ErrSnapshotStopped
		}
		return nil
	}
	writer, err := r.newWriter(store, ended)
	if err != nil {
		return position{}, err
	}
	defer writer.destroy()
	at, err := readStream(stream, r.config.ValueBytes, func(record service.Op) error {
		err := writer.batch.Put(record.Key, record.Value)
		if err != nil || !writer.isFull(1) {
			return err
		}
		if err := ended(); err != nil {
			return err
		}
		return writer.flush()
	})
	if err != nil {
		return position{}, err
	}
	if err := writer.flush(); err != nil {
		return position{}, err
	}
	if err := store.Sync(); err != nil {
		return position{}, err
	}
	return at, writeApplied(r.config.Directory, at)
}

// ReadStream visits the records of a snapshot's stream, whose values have this size. A value is
// good during its visit.
func ReadStream(stream io.Reader, valueBytes int, visit func(record service.Op) error) error {
	_, err := readStream(stream, valueBytes, visit)
	return err
}

func readStream(stream io.Reader, valueBytes int,
	visit func(record service.Op) error) (at position, err error) {
	header, err := readChecked(nil, stream, nil, 16)
	if err != nil {
		return at, err
	}
	at.index = binary.BigEndian.Uint64(header[8:])
	further, known := map[uint64]int{firstMagic: 0, tokenMagic: 8,
		boundsMagic: 8 + boundsBytes}[binary.BigEndian.Uint64(header)]
	if !known {
		return at, fmt.Errorf("%w: an unknown format", errDamagedStream)
	}
	if further > 0 {
		rest, err := readChecked(nil, stream, nil, further)
		if err != nil {
			return at, err
		}
		at.token = binary.BigEndian.Uint64(rest)
		if further > 8 {
			at.bounds = parseBounds(rest[8:])
		}
	}
	memory := make([]byte, stepValues(valueBytes)*(service.KeyBytes+valueBytes))
	for total := uint64(0); ; {
		count, err := readBlock(memory, valueBytes, stream, total, visit)
		if err != nil || count == 0 {
			return at, err
		}
		total += count
	}
}

// readBlock gives the number of the block's records: 0 for the end, which must name `total`.
func readBlock(memory []byte, valueBytes int, stream io.Reader, total uint64,
	visit func(record service.Op) error) (uint64, error) {
	var head [4]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return 0, fmt.Errorf("%w: %w", errDamagedStream, err)
	}
	count := int(binary.BigEndian.Uint32(head[:]))
	if count == 0 {
		end, err := readChecked(nil, stream, head[:], 8)
		if err == nil && binary.BigEndian.Uint64(end) != total {
			err = fmt.Errorf("%w: records are missing", errDamagedStream)
		}
		return 0, err
	}
	if count > stepValues(valueBytes) {
		return 0, fmt.Errorf("%w: a block of %d records", errDamagedStream, count)
	}
	block, err := readChecked(memory, stream, head[:], count*(service.KeyBytes+valueBytes))
	if err != nil {
		return 0, err
	}
	keys, values := block[:8*count], block[8*count:]
	for i := range count {
		value := values[i*valueBytes : (i+1)*valueBytes]
		record := service.Op{Key: binary.BigEndian.Uint64(keys[8*i:]), Value: value}
		if err := visit(record); err != nil {
			return 0, err
		}
	}
	return uint64(count), nil
}

// readChecked reads `size` bytes, into `memory` if they fit, and their checksum, which also covers
// what was read before them.
func readChecked(memory []byte, stream io.Reader, before []byte, size int) ([]byte, error) {
	if cap(memory) < size {
		memory = make([]byte, size)
	}
	memory = memory[:size]
	var sum [4]byte
	if _, err := io.ReadFull(stream, memory); err != nil {
		return memory, fmt.Errorf("%w: %w", errDamagedStream, err)
	}
	if _, err := io.ReadFull(stream, sum[:]); err != nil {
		return memory, fmt.Errorf("%w: %w", errDamagedStream, err)
	}
	crc := crc32.Update(crc32.Checksum(before, castagnoli), castagnoli, memory)
	if crc != binary.BigEndian.Uint32(sum[:]) {
		return memory, fmt.Errorf("%w: a wrong checksum", errDamagedStream)
	}
	return memory, nil
}
