package bench

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// fileSystems are the names of the kernel's numbers of file systems.
var fileSystems = map[int64]string{
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs",
	0x794c7630: "overlay",
}

// machineTime is the time of all CPUs since boot, in ticks. During `stolen` the host of a virtual
// machine ran something else although this machine had work.
type machineTime struct{ all, stolen uint64 }

// readMachineTime returns zeros if /proc/stat cannot be read.
func readMachineTime() machineTime {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machineTime{}
	}
	return parseMachineTime(string(text))
}

// parseMachineTime takes the text of /proc/stat. Its first line has the sums over all CPUs: user,
// nice, system, idle, iowait, irq, softirq and steal. The fields behind them, of guests, are parts
// of user and nice.
func parseMachineTime(text string) machineTime {
	const fieldCount, stolenField = 8, 7
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 1+fieldCount || fields[0] != "cpu" {
		return machineTime{}
	}
	var sums machineTime
	for i, field := range fields[1 : 1+fieldCount] {
		ticks, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return machineTime{}
		}
		sums.all += ticks
		if i == stolenField {
			sums.stolen = ticks
		}
	}
	return sums
}

// stolenPercent is the stolen part of all time since an earlier reading. It is NaN if a reading
// failed, no time passed or a counter went back.
func (t machineTime) stolenPercent(earlier machineTime) float64 {
	if earlier.all == 0 || t.all <= earlier.all || t.stolen < earlier.stolen {
		return math.NaN()
	}
	return 100 * float64(t.stolen-earlier.stolen) / float64(t.all-earlier.all)
}

// describeMachine has the fields that the benches in C++ write too.
func describeMachine(directory string) map[string]any {
	machine := map[string]any{"cpu_count": runtime.NumCPU(), "cpu": "unknown"}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if strings.TrimSpace(name) == "model name" {
				machine["cpu"] = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		machine["kernel"] = strings.TrimSpace(string(text))
	}
	var system syscall.Sysinfo_t
	if syscall.Sysinfo(&system) == nil {
		machine["memory_bytes"] = system.Totalram * uint64(system.Unit)
	}
	var disk syscall.Statfs_t
	if syscall.Statfs(directory, &disk) == nil {
		machine["free_disk_bytes"] = disk.Bavail * uint64(disk.Bsize)
		machine["file_system"] = "unknown"
		if name, known := fileSystems[int64(disk.Type)]; known {
			machine["file_system"] = name
		}
	}
	return machine
}
