package main

import (
	"syscall"
	"testing"
	"time"
)

// A pass with nothing to do over 500 images: a process of its own each time, and
// a real CRI-O. The Machine Config Operator waits a second for each image.
func BenchmarkPassOver500Images(b *testing.B) {
	n, _ := fiveHundred(b)
	var cpu time.Duration
	var rss int64
	for b.Loop() {
		cmd := n.Pinbox("firstboot")
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		rss = max(rss, usage.Maxrss)
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(rss)/1024, "MB-of-memory")
}
