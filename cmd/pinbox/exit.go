package main

import (
	"io/fs"
	"syscall"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/mirror"
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
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
	"github.com/pinbox/pinbox/storage/squashfs"
)

func exitHelp() string {
	return `Exit codes:
  0  done
  1  a failure of another kind
  2  the command line is wrong
  3  the input is wrong: a file, a set, an image that is not for this platform;
     or lint has found something
  4  content does not match its digest, its signature policy or its checksums
  5  no space left
  6  a registry cannot be reached, refuses, or stalls
  130  interrupted`
}

// table is the one place that knows what an error means to a user. The first
// row that matches counts: causes stand before what they cause.
var table = []cli.Row{
	{environment.ErrNoTemp, cli.ExitOther, "set TMPDIR to a folder that takes files"},
	{environment.ErrNoProc, cli.ExitOther, "`mount -t proc proc /proc`, or run it where it is mounted"},
	{
		verify.ErrMissing, cli.ExitDamaged, "give --base once for each store that it stands on, down to the appliance; `bases` " +
			"in its delta.json says what it was made for",
	},
	{artifact.ErrVerify, cli.ExitDamaged, "copy it again from where it is whole, or build it again"},
	{base.ErrUnsuitable, cli.ExitInput, "name with --from what the nodes have; a whole build goes with every node"},
	{builder.ErrNoBase, cli.ExitUsage, "name it with --from: the folder or ISO of a build or of a delta, or a lock"},
	{verify.ErrNotDelta, cli.ExitInput, "--base goes with what `pinbox delta` made"},
	{pinset.ErrBadDelta, cli.ExitInput, "build the delta again"},
	{root.ErrMount, cli.ExitOther, "it takes root, loop devices, and a kernel that mounts squashfs and overlay"},
	{
		compose.ErrUnknownRoot, cli.ExitInput,
		"name the folder of a build with --from, or the pinbox.lock.json in it; `pinbox lock` alone unpacks nothing",
	},
	{artifact.ErrInside, cli.ExitUsage, "give another name with -o"},
	{artifact.ErrNotISO, cli.ExitUsage, "give another name with -o, or remove it"},
	{
		artifact.ErrNoMedium, cli.ExitInput,
		"set spec.node.store.volumeLabel in the appliance file and build it; a node that runs can attach the folder itself",
	},
	{atomicfile.ErrBusy, cli.ExitUsage, "wait for the other run, or give another name with -o"},
	{atomicfile.ErrNotFile, cli.ExitUsage, "write a file; `dd` brings an ISO to a disk"},
	{artifact.ErrNotAppliance, cli.ExitInput, "name a folder or an ISO that `pinbox build` or `pinbox delta` made"},
	{iso9660.ErrNotISO, cli.ExitInput, "name a CoreOS live ISO"},
	{iso9660.ErrTruncated, cli.ExitInput, "download it again, and compare its checksum"},
	{iso9660.ErrCorrupt, cli.ExitInput, "download it again, and compare its checksum"},
	{
		iso.ErrArchitecture, cli.ExitInput,
		"name the live ISO for the platform of the appliance, or change spec.platform or --platform",
	},
	{iso.ErrNoIgnition, cli.ExitInput, "name a CoreOS live ISO; others do not read an Ignition config"},
	{iso.ErrNoInstaller, cli.ExitInput, "take a newer live ISO, or install by hand from one in spec.iso.mode live"},
	{iso.ErrNoKargs, cli.ExitInput, "leave the kernel arguments as they are, or take a newer live ISO"},
	{iso.ErrKargs, cli.ExitInput, "`pinbox iso show` tells those that are there"},
	{
		iso.ErrTooLarge, cli.ExitInput,
		"make the Butane smaller: moving all files that can be moved into the store was not enough",
	},
	{iso.ErrEdited, cli.ExitInput, "`pinbox iso reset` brings the base back"},
	{iso.ErrHasConfig, cli.ExitInput, "take the pristine ISO; --force replaces a config that pinbox has not made"},
	{iso.ErrNotEdited, cli.ExitInput, "it is as it was"},
	{iso.ErrSameFile, cli.ExitUsage, "give another name with -o"},
	{iso9660.ErrNotFound, cli.ExitInput, "`pinbox iso show` lists what was added"},
	{
		builder.ErrSpace, cli.ExitSpace, "free space there, or choose another folder with -o; --cache-dir elsewhere, " +
			"--no-cache or `pinbox cache prune --all` leaves more of it",
	},
	{
		syscall.ENOSPC, cli.ExitSpace, "free space there, or choose another folder with -o or --cache-dir; `pinbox cache prune " +
			"--all` empties the cache",
	},
	{syscall.EMFILE, cli.ExitOther, "raise `ulimit -n`: a build has a file open for each layer"},
	{syscall.EDQUOT, cli.ExitSpace, "free space there, or choose another folder with -o"},
	{
		source.ErrNoFullName, cli.ExitInput, "name it as the nodes are to know it: PATH=registry/path:tag on the command line, " +
			"or name: registry/path:tag beside its path",
	},
	{pinset.ErrReleaseInfo, cli.ExitInput, "--release, or release.image in the appliance file, takes all images of a release"},
	{source.ErrHauler, cli.ExitInput, "remove the field from a copy of the file, and set what the message names"},
	{source.ErrHaulerField, cli.ExitInput, "remove the field from a copy of the file, or correct its name"},
	{
		pinset.ErrNotPinned, cli.ExitInput,
		"pin it as repository@sha256:…; `skopeo inspect docker://NAME` tells the digest of a tag",
	},
	{pinset.ErrShortName, cli.ExitInput, "write the full name; CRI-O pins no other"},
	{pinset.ErrBadName, cli.ExitInput, "write it as registry/path@sha256:… or, where tags are taken, registry/path:tag"},
	{pinset.ErrEmptySet, cli.ExitInput, "list at least one image under spec.pinnedImages, or leave the set out"},
	{pinset.ErrDuplicateSet, cli.ExitInput, "give one of the sets another metadata.name"},
	{document.ErrTooLarge, cli.ExitInput, "split the file, or write out what its aliases stand for"},
	{pinset.ErrNotSet, cli.ExitInput, "see `oc explain pinnedimageset` for the form"},
	{storage.ErrWrongKind, cli.ExitInput, "`pinbox build --help` tells which flag takes what"},
	{storage.ErrKey, cli.ExitInput, "name files of OpenPGP public keys, as `gpg --export` writes them"},
	{
		source.ErrPlatformFiltered, cli.ExitInput, "add the platform to `platforms` of the ImageSetConfiguration and run oc-mirror " +
			"again, or build with --platform for one that is there",
	},
	{
		storage.ErrIncomplete, cli.ExitInput, "add the archives of earlier runs to the paths, with all their parts, or a store " +
			"that has them; archives of oc-mirror have only what is new",
	},
	{
		source.ErrCollision, cli.ExitInput, "give one of them a targetRepo or targetTag of its own in additionalImages of the " +
			"ImageSetConfiguration (a catalog: targetCatalog or targetTag), and run oc-mirror with that; what is there now " +
			"cannot be told apart",
	},
	{
		source.ErrUnknownNames, cli.ExitInput, "tell them in a file mapping.txt beside the other paths, as `oc-mirror --dry-run` " +
			"writes it: docker://NAME=docker://localhost:55000/REPOSITORY:TAG, one a line; or leave them out with " +
			"ocMirror.exclude or --oc-mirror-exclude",
	},
	{
		source.ErrUnknownImages, cli.ExitInput, "run oc-mirror with the same ImageSetConfiguration and --dry-run, and add the " +
			"mapping.txt that it writes to the paths; or leave out all that the field asks for: the field itself, as " +
			"mirror.helm, goes into ocMirror.exclude or --oc-mirror-exclude",
	},
	{
		source.ErrExclude, cli.ExitInput, "write it as REGISTRY/REPOSITORY, with or without :TAG or @DIGEST, or " +
			"as REPOSITORY:TAG in the archive; * and ? stand for anything but a /. Components of a release " +
			"have components.exclude",
	},
	{
		source.ErrNotMirrored, cli.ExitInput, "add the archive of the run that has it, name an older ImageSetConfiguration " +
			"with --image-set-config, or build for another --platform",
	},
	{
		source.ErrOCMirror, cli.ExitInput,
		"name mirror_*.tar with all its parts, or a workspace of oc-mirror v2; or run oc-mirror again",
	},
	{source.ErrImageSetConfig, cli.ExitInput, "see the fields of v2alpha1 in the documentation of oc-mirror v2"},
	{source.ErrMixedRuns, cli.ExitInput, "give every run of oc-mirror a folder of its own"},
	{source.ErrOnlyOCMirror, cli.ExitInput, "run oc-mirror with it, and name its archive or workspace as well"},
	{builder.ErrDuplicateName, cli.ExitInput, "name it by digest in one of them, or give one of them another name"},
	{source.ErrNoSuchImage, cli.ExitInput, "name it as it is there, with its registry"},
	{storage.ErrLocal, cli.ExitDamaged, "copy it there again from where it is whole"},
	{source.ErrRelease, cli.ExitInput, "name the pull spec of a release; `oc adm release info` shows what it has"},
	{source.ErrComponent, cli.ExitInput, "`oc adm release info` lists the components of a release"},
	{
		source.ErrNoSignature, cli.ExitDamaged,
		"fetch it from mirror.openshift.com/pub/openshift-v4/signatures, or take that of oc-mirror",
	},
	{storage.ErrSignature, cli.ExitDamaged, "is it the key of the release's maker, and the release that was signed?"},
	{source.ErrManifest, cli.ExitInput, "`helm template` renders a chart"},
	{source.ErrNoImages, cli.ExitInput, "name a file or a folder of Kubernetes objects that have pods"},
	{source.ErrList, cli.ExitInput, "list one image a line, with # before comments"},
	{source.ErrEmptyList, cli.ExitInput, "list at least one image, or leave the file out"},
	{source.ErrNoSets, cli.ExitInput, "name a file or a folder with PinnedImageSet objects"},
	{source.ErrMirrors, cli.ExitInput, "`oc explain imagedigestmirrorset.spec`, or imagetagmirrorset, shows the form"},
	{
		source.ErrNoMirrors, cli.ExitInput,
		"name a file or a folder with such objects; `oc mirror` writes them to cluster-resources",
	},
	{
		mirror.ErrConflict, cli.ExitInput, "give all of its entries one mirrorSourcePolicy; the cluster refuses them as well. " +
			"Left out it is AllowContactingSource",
	},
	{builder.ErrMoved, cli.ExitInput, "add the archive or the store that has it; or take what is there now with --update"},
	{builder.ErrDrift, cli.ExitDamaged, "`pinbox lock` locks what they are now; without --locked the lock is for tags alone"},
	{pinset.ErrBadLock, cli.ExitInput, "name a lock that this version of pinbox has written"},
	{spec.ErrAppliance, cli.ExitInput, "docs/appliance.schema.json lists all fields"},
	{
		builder.ErrNodeBinary, cli.ExitInput,
		"`GOARCH=… make node` builds one beside pinbox; or name one with spec.node.binary or --node-binary",
	},
	{ignition.ErrButane, cli.ExitInput, "`butane --strict` shows where"},
	{
		ignition.ErrConflict, cli.ExitInput, "leave it out of the Butane; fields of the appliance file change what pinbox writes",
	},
	{
		storage.ErrPlatform, cli.ExitInput, "pin the index or an image for the platform, or change spec.platform or " +
			"--platform; what oc-mirror has left can be left out with ocMirror.exclude or --oc-mirror-exclude",
	},
	{
		storage.ErrNotImage, cli.ExitInput, "leave it out, of what oc-mirror has left with ocMirror.exclude " +
			"or --oc-mirror-exclude; or publish it again in a current format",
	},
	{
		storage.ErrLayers, cli.ExitInput,
		"make one layer of several: `podman build --squash`, or --squash-all for those of its base as well",
	},
	{
		storage.ErrAccess, cli.ExitInput, "check --authfile, --pull-secret, REGISTRY_AUTH_FILE, spec.node.pullSecret, " +
			"--registries.d, --policy, --cert-dir and registries.conf",
	},
	{
		storage.ErrDigest, cli.ExitDamaged, "what has it, or what stands between, is damaged: a registry, a proxy, an archive; " +
			"take it from elsewhere, or push it again",
	},
	{
		storage.ErrPolicy, cli.ExitDamaged,
		"sign the image, or give its key in --policy; --registries.d tells where signatures are",
	},
	{compose.ErrEscape, cli.ExitInput, "the image is malformed or malicious; build it again"},
	{compose.ErrEntry, cli.ExitInput, "the image is malformed; build it again"},
	{compose.ErrCompression, cli.ExitDamaged, "the image was damaged before it was pushed; build and push it again"},
	{compose.ErrDiffID, cli.ExitDamaged, "the image was damaged before it was pushed; build and push it again"},
	{
		squashfs.ErrTooManyIDs, cli.ExitInput,
		"leave the image out, or build it again with fewer owners of files; spec.store.format tar and dir take any number",
	},
	{
		squashfs.ErrDamaged, cli.ExitDamaged,
		"the disk of the output, or of --cache-dir, does not give back what was written to it; look at its health",
	},
	{storage.ErrUnauthorized, cli.ExitRegistry, "log in with `podman login`, or give --authfile or --pull-secret"},
	{
		storage.ErrBlocked, cli.ExitRegistry, "push it to a mirror; or change mirrorSourcePolicy, or what registries.conf blocks",
	},
	{storage.ErrNotFound, cli.ExitRegistry, "check the name and the digest; the image may have been deleted"},
	{
		storage.ErrCertificate, cli.ExitRegistry, "give the CA of the registry with --cert-dir, as a file ca.crt in a folder, " +
			"or as /etc/containers/certs.d/HOST:PORT/ca.crt; one that has expired or is for another host has to be renewed",
	},
	{
		storage.ErrPlainHTTP, cli.ExitRegistry, "give it a certificate, or `insecure = true` in registries.conf; " +
			"--tls-verify=false permits plain HTTP for all registries",
	},
	{
		storage.ErrStalled, cli.ExitRegistry, "run the command again, which goes on where it ended; look at the network, " +
			"proxies and mirrors between; --stall gives a slow registry more time",
	},
	{storage.ErrRegistry, cli.ExitRegistry, "check the host name, the network and registries.conf"},
	{
		root.ErrNotPermitted, cli.ExitUsage,
		"run it as root; spec.store.format tar gives the same tree without, for root to extract where it is needed",
	},
	{artifact.ErrNotEmpty, cli.ExitUsage, "choose another folder with -o, or remove this one"},
	{artifact.ErrNotFolder, cli.ExitUsage, "choose another folder with -o"},
	{artifact.ErrNotReplaceable, cli.ExitUsage, "name a folder below it with -o"},
	{artifact.ErrBusy, cli.ExitUsage, "wait for the other build, remove what stands there, or choose another folder with -o"},
	{builder.ErrCache, cli.ExitUsage, "name a folder with --cache-dir, or build with --no-cache"},
	{syscall.EROFS, cli.ExitUsage, "choose another folder with -o"},
	{fs.ErrNotExist, cli.ExitInput, "check the path"},
	{fs.ErrPermission, cli.ExitInput, "check who may read and write there"},
}
