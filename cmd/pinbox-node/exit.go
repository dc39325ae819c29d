package main

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/runtime/partition"
	"github.com/pinbox/pinbox/runtime/remote"
	"github.com/pinbox/pinbox/runtime/setup"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
)

// errUnhealthy is the error of a command whose result shows a problem of the node.
var errUnhealthy = errors.New("the node is not in its desired state")

// errPending is the error of a check that finds something to do.
var errPending = errors.New("something is to be done")

// table has the exit codes and hints of errors. The first row that matches counts. A code has the
// same meaning as in pinbox.
var table = []cli.Row{
	{errUnhealthy, cli.ExitOther, 1, ""},
	{errPending, cli.ExitOther, 2, ""},
	{
		setup.ErrManaged, cli.ExitInput, 3,
		"give the cluster the MachineConfigs and PinnedImageSets of `pinbox build`, in the folder manifests",
	},
	{
		setup.ErrNoCRIO, cli.ExitInput, 4,
		"install CRI-O 1.31 or newer, and correct its configuration; --root names the folder of an image",
	},
	{setup.ErrNotRunning, cli.ExitInput, 5, "with --root, setup writes into an image"},
	{
		setup.ErrForeign, cli.ExitInput, 6,
		"move it away, if it is not needed; a node that Ignition has made needs no setup",
	},
	{setup.ErrNotSetUp, cli.ExitInput, 7, "a node that Ignition has made was not set up"},
	{setup.ErrOptions, cli.ExitUsage, 8, "`pinbox-node setup --help` shows the flags"},
	{setup.ErrBusy, cli.ExitBusy, 9, "wait until it has ended"},
	{setup.ErrNotRead, cli.ExitOther, 10, "`systemctl status crio` and `crio status config` show what it reads"},
	{
		setup.ErrReadOnly, cli.ExitInput, 11,
		"--program names another path for pinbox-node; in an image, that is /usr/bin/pinbox-node",
	},
	{runtime.ErrUnsupported, cli.ExitInput, 12, "update CRI-O"},
	{
		fetch.ErrServer, cli.ExitOther, 13,
		"look at the server and at the network; /etc/pinbox/node.env sets a proxy; the next run continues",
	},
	{remote.ErrName, cli.ExitUsage, 165, "write it as https://HOST/PATH/delta.thin or https://HOST/FOLDER/"},
	{remote.ErrPlain, cli.ExitUsage, 166, "use HTTPS, or give the --digest of the store"},
	{remote.ErrChanged, cli.ExitDamaged, 168, "compare what is on the server with the original, and copy it again"},
	{node.ErrRemoteInPlace, cli.ExitUsage, 169, "leave out --in-place"},
	{fetch.ErrDigest, cli.ExitDamaged, 14, "put the store of this node's Ignition config on the server"},
	{fetch.ErrSpace, cli.ExitSpace, 15, "use a larger disk for /var; a live system without one has it in memory"},
	{fetch.ErrBusy, cli.ExitBusy, 16, "wait for it"},
	{partition.ErrMedium, cli.ExitDamaged, 17, "check the ISO with `pinbox verify`, and write the medium again"},
	{
		partition.ErrDelta, cli.ExitInput, 18,
		"`pinbox-node attach` takes it, once the node runs; install with a medium that `pinbox build` makes",
	},
	{partition.ErrDisk, cli.ExitDamaged, 19, "replace the disk"},
	{partition.ErrSpace, cli.ExitSpace, 20, "use a larger disk, or remove images from the appliance"},
	{partition.ErrInUse, cli.ExitInput, 21, "name another disk, or unmount what `lsblk` shows of this one"},
	{partition.ErrNoDisk, cli.ExitInput, 22, "run it as root; `lsblk` lists the disks"},
	{partition.ErrTable, cli.ExitInput, 23, "name the disk that coreos-installer wrote"},
	{
		partition.ErrTaken, cli.ExitInput, 24,
		"remove that partition, or clear the whole disk: the node could not tell one partition from the other",
	},
	{
		runtime.ErrSpace, cli.ExitSpace, 25,
		"free space, or remove images from the sets; `pinbox-node detach` removes stores that are not used; " +
			"--reserve sets how much stays free",
	},
	{node.ErrBusy, cli.ExitBusy, 26, "`pinbox-node status` shows what it does; --wait sets how long to wait for it"},
	{runtime.ErrOptions, cli.ExitUsage, 27, "`pinbox-node COMMAND --help` shows the flags"},
	{
		cri.ErrNoAnswer, cli.ExitOther, 28,
		"check that crio.service runs, and run it as root; --socket sets the path of its socket",
	},
	{
		node.ErrNotAdmitted, cli.ExitOther, 29,
		"stop the kubelet, remove the file and start it; a policy admits images by preloadedImagesVerificationAllowlist",
	},
	{
		transfer.ErrStalled, cli.ExitDamaged, 30,
		"plug the device in again, or use another one; the log of the kernel says more",
	},
	{stores.ErrNotReplaced, cli.ExitOther, 31, "the stores are unchanged; compact them again"},
	{stores.ErrPlatform, cli.ExitInput, 32, "build it for this node: spec.platform of the appliance file"},
	{
		stores.ErrVerity, cli.ExitInput, 33,
		"install dmsetup, and use a kernel with dm-verity and a store with a hash tree; leave out --in-place to copy " +
			"a store; \"verity\" in /etc/pinbox/node.json sets whether it is required",
	},
	{
		stores.ErrNotConfigured, cli.ExitInput, 34,
		"take /etc/crio/crio.conf.d/50-pinbox-stores from the config.bu of any appliance, make the folders that it " +
			"names, and restart CRI-O; on OpenShift apply the MachineConfigs in manifests/, from 4.23 on also " +
			"manifests/podman/",
	},
	{
		stores.ErrNoBase, cli.ExitInput, 35,
		"attach the stores in between first, or build a delta for what this node has with `pinbox delta --from`",
	},
	{
		audit.ErrInvalid, cli.ExitDamaged, 36,
		"find out who made the store; `pinbox verify` checks the original in the same way",
	},
	{
		stores.ErrNotListed, cli.ExitDamaged, 37,
		"find out who made the store; CRI-O's log may have more, and so may `pinbox verify` of the original",
	},
	{
		stores.ErrNameTaken, cli.ExitInput, 38,
		"remove the other image (`crictl rmi`) or detach its store; a tag of the same appliance moves with a delta",
	},
	{
		pinset.ErrNotNewer, cli.ExitInput, 39,
		"`pinbox-node rollback` returns to the previous release; --force attaches this one; metadata.release of the " +
			"appliance file is the number",
	},
	{
		pinset.ErrNoNumber, cli.ExitInput, 40,
		"`pinbox-node attach` without --auto attaches it; metadata.release of the appliance file is the number",
	},
	{
		pinset.ErrOtherAppliance, cli.ExitInput, 41,
		"--force attaches it all the same; metadata.name of the appliance file is the name",
	},
	{stores.ErrNotStore, cli.ExitInput, 42, "name the output of `pinbox delta` or `pinbox build`"},
	{
		stores.ErrNoStore, cli.ExitInput, 43,
		"run it as root; name the store's file, its folder, or the device of a medium; mount a stick, and name the folder",
	},
	{stores.ErrNoDigest, cli.ExitInput, 44, "copy SHA256SUMS next to the store, or give --digest"},
	{stores.ErrNotAttached, cli.ExitInput, 45, "`pinbox-node status` lists them"},
	{
		stores.ErrNoPrevious, cli.ExitInput, 46,
		"spec.node.keepPrevious sets how many previous releases stay; an earlier store can be attached again",
	},
	{
		stores.ErrNothingToCompact, cli.ExitInput, 47,
		"`pinbox-node status` lists the stores; --all includes the appliance's own store",
	},
	{stores.ErrInUse, cli.ExitInput, 48, "stop using it first; `pinbox-node compact` makes one store of several"},
	{squashfs.ErrIncompatible, cli.ExitInput, 49, "only stores with the same compression and block size can be compacted"},
	{compose.ErrForeignStore, cli.ExitInput, 50, "it was written by a newer pinbox"},
	{
		stores.ErrUnsigned, cli.ExitDamaged, 51,
		"copy its .sig file next to it; --sign-key of pinbox writes it",
	},
	{
		stores.ErrSignature, cli.ExitDamaged, 52,
		"find out who made the store; /etc/pinbox/keys.d has the keys that this node trusts",
	},
	{
		stores.ErrProgram, cli.ExitDamaged, 54,
		"build it again with the pinbox-node for this node's architecture; `pinbox verify` checks the original",
	},
	{stores.ErrInParts, cli.ExitInput, 55, "attach it without --in-place"},
	{stores.ErrThinInPlace, cli.ExitInput, 56, "leave out --in-place"},
	{stores.ErrThinDiffers, cli.ExitInput, 57, "attach the delta that `pinbox delta` makes without --thin"},
	{
		thin.ErrBase, cli.ExitDamaged, 58,
		"attach the delta that `pinbox delta` makes without --thin, or a full store of the release, or let CRI-O pull the " +
			"image from its registry: they read nothing of this base; or detach the base and attach it again from its " +
			"medium, or another store that has the layer; `pinbox-node verify` finds all layers that are damaged",
	},
	{thin.ErrDamaged, cli.ExitDamaged, 59, "find out who made it; `pinbox verify` with --base checks the original"},
	{stores.ErrDamaged, cli.ExitDamaged, 60, "check the original with `pinbox verify`, and copy it again"},
	{stores.ErrMissing, cli.ExitDamaged, 61, "insert its medium, or attach the store again"},
	{fs.ErrPermission, cli.ExitOther, 62, "run it as root"},
	{syscall.EIO, cli.ExitOther, 63, "the disk or the medium fails: the log of the kernel says more"},
	{syscall.ENOSPC, cli.ExitSpace, 64, "free space; `pinbox-node detach` removes stores that are not used"},
	{stores.ErrRestored, cli.ExitDamaged, 65, "check the disk; the next pass writes the file again"},
	{
		pinset.ErrNewer, cli.ExitInput, 66,
		"use the pinbox-node that comes with the newest store; this one changed nothing",
	},
	{
		stores.ErrState, cli.ExitDamaged, 67,
		"restore the file; or move its folder away and attach the files in it again, oldest first: the name of a " +
			"file is the value for --digest",
	},
	{
		stores.ErrNoSlot, cli.ExitSpace, 68,
		"`pinbox-node detach` removes stores that are not used, `pinbox-node compact` makes one store of several",
	},
	{stores.ErrBusy, cli.ExitBusy, 69, "--wait sets how long to wait for it"},
	{systemd.ErrPath, cli.ExitInput, 70, "move the store to another folder, or leave out --in-place to copy it"},
}
