package mount

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/loop"
	"github.com/pinbox/pinbox/storage/verity"
)

// DMSetup opens stores with dmsetup(8), which every CoreOS has, as opposed to veritysetup(8).
type DMSetup struct{}

var _ DeviceMapper = DMSetup{}

// Why dm-verity cannot be used.
var (
	errNoDMSetup = errors.New("there is no dmsetup")
	errNoTarget  = errors.New("the kernel has no dm-verity")
)

// Available loads the module if the kernel has dm-verity as one.
func (DMSetup) Available(ctx context.Context) error {
	if _, err := exec.LookPath("dmsetup"); err != nil {
		return errNoDMSetup
	}
	for _, load := range []bool{true, false} {
		out, err := exec.CommandContext(ctx, "dmsetup", "targets").Output()
		if err == nil && verityTarget.Match(out) {
			return nil
		}
		if load && exec.CommandContext(ctx, "modprobe", "dm-verity").Run() != nil {
			break // nothing was loaded
		}
	}
	return errNoTarget
}

// verityTarget finds dm-verity in the output of `dmsetup targets`.
var verityTarget = regexp.MustCompile(`(?m)^verity\s`)

// Open makes the device by a loop device, which goes with it.
func (DMSetup) Open(ctx context.Context, name string, e Extent, t verity.Tree) (string, error) {
	device, err := loop.Open(e.Path, e.Offset, e.Size)
	if err != nil {
		return "", err
	}
	defer device.Close()
	return filepath.Join("/dev/mapper", name),
		run(ctx, "dmsetup", "create", "--readonly", name, "--table", t.Table(device.Name()))
}

// Release removes the device once it is closed.
func (DMSetup) Release(ctx context.Context, name string) error {
	return run(ctx, "dmsetup", "remove", "--deferred", name)
}

// Targets runs dmsetup only if there are devices.
func (DMSetup) Targets(ctx context.Context) ([]Target, error) {
	names, err := filepath.Glob("/sys/block/dm-*/dm/name")
	if err != nil {
		return nil, err
	}
	var all []Target
	for _, file := range names {
		name, block := readLine(file), filepath.Dir(filepath.Dir(file))
		if !strings.HasPrefix(name, targetPrefix) {
			continue
		}
		t := Target{Name: name, Device: readLine(filepath.Join(block, "dev"))}
		if sources, _ := filepath.Glob(filepath.Join(block, "slaves/*/dev")); len(sources) > 0 {
			t.Source = readLine(sources[0])
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, nil
	}
	out, err := exec.CommandContext(ctx, "dmsetup", "status", "--target", "verity").Output()
	if err != nil {
		return nil, fmt.Errorf("dmsetup status: %w", err)
	}
	for i := range all {
		all[i].Corrupted = isCorrupted(string(out), all[i].Name)
	}
	return all, nil
}

// isCorrupted finds a device in the output of `dmsetup status`. Of dm-verity that ends with V, or with C
// after a read of a changed block: the kernel's Documentation/admin-guide/device-mapper/verity.rst.
func isCorrupted(status, name string) bool {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+": "); ok {
			fields := strings.Fields(rest)
			return len(fields) > 3 && fields[2] == "verity" && fields[3] == "C"
		}
	}
	return false
}

// readLine reads a file of sysfs; "" if there is none.
func readLine(name string) string {
	text, _ := os.ReadFile(name)
	return strings.TrimSpace(string(text))
}

// corruptOffsets returns where changed blocks were read on a device, in bytes, as far as the kernel's
// log still says so.
func corruptOffsets(device string) []int64 {
	log, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer log.Close()
	var all bytes.Buffer
	record := make([]byte, 8192) // CONSOLE_EXT_LOG_MAX in the kernel's include/linux/printk.h
	for {
		n, err := unix.Read(int(log.Fd()), record)
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR) { // older records were overwritten meanwhile
			continue
		}
		if n <= 0 || err != nil { // EAGAIN: that was the last one
			return findCorrupt(all.Bytes(), device)
		}
		all.Write(record[:n])
	}
}

// corrupt matches a message of dm-verity: verity_handle_err in drivers/md/dm-verity-target.c.
var corrupt = regexp.MustCompile(`verity: (\d+:\d+): (?:data|metadata) block (\d+) is corrupted`)

func findCorrupt(log []byte, device string) (offsets []int64) {
	lines := bufio.NewScanner(bytes.NewReader(log))
	for lines.Scan() {
		m := corrupt.FindStringSubmatch(lines.Text())
		if m == nil || m[1] != device {
			continue
		}
		if block, err := strconv.ParseInt(m[2], 10, 48); err == nil {
			offsets = append(offsets, block*verity.BlockSize)
		}
	}
	slices.Sort(offsets)
	return slices.Compact(offsets)
}
