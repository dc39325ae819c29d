package main

import (
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// imageErrors are the rows of registries, images and their layers.
var imageErrors = []cli.Row{
	{
		storage.ErrPlatform, cli.ExitInput, 100,
		"pin the index or an image for the platform, or change spec.platform or --platform; images of oc-mirror " +
			"can be left out with ocMirror.exclude or --oc-mirror-exclude",
	},
	{
		storage.ErrNotImage, cli.ExitInput, 101,
		"remove it from the inputs (images of oc-mirror: with ocMirror.exclude or --oc-mirror-exclude), or publish " +
			"it again in a current format",
	},
	{
		storage.ErrLayers, cli.ExitInput, 102,
		"squash its layers with `podman build --squash`, or with --squash-all also the layers of its base image",
	},
	{
		storage.ErrAccess, cli.ExitInput, 103,
		"check --authfile, --pull-secret, REGISTRY_AUTH_FILE, spec.node.pullSecret, --registries.d, --policy, " +
			"--cert-dir and registries.conf",
	},
	{
		storage.ErrDigest, cli.ExitDamaged, 104,
		"the registry, a proxy or the archive returned damaged data; use another one, or push the image again",
	},
	{
		storage.ErrPolicy, cli.ExitDamaged, 105,
		"sign the image, or set its key in --policy; --registries.d sets where signatures are",
	},
	{
		compose.ErrTooManyFiles, cli.ExitInput, 106,
		"an image that nobody vouches for may be hostile: remove it; --max-layer-files raises the limit",
	},
	{
		compose.ErrTooLarge, cli.ExitInput, 107,
		"an image that nobody vouches for may be hostile: remove it; --max-layer-size raises the limit",
	},
	{compose.ErrWindow, cli.ExitInput, 108, "compress the layer again, with a window of 128 MiB at most"},
	{compose.ErrEscape, cli.ExitInput, 109, "the image is malformed or malicious; build it again"},
	{compose.ErrEntry, cli.ExitInput, 110, "the image is malformed; build it again"},
	{
		compose.ErrCompression, cli.ExitDamaged, 111,
		"the image was damaged before it was pushed; build and push it again",
	},
	{compose.ErrDiffID, cli.ExitDamaged, 112, "the image was damaged before it was pushed; build and push it again"},
	{
		squashfs.ErrTooManyIDs, cli.ExitInput, 113,
		"remove the image, or build it again with fewer file owners; spec.store.format dir has no limit",
	},
	{
		squashfs.ErrDamaged, cli.ExitDamaged, 114,
		"the disk of the output, or of --cache-dir, does not return what was written to it; check the disk",
	},
	{storage.ErrUnauthorized, cli.ExitRegistry, 115, "log in with `podman login`, or give --authfile or --pull-secret"},
	{
		storage.ErrBlocked, cli.ExitRegistry, 116,
		"push it to a mirror; or change mirrorSourcePolicy, or the blocked registries in registries.conf",
	},
	{storage.ErrNotFound, cli.ExitRegistry, 117, "check the name and the digest; the image may have been deleted"},
	{
		storage.ErrCertificate, cli.ExitRegistry, 118,
		"give the CA of the registry as ca.crt in the folder of --cert-dir, or as " +
			"/etc/containers/certs.d/" + cli.Host + "/ca.crt; a certificate that has expired or is for another host must be " +
			"renewed",
	},
	{
		storage.ErrPlainHTTP, cli.ExitRegistry, 119,
		"give it a certificate; or permit plain HTTP with --insecure-registry " + cli.Host + ", spec.insecureRegistries or " +
			"`insecure = true` in registries.conf",
	},
	{
		storage.ErrRealm, cli.ExitRegistry, 120,
		"serve tokens by HTTPS in the registry's domain; or trust it with its password, with --insecure-registry " +
			cli.Host + " or spec.insecureRegistries",
	},
	{
		storage.ErrStalled, cli.ExitRegistry, 121,
		"run the command again, which continues where it ended; check the network, proxies and mirrors; --stall " +
			"gives a slow registry more time",
	},
	{storage.ErrRegistry, cli.ExitRegistry, 122, "check the host name, the network and registries.conf"},
}
