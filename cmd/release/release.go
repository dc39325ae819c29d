package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/provenance"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// release is one that is made.
type release struct {
	out, nfpm string
	platforms []string
	signer    signature.Signer

	// commit, and the time of it, from git; version as the go command stamps it into the programs.
	commit, version string
	time            time.Time
	// programs are the files that were built.
	programs []string
}

// Names of the documents. SHA256SUMS lists all other files.
const (
	sumsFile       = "SHA256SUMS"
	provenanceFile = "provenance.json"
	changelogFile  = "CHANGELOG.md"
)

func (r *release) make(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.path(partsDir), 0o755)); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		r.source, r.build, r.parts, r.packages, r.image, r.changelog, r.sums,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) path(name string) string { return filepath.Join(r.out, name) }

// source finds out what is built.
func (r *release) source(ctx context.Context) error {
	out, err := output(ctx, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, at, _ := strings.Cut(strings.TrimSpace(out), " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	r.commit, r.time = commit, time.Unix(seconds, 0).UTC()
	return err
}

// build builds the static programs for all platforms.
func (r *release) build(ctx context.Context) error {
	for _, platform := range r.platforms {
		system, arch, _ := strings.Cut(platform, "/")
		names := []string{"pinbox", "pinbox-node"}
		if system != "linux" {
			names = names[:1]
		}
		for _, name := range names {
			file := r.path(name + "-" + system + "-" + arch)
			if err := compile(ctx, file, name, "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch); err != nil {
				return err
			}
			r.programs = append(r.programs, file)
		}
	}
	info, err := buildinfo.ReadFile(r.programs[0])
	if err != nil {
		return err
	}
	r.version = info.Main.Version
	return nil
}

// compile builds a program. The go command stamps the version of the checkout into it, by which later releases of
// pinbox-node are told from earlier ones.
func compile(ctx context.Context, file, name string, env ...string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "2", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w",
		"-tags", "containers_image_openpgp,exclude_graphdriver_btrfs", "-o", file, "./cmd/"+name)
	cmd.Env = append(os.Environ(), append(env, "GOFLAGS=")...)
	return run(cmd)
}

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

func output(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// changelog lists the commits since the last tag by their areas: the words before the colon of their subjects.
func (r *release) changelog(ctx context.Context) error {
	since := "HEAD"
	if tag, err := output(ctx, "git", "describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^"); err == nil {
		since = strings.TrimSpace(tag) + "..HEAD"
	}
	subjects, err := output(ctx, "git", "log", "--no-merges", "--format=%s", since)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(changelogFile), []byte(changes(r.version, r.time, subjects)), 0o644)
}

// changes formats the subjects of commits, the newest first.
func changes(version string, at time.Time, subjects string) string {
	const other = "other"
	areas := map[string][]string{}
	for subject := range strings.Lines(subjects) {
		area, what, found := strings.Cut(strings.TrimSpace(subject), ": ")
		if !found || strings.Contains(area, " ") && !strings.Contains(area, ", ") {
			area, what = other, strings.TrimSpace(subject)
		}
		areas[area] = append(areas[area], what)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s (%s)\n", version, at.Format(time.DateOnly))
	names := slices.Sorted(maps.Keys(areas))
	if i := slices.Index(names, other); i >= 0 { // last
		names = append(slices.Delete(names, i, i+1), other)
	}
	for _, name := range names {
		fmt.Fprintf(&b, "\n## %s\n", name)
		for _, what := range areas[name] {
			fmt.Fprintf(&b, "- %s\n", what)
		}
	}
	return b.String()
}

// sums writes the provenance of all files, and their sums with the signature.
func (r *release) sums(context.Context) error {
	if err := os.RemoveAll(r.path(partsDir)); err != nil {
		return err
	}
	sums, err := sumsOf(r.out)
	if err != nil {
		return err
	}
	text, err := provenance.Build{
		Commit: r.commit, Version: r.version, Parameters: map[string]any{"platforms": strings.Join(r.platforms, ",")},
	}.Statement(sums)
	if err != nil {
		return err
	}
	sums[provenanceFile] = digest.FromBytes(text).Encoded()
	content := sums.Encode()
	if err := errors.Join(os.WriteFile(r.path(provenanceFile), text, 0o644),
		os.WriteFile(r.path(sumsFile), content, 0o644)); err != nil || r.signer.IsZero() {
		return err
	}
	signed, err := r.signer.Sign(bytes.NewReader(content))
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(sumsFile+r.signer.Suffix()), signed, 0o644)
}

// sumsOf returns the sums of the files of a folder.
func sumsOf(dir string) (layout.Sums, error) {
	entries, err := os.ReadDir(dir)
	sums := layout.Sums{}
	for _, e := range entries {
		content, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		err = errors.Join(err, readErr)
		sums[e.Name()] = digest.FromBytes(content).Encoded()
	}
	return sums, err
}
