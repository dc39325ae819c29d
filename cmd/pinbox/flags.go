package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// inputFlags are the flags for inputs and for the access to registries, of plan, build, delta and lock.
type inputFlags struct {
	config     string
	sources    sourceFlags
	mirrors    []string
	lock       string
	locked     bool
	update     bool
	platform   string
	release    int64
	nodeBinary string
	level      string
	setAPI     string
	access     storage.Access
	pullSecret string
	insecure   []string
	registry   string // --default-registry
	anyArch    []string
	verbose    bool
	debug      bool
	output     cli.Output

	maxLayerSize string
}

func (f *inputFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.config, "config", "c", "", "appliance `FILE` that lists inputs, instead of inputs as flags")
	cli.Files(flags, "config", "yaml", "yml", "json")
	f.sources.add(flags)
	flags.StringVar(&f.registry, "default-registry", "",
		"`HOST` that completes names without a registry in lists, as docker.io for nginx:1.27, instead of the one in the "+
			"appliance file (default: what registries.conf says)")
	flags.StringArrayVar(&f.anyArch, "any-architecture", nil,
		"`NAME` of an image that is taken although it is for another architecture, in addition to those of the "+
			"appliance file; may be repeated")
	cli.Under("Inputs", flags)
	f.addLock(flags)
	f.addAccess(flags)
}

// addLock adds the flags that apply to all inputs.
func (f *inputFlags) addLock(flags *pflag.FlagSet) {
	flags.StringVar(&f.lock, "lock", "",
		"lock `FILE` of an earlier run, with the digests of tags (default: appliance.lock.json next to "+
			"appliance.yaml, if it exists)")
	cli.Files(flags, "lock", "json")
	flags.BoolVar(&f.locked, "locked", false, "fail unless the inputs resolve to the images of the lock")
	flags.BoolVar(&f.update, "update", false, "resolve all tags again, and ignore the lock")
	cli.Under("Lock", flags)
	flags.StringVar(&f.platform, "platform", "",
		"`PLATFORM` of the nodes, instead of the one in the appliance file (default linux/amd64)")
	cli.Words(flags, "platform", spec.Platforms()...)
	flags.Int64Var(&f.release, "release-number", 0,
		"`NUMBER` of this release, greater than those before, instead of the one in the appliance file")
	flags.StringVar(&f.nodeBinary, "node-binary", "",
		"`FILE` of pinbox-node to put into the store, instead of the one in the appliance file (default: the one "+
			"next to pinbox; if there is none, nodes keep theirs after a delta)")
	cli.Under("Nodes", flags)
}

// addLevel adds --compression-level, for commands that write a store.
func (f *inputFlags) addLevel(flags *pflag.FlagSet) {
	flags.StringVar(&f.level, "compression-level", "",
		"`LEVEL` of the store's compression, instead of the one in the appliance file: fast, default or best")
	cli.Words(flags, "compression-level", string(squashfs.Fast), string(squashfs.Default), string(squashfs.Best))
	cli.Under("Output", flags)
}

// addAPI adds --api, for commands that write manifests.
func (f *inputFlags) addAPI(flags *pflag.FlagSet) {
	flags.StringVar(&f.setAPI, "api", "",
		"`VERSION` of the API of PinnedImageSets, instead of the one in the appliance file: v1, or v1alpha1 for "+
			"OpenShift 4.16 to 4.18 with TechPreviewNoUpgrade")
	cli.Words(flags, "api", "v1", "v1alpha1")
	cli.Under("Nodes", flags)
}

