package main

import (
	"syscall"
	"testing"
	"time"
)

// A pass with nothing to do over 500 images: a new process each time, and
// a real CRI-O. The Machine Config Operator waits a second for each image.
func BenchmarkPassOver500Images(b *testing.B) {
	n, _, _, _ := nodeWith500Images(b)
	var cpu time.Duration
	for b.Loop() {
		cmd := n.Pinbox("firstboot")
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	cmd := n.Pinbox("run", "--set=interval=100ms")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	awaitPasses(b, n, 10)
	b.ReportMetric(float64(memory(b, cmd.Process.Pid))/(1<<20), "MB-resident")
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
}
