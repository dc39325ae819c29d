package main

import (
	"io/fs"
	"slices"
	"syscall"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/mirror"
	"github.com/pinbox/pinbox/builder/resolve"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
	"github.com/pinbox/pinbox/storage/signature"
	"github.com/pinbox/pinbox/storage/thin"
)

func exitHelp() string {
	return `Exit codes:
  0  success
  1  another failure; or a node of a fleet is not ready
  2  the command line is wrong
  3  the input is wrong: a file, a set, an image that is not for this platform;
     or lint found something
  4  content does not match its digest, its signature policy or its checksums
  5  no space left
  6  a registry, or the API of a cluster, cannot be reached, refuses, or stalls
  130  interrupted`
}

// table has the exit codes and hints of errors. The first row that matches counts, so causes stand
// before their effects.
var table = slices.Concat(fleetErrors, buildErrors, imageErrors, fileErrors)

var buildErrors = []cli.Row{
	{errExists, cli.ExitUsage, 160, "--force replaces it; -o names another file"},
	{pinset.ErrNewer, cli.ExitInput, 138, "use the pinbox that made it, or a later one"},
	{environment.ErrNoTemp, cli.ExitOther, 1, "set TMPDIR to a folder that can be written"},
	{
		environment.ErrNoProc, cli.ExitOther, 2,
		"mount it with `mount -t proc proc /proc`, or run pinbox where it is mounted",
	},
	{
		verify.ErrMissing, cli.ExitDamaged, 3,
		"give --base once for each store that the delta needs, down to the appliance; `bases` in delta.json lists " +
			"what it was made for",
	},
	{
		input.ErrNotRegular, cli.ExitInput, 4,
		"write what it gives to a file, and name that: the shell's <(...) is a pipe; flags and arguments that take - " +
			"read standard input",
	},
	{
		signature.ErrPassphrase, cli.ExitInput, 5,
		"give it with --sign-passphrase-file, or in the environment as " + passphraseVariable,
	},
	{signature.ErrKey, cli.ExitInput, 6, "docs/signing.md says how openssl and cosign make the file"},
	{
		signature.ErrUnsigned, cli.ExitDamaged, 7,
		"sign it with --sign-key of `pinbox build`, `delta` or `medium`, or leave out --key",
	},
	{signature.ErrInvalid, cli.ExitDamaged, 8, "find out who made it; --key names the key of the one who should have"},
	{
		thin.ErrBase, cli.ExitDamaged, 9,
		"copy the base again from an intact copy, or build it again; a delta by layers, without --thin, does not read it, " +
			"and a node can do without it if it has another store with the layer",
	},
	{thin.ErrDamaged, cli.ExitDamaged, 10, "copy the thin delta again from an intact copy, or build it again"},
	{
		base.ErrNoContents, cli.ExitInput, 11,
		"name the folder, the ISO or the medium of the store with --from, or the folder where it is mounted",
	},
	{
		base.ErrIncomplete, cli.ExitInput, 12,
		"put the folders or ISOs of the delta and of what it was built over into one folder",
	},
	{artifact.ErrVerify, cli.ExitDamaged, 13, "copy it again from an intact copy, or build it again"},
	{base.ErrUnsuitable, cli.ExitInput, 16, "name with --from what the nodes have; a full build works on every node"},
	{
		builder.ErrNoBase, cli.ExitUsage, 17,
		"name the base with --from: the folder or ISO of a build or of a delta, or a lock",
	},
	{verify.ErrNoLayers, cli.ExitInput, 18, "build it with spec.store.format squashfs, or leave out --deep"},
	{verify.ErrNotDelta, cli.ExitInput, 19, "--base is for the output of `pinbox delta` only"},
	{pinset.ErrBadDelta, cli.ExitInput, 20, "build the delta again"},
	{root.ErrMount, cli.ExitOther, 21, "mounting needs root, loop devices, and a kernel with squashfs and overlay"},
	{
		compose.ErrUnknownRootAttributes, cli.ExitInput, 22,
		"name the folder of a build with --from, or the pinbox.lock.json in it; `pinbox lock` does not read layers",
	},
	{artifact.ErrOnISO, cli.ExitInput, 23, "set spec.node.store.url in the appliance file, and build it again"},
	{artifact.ErrSplit, cli.ExitUsage, 24, "give a larger size with --split: 4G for FAT"},
	{artifact.ErrInside, cli.ExitUsage, 25, "give another name with -o"},
	{artifact.ErrNotISO, cli.ExitUsage, 26, "give another name with -o, or remove it"},
	{
		artifact.ErrNoMedium, cli.ExitInput, 27,
		"set spec.node.store.volumeLabel in the appliance file and build it again; a running node can attach the " +
			"folder itself",
	},
	{atomicfile.ErrBusy, cli.ExitUsage, 28, "wait for the other run, or give another name with -o"},
	{
		atomicfile.ErrForeign, cli.ExitUsage, 29,
		"give a name with -o in a folder of your own, or have that file removed by who made it",
	},
	{atomicfile.ErrNotFile, cli.ExitUsage, 30, "name a regular file with -o; `dd` copies an ISO to a disk"},
	{artifact.ErrNotAppliance, cli.ExitInput, 31, "name a folder or an ISO that `pinbox build` or `pinbox delta` made"},
	{iso9660.ErrNotISO, cli.ExitInput, 32, "name a CoreOS live ISO"},
	{iso9660.ErrTruncated, cli.ExitInput, 33, "download it again, and compare its checksum"},
	{iso9660.ErrCorrupt, cli.ExitInput, 34, "download it again, and compare its checksum"},
	{
		iso.ErrArchitecture, cli.ExitInput, 35,
		"name the live ISO for the platform of the appliance, or change spec.platform or --platform",
	},
	{iso.ErrNoIgnition, cli.ExitInput, 36, "name a CoreOS live ISO; others do not read an Ignition config"},
	{iso.ErrNoInstaller, cli.ExitInput, 37, "use a newer live ISO, or spec.iso.mode live and install by hand"},
	{iso.ErrNoKargs, cli.ExitInput, 38, "do not change the kernel arguments, or use a newer live ISO"},
	{iso.ErrKargs, cli.ExitInput, 39, "`pinbox inspect` lists the kernel arguments"},
	{
		iso.ErrTooLarge, cli.ExitInput, 40,
		"make the Butane config smaller; moving its files into the store was not enough",
	},
	{iso.ErrEdited, cli.ExitInput, 41, "name the base that it was made of"},
	{
		iso.ErrHasConfig, cli.ExitInput, 42,
		"spec.iso.existing: merge, or --merge, adds the appliance's config to it; --force replaces it",
	},
	{ignition.ErrMerge, cli.ExitInput, 43, "change the Butane files of the appliance, or make an ISO without these parts"},
	{iso.ErrSameFile, cli.ExitUsage, 45, "give another name with -o"},
	{iso9660.ErrNotFound, cli.ExitInput, 46, "`pinbox inspect` lists what was added"},
	{
		builder.ErrSpace, cli.ExitSpace, 47,
		"free space there, or choose another folder with -o; another --cache-dir, --no-cache or `pinbox cache " +
			"prune --all` reduces what is needed",
	},
	{
		syscall.ENOSPC, cli.ExitSpace, 48,
		"free space there, or choose another folder with -o or --cache-dir; `pinbox cache prune --all` empties the " +
			"cache",
	},
	{
		syscall.EMFILE, cli.ExitOther, 49,
		"raise `ulimit -n`: a build opens a file for each layer whose pack has more than 64 KiB",
	},
	{syscall.EIO, cli.ExitOther, 50, "use another disk; the log of the kernel says what is wrong with this one"},
	{syscall.EDQUOT, cli.ExitSpace, 51, "free space there, or choose another folder with -o"},
	{
		source.ErrNoFullName, cli.ExitInput, 52,
		"give its full name: PATH=registry/path:tag on the command line, or name: registry/path:tag next to path " +
			"in the appliance file",
	},
	{
		pinset.ErrReleaseInfo, cli.ExitInput, 53,
		"use --release, or release.image in the appliance file, to take all images of a release",
	},
	{source.ErrHauler, cli.ExitInput, 54, "remove the field from a copy of the file, and set what the message names"},
	{source.ErrHaulerField, cli.ExitInput, 55, "remove the field from a copy of the file, or correct its name"},
	{
		pinset.ErrNotPinned, cli.ExitInput, 56,
		"pin it as repository@sha256:…; `skopeo inspect docker://NAME` shows the digest of a tag",
	},
	{pinset.ErrShortName, cli.ExitInput, 57, "write the full name; CRI-O does not pin short names"},
	{
		pinset.ErrBadName, cli.ExitInput, 58,
		"write it as registry/path@sha256:… or, where tags are taken, registry/path:tag",
	},
	{pinset.ErrEmptySet, cli.ExitInput, 59, "list at least one image under spec.pinnedImages, or leave the set out"},
	{pinset.ErrDuplicateSet, cli.ExitInput, 60, "give one of the sets another metadata.name"},
	{document.ErrTooLarge, cli.ExitInput, 61, "split the file, or replace its aliases with what they stand for"},
	{pinset.ErrNotSet, cli.ExitInput, 62, "`oc explain pinnedimageset` shows the form"},
	{storage.ErrWrongKind, cli.ExitInput, 63, "`pinbox build --help` shows which flag takes what"},
	{storage.ErrKey, cli.ExitInput, 64, "name files of OpenPGP public keys, as `gpg --export` writes them"},
	{
		source.ErrPlatformFiltered, cli.ExitInput, 65,
		"add the platform to `platforms` of the ImageSetConfiguration and run oc-mirror again, or build for one of " +
			"its platforms with --platform",
	},
	{
		storage.ErrIncomplete, cli.ExitInput, 66,
		"add the archives of earlier runs to the paths, with all their parts, or a store that has the images; an " +
			"archive of oc-mirror contains only what was new in its run",
	},
	{
		source.ErrCollision, cli.ExitInput, 67,
		"give one of them a targetRepo or targetTag in additionalImages of the ImageSetConfiguration (for a " +
			"catalog: targetCatalog or targetTag), and run oc-mirror again; the present output does not show which " +
			"image it has",
	},
	{
		source.ErrUnknownNames, cli.ExitInput, 68,
		"name them in a file mapping.txt among the paths, as `oc-mirror --dry-run` writes it: " +
			"docker://NAME=docker://localhost:55000/REPOSITORY:TAG, one per line; or exclude them with " +
			"ocMirror.exclude or --oc-mirror-exclude",
	},
	{
		source.ErrUnknownImages, cli.ExitInput, 69,
		"run oc-mirror with the same ImageSetConfiguration and --dry-run, and add the mapping.txt that it writes " +
			"to the paths; or exclude all images of the field with its name, such as mirror.helm, in ocMirror.exclude " +
			"or --oc-mirror-exclude",
	},
	{
		source.ErrExclude, cli.ExitInput, 70,
		"write it as REGISTRY/REPOSITORY, with or without :TAG or @DIGEST, or as REPOSITORY:TAG in the archive; * " +
			"and ? match anything but a /; components of a release are excluded with components.exclude",
	},
	{
		source.ErrNotMirrored, cli.ExitInput, 71,
		"add the archive of the run that mirrored it, name an older ImageSetConfiguration with --image-set-config, " +
			"or build for another --platform",
	},
	{
		source.ErrOCMirror, cli.ExitInput, 72,
		"name mirror_*.tar with all its parts, or a workspace of oc-mirror v2; or run oc-mirror again",
	},
	{source.ErrImageSetConfig, cli.ExitInput, 73, "the documentation of oc-mirror v2 lists the fields of v2alpha1"},
	{source.ErrMixedRuns, cli.ExitInput, 74, "give every run of oc-mirror its own folder"},
	{source.ErrOnlyOCMirror, cli.ExitInput, 75, "run oc-mirror with it, and name its archive or workspace as well"},
	{resolve.ErrDuplicateName, cli.ExitInput, 76, "name it by digest in one of them, or give one of them another name"},
	{source.ErrNoSuchImage, cli.ExitInput, 77, "give its name as it is there, with the registry"},
	{storage.ErrLocal, cli.ExitDamaged, 78, "copy it there again from an intact copy"},
	{
		source.ErrRelease, cli.ExitInput, 79,
		"name the pull spec of a release; `oc adm release info` shows what it contains",
	},
	{source.ErrComponent, cli.ExitInput, 80, "`oc adm release info` lists the components of a release"},
	{
		source.ErrNoSignature, cli.ExitDamaged, 81,
		"download it from mirror.openshift.com/pub/openshift-v4/signatures, or use the one that oc-mirror saved",
	},
	{
		storage.ErrSignature, cli.ExitDamaged, 82,
		"check that the key is the publisher's, and that the signature is for this digest",
	},
	{source.ErrManifest, cli.ExitInput, 83, "render charts with `helm template`"},
	{source.ErrNoImages, cli.ExitInput, 84, "name a file or a folder with Kubernetes objects that have pods"},
	{source.ErrList, cli.ExitInput, 85, "list one image per line; # begins a comment"},
	{source.ErrEmptyList, cli.ExitInput, 86, "list at least one image, or remove the file from the inputs"},
	{source.ErrNoSets, cli.ExitInput, 87, "name a file or a folder with PinnedImageSet objects"},
	{
		source.ErrMirrors, cli.ExitInput, 88,
		"`oc explain imagedigestmirrorset.spec` shows the form; so does imagetagmirrorset.spec",
	},
	{
		source.ErrNoMirrors, cli.ExitInput, 89,
		"name a file or a folder with such objects; oc-mirror writes them to cluster-resources",
	},
	{
		mirror.ErrConflict, cli.ExitInput, 90,
		"give all its entries the same mirrorSourcePolicy (default: AllowContactingSource); the cluster also refuses a " +
			"conflict",
	},
	{
		resolve.ErrTagChanged, cli.ExitInput, 91,
		"add the archive or the store that has it, or use the present image with --update",
	},
	{
		builder.ErrDrift, cli.ExitDamaged, 92,
		"`pinbox lock` locks the present inputs; without --locked, the lock only fixes tags",
	},
	{
		pinset.ErrNoNumber, cli.ExitInput, 93,
		"set metadata.release in the appliance file, or --release-number, to a number that grows with each release",
	},
	{pinset.ErrBadLock, cli.ExitInput, 94, "name a lock that this version of pinbox wrote"},
	{spec.ErrAppliance, cli.ExitInput, 95, "docs/appliance.md describes all fields"},
	{
		builder.ErrNodeBinary, cli.ExitInput, 96,
		"`GOARCH=… make node` builds one next to pinbox; or name one with spec.node.binary or --node-binary",
	},
	{ignition.ErrTooLarge, cli.ExitInput, 97, "shorten the texts of spec.node: it holds nothing else of yours"},
	{ignition.ErrButane, cli.ExitInput, 98, "`butane --strict` shows the line"},
	{
		ignition.ErrConflict, cli.ExitInput, 99,
		"remove it from the Butane config; fields of the appliance file change what pinbox writes",
	},
}

var fileErrors = []cli.Row{
	{root.ErrNotPermitted, cli.ExitUsage, 123, "run it as root"},
	{artifact.ErrNotEmpty, cli.ExitUsage, 124, "choose another folder with -o, or remove this one"},
	{artifact.ErrNotFolder, cli.ExitUsage, 125, "choose another folder with -o"},
	{artifact.ErrNotReplaceable, cli.ExitUsage, 126, "name a folder below it with -o"},
	{
		artifact.ErrBusy, cli.ExitUsage, 127,
		"wait for the other build; or remove its partial folder, or choose another folder with -o",
	},
	{builder.ErrCache, cli.ExitUsage, 128, "name a folder with --cache-dir, or build with --no-cache"},
	{syscall.EROFS, cli.ExitUsage, 129, "choose another folder with -o"},
	{fs.ErrNotExist, cli.ExitInput, 130, "check the path"},
	{fs.ErrPermission, cli.ExitInput, 131, "check the owner and the permissions"},
}
