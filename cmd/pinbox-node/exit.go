package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/partition"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// What commands here say themselves.
var (
	errUnhealthy   = errors.New("not all is well")
	errInterrupted = errors.New("interrupted")
	errUsage       = errors.New("wrong command line")
	errBusy        = errors.New("another pinbox-node is at work")
)

// outcomes are the exit codes and hints of errors. The first match counts;
// anything else is 1. They are those of pinbox where both know one.
var outcomes = []struct {
	err  error
	code int
	hint string
}{
	{errUnhealthy, 1, ""},
	{errUsage, 2, "`pinbox-node help` shows the commands, `pinbox-node COMMAND --help` the flags."},
	{runtime.ErrUnsupported, 3, "Update CRI-O."},
	{partition.ErrMedium, 4, "`pinbox verify` finds out whether the ISO is whole; write the medium again."},
	{partition.ErrDisk, 4, "Replace the disk."},
	{partition.ErrSpace, 5, "Take a larger disk, or images out of the appliance."},
	{partition.ErrNoDisk, 3, "`lsblk` lists the disks; are you root?"},
	{partition.ErrTable, 3, "Name the disk that coreos-installer has written."},
	{partition.ErrTaken, 3, "Remove the partition, with its disk's contents; the node could not tell one from the other."},
	{runtime.ErrSpace, 5, "Make room, or take images out of the sets; `pinbox-node detach` removes stores that nothing needs. --reserve says what is kept free."},
	{errBusy, 7, "`pinbox-node status` shows what it does; --wait waits longer."},
	{runtime.ErrOptions, 2, "`pinbox-node COMMAND --help` shows the flags."},
	{cri.ErrNoAnswer, 1, "Is crio.service running, and are you root? --socket names its socket."},
	{stores.ErrNotReplaced, 1, "The stores stay as they were; compact them again."},
	{stores.ErrPlatform, 3, "Build it for this node: spec.platform of the appliance file."},
	{stores.ErrInPlace, 3, "Let it be copied: leave --in-place out."},
	{stores.ErrUnread, 3, "Take /etc/crio/crio.conf.d/50-pinbox-stores from the config.bu of any appliance, make the folders that it names, and restart CRI-O."},
	{stores.ErrNoBase, 3, "Attach the stores in between first, or build a delta for what this node has: `pinbox delta --from`."},
	{stores.ErrNotStore, 3, "Name what `pinbox delta` or `pinbox build` made."},
	{stores.ErrNoSource, 3, "Name the store's file, the folder that has it, or the device of a medium; are you root?"},
	{stores.ErrNoSum, 3, "Bring SHA256SUMS with it, or give --digest."},
	{stores.ErrNoStore, 3, "`pinbox-node stores` lists them."},
	{stores.ErrNoPrevious, 3, "spec.node.keepPrevious says how many stay; an earlier store can be attached again."},
	{stores.ErrNothing, 3, "`pinbox-node stores` lists the stores; --all compacts the appliance's own too."},
	{stores.ErrInUse, 3, "Take it out of use first; `pinbox-node compact` makes one store of several."},
	{squashfs.ErrOtherForm, 3, "Only stores of one compression and block size can be compacted."},
	{compose.ErrForeignStore, 3, "It was written by a newer pinbox."},
	{stores.ErrUnsigned, 4, "Bring the .sig of the store with it, as `gpg --detach-sign` writes it."},
	{stores.ErrSignature, 4, "Find out who has made the store; /etc/pinbox/keys.d has the keys that this node trusts."},
	{stores.ErrDamaged, 4, "`pinbox verify` finds out whether it was whole; bring it again."},
	{stores.ErrLost, 4, "Plug in its medium, or attach the store again."},
	{fs.ErrPermission, 1, "Are you root?"},
	{stores.ErrState, 4, "Restore the file; or move its whole folder away and attach the files in it again, oldest first: --digest is a file's name."},
	{stores.ErrNoSlot, 5, "`pinbox-node detach` removes what nothing refers to, `pinbox-node compact` makes one store of several."},
	{stores.ErrBusy, 7, "--wait waits longer."},
	{systemd.ErrPath, 3, "Use the store from another folder, or let it be copied."},
	{errInterrupted, 130, "Another pass goes on from there."},
}

// exit tells exit code and hint of an error.
func exit(err error) (code int, hint string) {
	if err == nil {
		return 0, ""
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.code, o.hint
		}
	}
	if strings.HasPrefix(err.Error(), "unknown command") { // cobra has no type for it
		return 2, "`pinbox-node help` shows commands and flags."
	}
	return 1, ""
}

func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("%w: --output %s: it is table or json", errUsage, output)
	}
	return nil
}