// addAccess adds the flags for the access to registries.
func (f *inputFlags) addAccess(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.mirrors, "mirrors", nil,
		"`PATH` of ImageDigestMirrorSets, ImageTagMirrorSets and ImageContentSourcePolicies, in addition to the "+
			"mirrors of the appliance file: a file, or a folder of files; may be repeated")
	flags.StringVar(&f.access.AuthFile, "authfile", "",
		"`FILE` of registry credentials (default: REGISTRY_AUTH_FILE, then podman's and docker's files)")
	flags.StringVar(&f.pullSecret, "pull-secret", "", "`FILE` of registry credentials as an OpenShift pull secret")
	flags.StringVar(&f.access.CertDir, "cert-dir", "",
		"`DIR` of certificates and keys for registries (default: /etc/containers/certs.d)")
	flags.StringArrayVar(&f.insecure, "insecure-registry", nil,
		"`HOST[:PORT]` of a registry or a mirror that may serve plain HTTP, or have an untrusted certificate, "+
			"in addition to those of the appliance file; may be repeated")
	flags.DurationVar(&f.access.StallTimeout, "stall", storage.DefaultStallTimeout,
		"`TIME` in which something must arrive from registries; until then, requests that fail are repeated")
	flags.IntVar(&f.access.Parallel, "parallel", 0, "`NUMBER` of connections to registries at most (default: 32)")
	flags.IntVar(&f.access.PerSecond, "requests-per-second", 0,
		"`NUMBER` of requests that one registry gets in a second (default: as it admits them)")
	flags.StringVar(&f.access.Policy, "policy", "",
		"`FILE` of the signature policy (default: the user's or the host's policy.json)")
	cli.Files(flags, "policy", "json")
	flags.BoolVar(&f.access.InsecurePolicy, "insecure-policy", false, "accept every image, and ignore the policy")
	flags.StringVar(&f.access.RegistriesDir, "registries.d", "",
		"`DIR` of files with the locations of signatures (default: the user's or the host's registries.d)")
	flags.BoolVar(&f.verbose, "verbose", false, "say what is asked of which registry, and whose credentials are used")
	flags.BoolVar(&f.debug, "debug", false, "say all that the library for registries does")
	cli.Under("Registries", flags)
	flags.Int64Var(&f.access.Limits.Files, "max-layer-files", compose.DefaultFiles,
		"`NUMBER` of files, folders and links that one layer may have")
	flags.StringVar(&f.maxLayerSize, "max-layer-size", "128GiB",
		"`SIZE` that one layer may have unpacked")
	cli.Under("Limits", flags)
}

// addFrom adds --from, which names the bases of a delta.
func addFrom(flags *pflag.FlagSet, from *[]string) {
	flags.StringArrayVar(from, "from", nil,
		"`PATH` of what nodes have: folder of an appliance or of a delta, ISO, or lock; if repeated, every node has "+
			"one of them")
	cli.Files(flags, "from", "iso", "json")
	cli.Under("Inputs", flags)
}

// addOut adds --out and --output.
func addOut(flags *pflag.FlagSet, out *string, usage string, output *cli.Output) {
	flags.StringVarP(out, "out", "o", *out, usage)
	output.Add(flags)
}

// inputsByFlags refuses arguments without a flag, for example the other files of a pattern after a
// flag, which the shell expands.
func inputsByFlags(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cli.Usagef("%q has no flag: give an appliance file with -c, and other inputs with a flag before each",
		args[0])
}

// options converts the flags to the builder's options.
func (f *inputFlags) options() (o builder.Options, err error) {
	sources := f.sources.entries()
	if f.config == "" && len(sources) == 0 {
		return o, cli.Usagef("give an appliance file with -c, or inputs with flags: %s",
			strings.Join(source.FlagNames(), ", "))
	}
	if err := f.completeAccess(); err != nil {
		return o, err
	}
	o.Access, o.Version, o.Inputs = f.access, version, f.sources.given()
	if o.ModTime, err = sourceDateEpoch(); err != nil {
		return o, err
	}
	o.Appliance = spec.New(sources...)
	if f.config != "" {
		if o.Appliance, err = spec.Read(f.config); err != nil {
			return o, err
		}
		o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, sources...)
	}
	if err := f.override(&o.Appliance); err != nil {
		return o, err
	}
	o.NodeBinary = nodeBinary(o.Appliance.Spec.Platform)
	o.Locked = f.locked
	o.Lock, err = f.readLock()
	return o, err
}

// completeAccess checks the flags for the access to registries.
func (f *inputFlags) completeAccess() (err error) {
	if f.verbose || f.debug {
		cli.ShowRequests(f.debug)
	}
	if f.pullSecret != "" {
		if f.access.AuthFile != "" {
			return cli.Usagef("--authfile and --pull-secret are the same thing: give one")
		}
		f.access.AuthFile = f.pullSecret
	}
	if f.access.StallTimeout <= 0 {
		return cli.Usagef("--stall %s: must be greater than 0", f.access.StallTimeout)
	}
	if f.access.Parallel < 0 || f.access.Parallel > storage.MaxParallel {
		return cli.Usagef("--parallel %d: must be 1 to %d", f.access.Parallel, storage.MaxParallel)
	}
	if f.access.PerSecond < 0 {
		return cli.Usagef("--requests-per-second %d: must be greater than 0", f.access.PerSecond)
	}
	for _, host := range f.insecure {
		if err := storage.CheckHost(host); err != nil {
			return cli.Usagef("--insecure-registry: %w", err)
		}
	}
	if f.access.InsecurePolicy && f.access.Policy != "" {
		return cli.Usagef("--policy and --insecure-policy contradict each other")
	}
	if f.access.Limits.Size, err = bytesize.Parse(f.maxLayerSize); err != nil || f.access.Limits.Size <= 0 {
		return cli.Usagef("--max-layer-size: %q is not a size above 0, such as 128GiB", f.maxLayerSize)
	}
	if f.access.Limits.Files <= 0 {
		return cli.Usagef("--max-layer-files %d: must be greater than 0", f.access.Limits.Files)
	}
	return nil
}

