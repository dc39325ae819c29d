package node

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowerPriority gives the whole process the lowest priority: for the processor by setpriority(2),
// for disks by ioprio_set(2). Errors are ignored, since compaction also works without it.
func lowerPriority() {
	const process, idle = 1, 3 << 13
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, 19)
			_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(id), idle)
		}
	}
}
