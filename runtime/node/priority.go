package node

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowerPriority gives the whole process the lowest priority, of the processor by
// setpriority(2) and of disks by ioprio_set(2). It may fail: then other processes get less.
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
