package bench

import (
	"os"
	"runtime"
	"strings"
	"syscall"
)

// fileSystems are the names of the kernel's numbers of file systems.
var fileSystems = map[int64]string{
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs",
	0x794c7630: "overlay",
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
