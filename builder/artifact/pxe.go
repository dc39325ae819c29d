package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// ErrOnISO is returned for a system that expects its store on the ISO, and so cannot boot from a network.
var ErrOnISO = fault.New(fault.Input, "the node expects its store on the ISO that it booted from",
	"set spec.node.store.url in the appliance file, and build it again")

// Names of the examples for two boot loaders.
const (
	ipxeFile = "boot.ipxe"
	grubFile = "grub.cfg"
)

// noServer stands for the server in the examples if the config names none.
const noServer = "http://SERVER/pinbox"

// ExtractPXE writes the files by which the system in an ISO boots from a network to a new folder, and returns their
// names. As those of `coreos-installer iso extract pxe`, kernel and ramdisks are named after the ISO.
func ExtractPXE(ctx context.Context, name, out string, hooks progress.Hooks) (names []string, err error) {
	r, err := OpenISO(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	config, err := ignitionIn(r)
	server := ""
	if err == nil {
		server, err = pxeServer(config)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	image := iso.Of(r.Image)
	files, err := image.PXE()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	stem := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	args, err := pxeKargs(image, server+"/"+stem+"-rootfs.img")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	kernel := "vmlinuz"
	if files[kernel] == nil {
		kernel = "kernel.img" // of s390x
	}
	texts := pxeExamples(server, stem, kernel, args)
	texts[IgnitionFile] = config
	stage, err := OpenStage(out)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()
	perm := fi.Mode().Perm() & 0o644 // a config may have secrets
	hooks.Begin("extract "+filepath.Base(name), 0)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		names = append(names, stem+"-"+file)
		if err := stage.copy(ctx, stem+"-"+file, perm, files[file], hooks); err != nil {
			return nil, err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		names = append(names, file)
		if _, err := atomicfile.Write(stage.Path(file), texts[file], perm); err != nil {
			return nil, err
		}
	}
	if err := stage.WriteSums(ctx, "", layout.Sums{}, progress.Hooks{}); err != nil {
		return nil, err
	}
	return append(names, layout.SumsFile), stage.Publish()
}

// pxeServer returns the folder on a server that has the store, by a config.
func pxeServer(config []byte) (string, error) {
	url, onISO, err := ignition.StoreURL(config)
	switch {
	case err != nil:
		return "", err
	case onISO:
		return "", ErrOnISO
	case url == "":
		return noServer, nil
	}
	return url[:strings.LastIndex(url, "/")], nil
}

// pxeExamples returns the examples.
func pxeExamples(server, stem, kernel, args string) map[string][]byte {
	about := "# The files of this folder, and pinbox-node and the store of the appliance, are expected in\n# " +
		server + "\n"
	base := server + "/" + stem + "-"
	ipxe := "#!ipxe\n" + about +
		"kernel " + base + kernel + " initrd=initrd.img initrd=ignition.img " + args + "\n" +
		"initrd --name initrd.img " + base + "initrd.img\n" +
		"initrd --name ignition.img " + base + "ignition.img\nboot\n"
	protocol, where, _ := strings.Cut(base, "://")
	host, rest, _ := strings.Cut(where, "/")
	base = "(" + protocol + "," + host + ")/" + rest
	grub := about + "# GRUB reads by http, not by https.\nmenuentry " + stem + " {\n" +
		"\tlinux " + base + kernel + " " + args + "\n" +
		"\tinitrd " + base + "initrd.img " + base + "ignition.img\n}\n"
	return map[string][]byte{ipxeFile: []byte(ipxe), grubFile: []byte(grub)}
}

// pxeKargs returns the kernel arguments of an image, with the URL of the root file system instead of the label of
// the ISO.
func pxeKargs(image *iso.Image, rootfs string) (string, error) {
	k, err := image.Kargs()
	switch {
	case errors.Is(err, iso.ErrNoKargs):
		k.Current = "ignition.firstboot ignition.platform.id=metal" // of every CoreOS live ISO
	case err != nil:
		return "", err
	}
	args := slices.DeleteFunc(strings.Fields(k.Current), func(arg string) bool {
		return strings.HasPrefix(arg, "coreos.liveiso") || strings.HasPrefix(arg, "coreos.live.rootfs_url=")
	})
	line := strings.Join(append(args, "coreos.live.rootfs_url="+rootfs), " ")
	return line, iso.CheckKernelLine(line, iso.FromNetwork, "")
}

// copy writes a file.
func (s *Stage) copy(
	ctx context.Context, name string, perm os.FileMode, content io.Reader, hooks progress.Hooks,
) error {
	f, err := atomicfile.Create(s.Path(name), perm)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := io.Copy(f, reader{ctx, content, hooks.Done}); err != nil {
		return err
	}
	return f.Commit()
}
