package realm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// endHelpers kills the children that this process did not have before, and theirs: the library starts helpers for
// credentials without a context, so that one that hangs would stay.
func endHelpers(before []int) {
	var end func(int)
	end = func(pid int) {
		for _, child := range children(pid) {
			end(child)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	for _, child := range children(os.Getpid()) {
		if !slices.Contains(before, child) {
			end(child)
		}
	}
}
