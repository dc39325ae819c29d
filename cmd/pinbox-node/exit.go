package main

import (
	"errors"
	"io/fs"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/runtime/partition"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// errUnhealthy says that a command shows something that is wrong.
var errUnhealthy = errors.New("not all is well")

// table is the one place that knows what an error means to a user. The first row that
// matches counts. The codes are those of pinbox where both know one.
var table = []cli.Row{
	{errUnhealthy, cli.ExitOther, ""},
	{runtime.ErrUnsupported, cli.ExitInput, "update CRI-O"},
	{partition.ErrMedium, cli.ExitDamaged, "`pinbox verify` finds out whether the ISO is whole; write the medium again"},
	{partition.ErrDisk, cli.ExitDamaged, "replace the disk"},
	{partition.ErrSpace, cli.ExitSpace, "take a larger disk, or images out of the appliance"},
	{partition.ErrNoDisk, cli.ExitInput, "`lsblk` lists the disks; run it as root"},
	{partition.ErrTable, cli.ExitInput, "name the disk that coreos-installer has written"},
	{
		partition.ErrTaken, cli.ExitInput,
		"remove the partition, or all of the disk; the node could not tell one partition from the other",
	},
	{
		runtime.ErrSpace, cli.ExitSpace, "make room, or take images out of the sets; `pinbox-node detach` removes stores " +
			"that nothing needs; --reserve says what is kept free",
	},
	{node.ErrBusy, cli.ExitBusy, "`pinbox-node status` shows what it does; --wait waits longer"},
	{runtime.ErrOptions, cli.ExitUsage, "`pinbox-node COMMAND --help` shows the flags"},
	{cri.ErrNoAnswer, cli.ExitOther, "check that crio.service runs, and run it as root; --socket names its socket"},
	{stores.ErrNotReplaced, cli.ExitOther, "the stores stay as they were; compact them again"},
	{stores.ErrPlatform, cli.ExitInput, "build it for this node: spec.platform of the appliance file"},
	{stores.ErrInPlace, cli.ExitInput, "leave --in-place out, so that it is copied"},
	{
		stores.ErrNotConfigured, cli.ExitInput, "take /etc/crio/crio.conf.d/50-pinbox-stores from the config.bu of any " +
			"appliance, make the folders that it names, and restart CRI-O",
	},
	{
		stores.ErrNoBase, cli.ExitInput,
		"attach the stores in between first, or build a delta for what this node has: `pinbox delta --from`",
	},
	{stores.ErrNotStore, cli.ExitInput, "name what `pinbox delta` or `pinbox build` made"},
	{
		stores.ErrNoStore, cli.ExitInput,
		"name the store's file, the folder that has it, or the device of a medium; run it as root",
	},
	{stores.ErrNoDigest, cli.ExitInput, "bring SHA256SUMS with it, or give --digest"},
	{stores.ErrNotAttached, cli.ExitInput, "`pinbox-node stores` lists them"},
	{
		stores.ErrNoPrevious, cli.ExitInput,
		"spec.node.keepPrevious says how many stay; an earlier store can be attached again",
	},
	{
		stores.ErrNothingToCompact, cli.ExitInput,
		"`pinbox-node stores` lists the stores; --all compacts the appliance's own too",
	},
	{stores.ErrInUse, cli.ExitInput, "take it out of use first; `pinbox-node compact` makes one store of several"},
	{squashfs.ErrIncompatible, cli.ExitInput, "only stores of one compression and block size can be compacted"},
	{compose.ErrForeignStore, cli.ExitInput, "it was written by a newer pinbox"},
	{stores.ErrUnsigned, cli.ExitDamaged, "bring the .sig of the store with it, as `gpg --detach-sign` writes it"},
	{
		stores.ErrSignature, cli.ExitDamaged,
		"find out who has made the store; /etc/pinbox/keys.d has the keys that this node trusts",
	},
	{stores.ErrDamaged, cli.ExitDamaged, "`pinbox verify` finds out whether it was whole; bring it again"},
	{stores.ErrMissing, cli.ExitDamaged, "plug in its medium, or attach the store again"},
	{fs.ErrPermission, cli.ExitOther, "run it as root"},
	{
		stores.ErrState, cli.ExitDamaged, "restore the file; or move its whole folder away and attach the files in it " +
			"again, oldest first: --digest is a file's name",
	},
	{
		stores.ErrNoSlot, cli.ExitSpace,
		"`pinbox-node detach` removes what nothing refers to, `pinbox-node compact` makes one store of several",
	},
	{stores.ErrBusy, cli.ExitBusy, "--wait waits longer"},
	{systemd.ErrPath, cli.ExitInput, "use the store from another folder, or let it be copied"},
}