// override sets what the flags say of an appliance.
func (f *inputFlags) override(a *spec.Appliance) (err error) {
	if f.platform != "" {
		if a.Spec.Platform, err = spec.ParsePlatform(f.platform); err != nil {
			return cli.Usagef("%w", err)
		}
	}
	if f.setAPI != "" {
		if a.Spec.OpenShift == nil {
			return cli.Usagef("--api is for a cluster: set spec.openshift.version in the appliance file")
		}
		a.Spec.OpenShift.API = f.setAPI
	}
	if f.level != "" {
		a.Spec.Store.CompressionLevel = squashfs.Level(f.level)
		if err := (&squashfs.Options{Level: a.Spec.Store.CompressionLevel}).Validate(); err != nil {
			return cli.Usagef("--compression-level: %w", err)
		}
	}
	if err := storage.CheckDefaultRegistry(f.registry); err != nil {
		return cli.Usagef("--default-registry: %w", err)
	}
	a.Spec.DefaultRegistry = cmp.Or(f.registry, a.Spec.DefaultRegistry)
	a.Spec.AnyArchitecture = append(a.Spec.AnyArchitecture, f.anyArch...)
	a.Metadata.Release = cmp.Or(f.release, a.Metadata.Release)
	a.Spec.Mirrors = append(a.Spec.Mirrors, f.mirrors...)
	a.Spec.InsecureRegistries = append(a.Spec.InsecureRegistries, f.insecure...)
	a.Spec.Node.Binary = cmp.Or(f.nodeBinary, a.Spec.Node.Binary)
	return nil
}

// lockPath returns the path of the lock: the value of --lock, or the default for the appliance file.
func (f *inputFlags) lockPath() string {
	if f.lock != "" || f.config == "" {
		return f.lock
	}
	return strings.TrimSuffix(f.config, filepath.Ext(f.config)) + ".lock.json"
}

func (f *inputFlags) readLock() (lock pinset.Lock, err error) {
	path := f.lockPath()
	switch {
	case f.locked && f.update:
		return lock, cli.Usagef("--locked and --update contradict each other")
	case f.locked && path == "":
		return lock, cli.Usagef("--locked needs a lock: name it with --lock")
	case f.update || path == "":
		return lock, nil
	}
	lock, err = artifact.ReadLock(path)
	if errors.Is(err, fs.ErrNotExist) && f.lock == "" {
		if !f.locked {
			return lock, nil
		}
		return lock, fmt.Errorf("%w; `pinbox lock -c %s` writes it", err, f.config)
	}
	return lock, err
}

// nodeBinary is the pinbox-node for a platform by the place of this program.
func nodeBinary(p pinset.Platform) string {
	self, err := os.Executable()
	if err != nil { // without /proc
		self, err = exec.LookPath(os.Args[0])
	}
	if err != nil {
		self = ""
	}
	_, arch, _ := p.Split()
	return nodeBinaryOf(filepath.Dir(self), arch)
}

// nodeBinaryOf prefers the pinbox-node with the architecture in its name: in the folder of pinbox, or of the package
// pinbox-nodes. It need not exist.
func nodeBinaryOf(dir, arch string) string {
	for _, folder := range []string{dir, filepath.Join(dir, "../lib/pinbox")} {
		name := filepath.Join(folder, "pinbox-node-"+arch)
		if _, err := os.Stat(name); arch != "" && err == nil {
			return name
		}
	}
	return filepath.Join(dir, "pinbox-node")
}

// sourceDateEpoch is the time that reproducible builds use:
// https://reproducible-builds.org/specs/source-date-epoch/
func sourceDateEpoch() (time.Time, error) {
	value := os.Getenv("SOURCE_DATE_EPOCH")
	if value == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds < 0 || seconds > math.MaxUint32 {
		return time.Time{}, cli.Usagef("SOURCE_DATE_EPOCH is %q: want a number of seconds since 1970, at most %d, in 2106: "+
			"squashfs has no later times", value, uint32(math.MaxUint32))
	}
	return time.Unix(seconds, 0), nil
}

