// Package clock shifts the wall clock of one process while it runs. Go and libc read the clock
// without a system call, by code that the kernel maps into each process: the vDSO. So variables for
// the loader do not help. ShiftWall replaces the code of clock_gettime in the process by a system
// call plus an offset. Other processes keep their clock.
//
// The monotonic clock stays as it is. The kernel has no offset, so it would take the absolute end
// of a wait for another time. All functions may be called from any goroutine, but not for the same
// process at once.
package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// ErrBusy says that a thread of the process is reading the clock right now. Let the process run for
// a moment, stop it, and try again.
var ErrBusy = errors.New("a thread is inside the vDSO")

const offsetAt = 0x16 // of the seconds, in code

// code is clock_gettime for x86-64: edi has the clock, rsi the result.
var code = [...]byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // 00 mov  eax, 228 (clock_gettime)
	0x0f, 0x05, //                   05 syscall
	0x85, 0xc0, //                   07 test eax, eax
	0x75, 0x16, //                   09 jnz  21
	0x85, 0xff, //                   0b test edi, edi (CLOCK_REALTIME)
	0x74, 0x05, //                   0d jz   14
	0x83, 0xff, 0x05, //             0f cmp  edi, 5 (CLOCK_REALTIME_COARSE)
	0x75, 0x0d, //                   12 jne  21
	0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // 14 mov rcx, seconds
	0x48, 0x01, 0x0e, //             1e add  [rsi], rcx
	0xc3, //                         21 ret
}

// ShiftWall lets the process see the wall clock with an offset, in whole seconds. All its threads
// must be stopped. A later call replaces the offset.
func ShiftWall(pid int, offset time.Duration) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the clock of a process cannot be shifted on %s", runtime.GOARCH)
	}
	low, high, err := mapping(pid)
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	image := make([]byte, high-low)
	if _, err := memory.ReadAt(image, int64(low)); err != nil {
		return fmt.Errorf("read the vDSO of process %d: %w", pid, err)
	}
	at, err := function(image)
	if err != nil {
		return err
	}
	if err := outside(pid, low, high); err != nil {
		return err
	}
	patch := code
	binary.LittleEndian.PutUint64(patch[offsetAt:], uint64(int64(offset/time.Second)))
	if _, err := memory.WriteAt(patch[:], int64(low+at)); err != nil {
		return fmt.Errorf("write the vDSO of process %d: %w", pid, err)
	}
	return nil
}

// mapping gives the range of addresses of the vDSO.
func mapping(pid int) (low, high uint64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x ", &low, &high); err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/maps: %w", pid, err)
		}
		return low, high, nil
	}
	return 0, 0, fmt.Errorf("process %d has no vDSO", pid)
}

// function gives the place of clock_gettime within the vDSO.
func function(image []byte) (uint64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("the vDSO: %w", err)
	}
	for _, symbol := range symbols {
		if symbol.Name != "__vdso_clock_gettime" {
			continue
		}
		if symbol.Size < uint64(len(code)) || symbol.Value+symbol.Size > uint64(len(image)) {
			return 0, fmt.Errorf("clock_gettime has %d bytes, too few", symbol.Size)
		}
		return symbol.Value, nil
	}
	return 0, errors.New("the vDSO has no clock_gettime")
}

// outside fails with ErrBusy if a thread would continue inside the range.
func outside(pid int, low, high uint64) error {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return err
		}
		fields := strings.Fields(string(text))
		if len(fields) < 3 { // "running": it is not stopped
			return fmt.Errorf("%w: %s: %q", ErrBusy, path, text)
		}
		next, err := strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if next >= low && next < high {
			return ErrBusy
		}
	}
	return nil
}
