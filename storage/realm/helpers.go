package realm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// children lists the processes that a process has started and not waited for, by proc(5). Other systems than Linux
// have no such list, nor has a kernel without CONFIG_PROC_CHILDREN: it is empty then.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, list := range lists {
		content, _ := os.ReadFile(list) // of a thread that has ended
		for _, field := range strings.Fields(string(content)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// endHelpers kills the helpers for credentials that this process has started, and what they have started: the library
// starts them without a context, so that one that hangs would stay. Other children of the process are left alone.
func endHelpers() {
	for _, child := range children(os.Getpid()) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)) // it may have ended
		if strings.Contains(string(command), "docker-credential-") {
			endTree(child)
		}
	}
}

// endTree kills a process and its descendants.
func endTree(pid int) {
	for _, child := range children(pid) {
		endTree(child)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
}