// checkLockFile checks, before any request to a registry, that a lock can be written to a path. It may
// replace an older lock, but no other file.
func checkLockFile(path string) error {
	if path == "" {
		return cli.Usagef("name the file to write with -o")
	}
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		_, err := os.Stat(filepath.Dir(path))
		return err
	case err != nil:
		return err
	}
	if _, err := artifact.ReadLock(path); err != nil {
		return cli.Usagef("%s exists and is not a lock, so it is not replaced: %w", path, err)
	}
	return nil
}

// sourceFlags are the values of the flags for inputs, by the names of the flags.
type sourceFlags map[string]*sourceValue

// sourceValue is the value of a flag for inputs. It implements pflag.Value.
type sourceValue struct {
	flag source.Flag
	all  []string
}

func (v *sourceValue) Set(text string) error {
	switch {
	case !v.flag.SingleValue:
		v.all = append(v.all, text)
	case text == "":
		v.all = nil
	default:
		v.all = []string{text}
	}
	return nil
}

func (v *sourceValue) String() string { return strings.Join(v.all, ", ") }

// Type is the placeholder of the value in the help.
func (v *sourceValue) Type() string { return v.flag.Value }

// add makes the flags from the table of sources.
func (f *sourceFlags) add(flags *pflag.FlagSet) {
	*f = sourceFlags{}
	for _, kind := range source.Kinds() {
		for _, flag := range kind.Flags {
			usage := cmp.Or(flag.Doc, kind.Doc)
			if !flag.SingleValue {
				usage += "; may be repeated"
			}
			value := &sourceValue{flag: flag}
			(*f)[flag.Name] = value
			flags.Var(value, flag.Name, usage)
		}
	}
}

// given returns the values of the flags, for the provenance statement: of a path only the last element.
func (f sourceFlags) given() map[string][]string {
	given := map[string][]string{}
	for name, value := range f {
		for _, v := range value.all {
			if value.flag.Value != "NAME" {
				path, image, named := strings.Cut(v, "=")
				if v = filepath.Base(path); named {
					v += "=" + image
				}
			}
			given[name] = append(given[name], v)
		}
	}
	return given
}

// entries returns the inputs that the flags name.
func (f sourceFlags) entries() []source.Entry {
	values := map[string][]string{}
	for name, value := range f {
		values[name] = value.all
	}
	return source.FromFlags(values)
}

// passphraseVariable is the environment variable with the passphrase of the key, passphraseFileVariable the one with
// the default of --sign-passphrase-file.
const (
	passphraseVariable     = "PINBOX_SIGN_PASSPHRASE"
	passphraseFileVariable = passphraseVariable + "_FILE"
)

// signFlags are the flags for signing of build, delta and medium.
type signFlags struct{ key, passphrase string }

func (f *signFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.key, "sign-key", "",
		"`FILE` of a secret key in PEM, to sign the sums and the store with")
	flags.StringVar(&f.passphrase, "sign-passphrase-file", "",
		"`FILE` with the passphrase of that key (default: "+passphraseFileVariable+", or the value of "+
			passphraseVariable+", or it is asked for on a terminal)")
	cli.Files(flags, "sign-key", "key", "pem")
	cli.Under("Signature", flags)
}

// signer reads the key; without one the signer signs nothing. If the key has a passphrase that is given nowhere, it
// is asked for, on a terminal.
func (f signFlags) signer(cmd *cobra.Command) (signature.Signer, error) {
	if f.key == "" {
		if f.passphrase != "" {
			return signature.Signer{}, cli.Usagef("--sign-passphrase-file goes with --sign-key")
		}
		return signature.Signer{}, nil
	}
	passphrase, given := []byte(os.Getenv(passphraseVariable)), os.Getenv(passphraseVariable) != ""
	if file := cmp.Or(f.passphrase, os.Getenv(passphraseFileVariable)); file != "" {
		var err error
		if passphrase, err = input.Read(file); err != nil {
			return signature.Signer{}, err
		}
		passphrase, given = bytes.TrimRight(passphrase, "\r\n"), true
	}
	s, err := signature.ReadSigner(f.key, passphrase)
	if given || !errors.Is(err, signature.ErrPassphrase) {
		return s, err
	}
	passphrase, asked, askErr := cli.Secret(cmd, "Passphrase of "+f.key)
	switch {
	case askErr != nil:
		return s, askErr
	case !asked:
		return s, err
	}
	return signature.ReadSigner(f.key, passphrase)
}
