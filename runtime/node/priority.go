package node

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Values of setpriority(2) and ioprio_set(2).
const (
	lowestPriority = 19
	process        = 1
	idleIO         = 3 << 13
)

// lowerPriority gives the whole process the lowest priority: for the processor and for disks. restore gives it
// back the one that it had. Errors are ignored, since the work can also be done without.
func lowerPriority() (restore func()) {
	reversed, niceErr := unix.Getpriority(unix.PRIO_PROCESS, 0) // the system call returns 20 - nice
	io, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, process, 0, 0)
	setPriority(lowestPriority, idleIO)
	return func() {
		if niceErr == nil {
			setPriority(20-reversed, io)
		}
	}
}

// setPriority sets the priorities of all threads. Go starts new ones from those that it has.
func setPriority(nice int, io uintptr) {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice)
			_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(id), io)
		}
	}
}
