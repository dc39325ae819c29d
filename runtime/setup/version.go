package setup

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
)

// versionOf is the version of CRI-O. On a machine that runs, the program says it. Of an image nothing is run: the
// version is that of the program's build, or of the package.
func (h host) versionOf(ctx context.Context, program string) (string, error) {
	if h.live {
		return runningVersion(ctx, program)
	}
	built, buildErr := h.builtVersion(program)
	if buildErr == nil {
		return built, nil
	}
	packaged, err := h.packagedVersion()
	if err != nil {
		return "", errors.Join(buildErr, err)
	}
	return packaged, nil
}

// runningVersion asks the program.
func runningVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, crioVersionTime)
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

// crioModule is the Go module of CRI-O.
const crioModule = "github.com/cri-o/cri-o"

// builtVersion reads the version of CRI-O's module in the program, if it was built from one with a version.
func (h host) builtVersion(program string) (string, error) {
	f, err := h.openFile(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := buildinfo.Read(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	modules := append([]*debug.Module{&info.Main}, info.Deps...)
	n := slices.IndexFunc(modules, func(m *debug.Module) bool { return m.Path == crioModule })
	if n < 0 || !released(strings.TrimPrefix(modules[n].Version, "v")) {
		return "", fmt.Errorf("%s: it has no version of %s", program, crioModule)
	}
	return strings.TrimPrefix(modules[n].Version, "v"), nil
}

// released reports whether a version is one of a release: a module without one has (devel), or v0.0.0 and a time.
func released(version string) bool {
	return version != "" && version[0] >= '1' && version[0] <= '9'
}

// The database of Debian's packages, dpkg(1), and how much of it is read, in bytes. It has a few million.
const (
	packages    = "/var/lib/dpkg/status"
	maxPackages = 64 << 20
)

// packagedVersion reads the version of the package that has CRI-O.
func (h host) packagedVersion() (string, error) {
	f, err := h.openFile(packages)
	if err != nil {
		return "", err
	}
	defer f.Close()
	name, lines := "", bufio.NewScanner(io.LimitReader(f, maxPackages))
	lines.Buffer(nil, maxFile)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "Package":
			name = value
		case field == "Version" && (name == "cri-o" || name == "crio"):
			if _, upstream, ok := strings.Cut(value, ":"); ok { // an epoch
				value = upstream
			}
			version, _, _ := strings.Cut(value, "-")
			return version, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("%s: %w", packages, err)
	}
	return "", fmt.Errorf("%s has no package cri-o", packages)
}
