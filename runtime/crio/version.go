package crio

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// InstalledVersion is the version of CRI-O in an image, of which nothing is run: that of the program's build, or of the
// package. open opens a regular file of the image.
func InstalledVersion(open func(name string) (*os.File, error), program string) (string, error) {
	version, err := builtVersion(open, program)
	if err != nil {
		var packageErr error
		if version, packageErr = packagedVersion(open); packageErr != nil {
			return "", errors.Join(err, packageErr)
		}
	}
	return version, nil
}

// versionTime is how long CRI-O may take to say its version: it needs milliseconds.
const versionTime = 30 * time.Second

// ProgramVersion asks a program of CRI-O for its version.
func ProgramVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if version, ok := strings.CutPrefix(line, "crio version "); ok {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("got %q", out[:min(len(out), 80)])
}

// module is the Go module of CRI-O.
const module = "github.com/cri-o/cri-o"

// builtVersion reads the version of CRI-O's module in the program, if it was built from one with a version.
func builtVersion(open func(name string) (*os.File, error), program string) (string, error) {
	f, err := open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := buildinfo.Read(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	for _, m := range append(info.Deps, &info.Main) {
		// A module without a version has (devel), or v0.0.0 and a time.
		if version := strings.TrimPrefix(m.Version, "v"); m.Path == module && version > "1" && version[0] <= '9' {
			return version, nil
		}
	}
	return "", fmt.Errorf("%s: it has no version of %s", program, module)
}

// The database of Debian's packages, dpkg(1), and how much of it is read, in bytes. It has a few million.
const (
	packages    = "/var/lib/dpkg/status"
	maxPackages = 32 << 20
)

// inPackages finds the version of upstream in the paragraph of the package that has CRI-O, if it is installed: a
// package that was removed keeps its paragraph while it has configuration files.
var inPackages = regexp.MustCompile(
	`(?m)^Package: cri-?o\n(?:.+\n)*?Status: .+ installed\n(?:.+\n)*?Version: (?:\d+:)?([^-\n]+)`)

// packagedVersion reads the version of the package that has CRI-O.
func packagedVersion(open func(name string) (*os.File, error)) (string, error) {
	f, err := open(packages)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxPackages))
	if err != nil {
		return "", err
	}
	found := inPackages.FindSubmatch(content)
	if found == nil {
		return "", fmt.Errorf("%s has no package cri-o", packages)
	}
	return string(found[1]), nil
}
