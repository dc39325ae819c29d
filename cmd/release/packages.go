package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime/provision"
)

// partsDir has what goes into the packages, until they are made.
const partsDir = ".parts"

// content is a file of a package, as nfpm.yaml has it.
type content struct {
	Source string `json:"src"`
	Target string `json:"dst"`
	Info   struct {
		Mode uint32 `json:"mode"`
	} `json:"file_info"`
}

func file(source, target string, mode uint32) content {
	c := content{Source: source, Target: target}
	c.Info.Mode = mode
	return c
}

// pkg is a package: https://nfpm.goreleaser.com/configuration
type pkg struct {
	Name         string            `json:"name"`
	Architecture string            `json:"arch"`
	Version      string            `json:"version"`
	Section      string            `json:"section"`
	Priority     string            `json:"priority"`
	Maintainer   string            `json:"maintainer"`
	Description  string            `json:"description"`
	Homepage     string            `json:"homepage"`
	License      string            `json:"license"`
	ModTime      string            `json:"mtime"`
	RPM          map[string]any    `json:"rpm"`
	Recommends   []string          `json:"recommends,omitempty"`
	Contents     []content         `json:"contents"`
	Scripts      map[string]string `json:"scripts,omitempty"`
}

// parts writes man pages, completions and units.
func (r *release) parts(ctx context.Context) error {
	for _, name := range []string{"pinbox", "pinbox-node"} {
		program := r.path(name + "-linux-" + runtime.GOARCH)
		man := exec.CommandContext(ctx, program, "man", r.path(partsDir+"/man-"+name))
		man.Env = append(os.Environ(), r.epoch())
		if err := run(man); err != nil {
			return err
		}
		for _, shell := range slices.Sorted(maps.Keys(completions)) {
			text, err := output(ctx, program, "completion", shell)
			if err != nil {
				return err
			}
			if err := os.WriteFile(r.path(partsDir+"/"+name+"."+shell), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return r.units()
}

// completions are the files of completions, by shells; % is the name of the program.
var completions = map[string]string{
	"bash": "/usr/share/bash-completion/completions/%",
	"fish": "/usr/share/fish/vendor_completions.d/%.fish",
	"zsh":  "/usr/share/zsh/site-functions/_%",
}

// units writes the units of a node, for the program of the package, and the preset that leaves them disabled: what
// makes a node of a machine is `pinbox-node setup`.
func (r *release) units() error {
	parts, err := provision.Node{
		Store: provision.Store{None: true}, Program: provision.PackagedProgram, AutoAttach: true,
	}.Parts()
	if err != nil {
		return err
	}
	dir := r.path(partsDir + "/units")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	preset := "# `pinbox-node setup` makes a node of this machine.\n"
	for _, u := range parts.Units {
		if u.Content == "" { // a drop-in of CRI-O's
			continue
		}
		preset += "disable " + u.Name + "\n"
		if err := os.WriteFile(filepath.Join(dir, u.Name), []byte(u.Content), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(r.path(partsDir+"/90-pinbox-node.preset"), []byte(preset), 0o644)
}

// packages makes a deb and an rpm of each program, for this machine's architecture.
func (r *release) packages(ctx context.Context) error {
	pinbox, err := r.pkg("pinbox", r.path("pinbox-linux-"+runtime.GOARCH), "builds offline appliances for CRI-O nodes")
	if err != nil {
		return err
	}
	// A store takes the pinbox-node that lies beside pinbox.
	pinbox.Recommends = []string{"pinbox-node"}
	node, err := r.pkg("pinbox-node", r.path("pinbox-node-linux-"+runtime.GOARCH),
		"keeps the images of a CRI-O node pinned and present")
	if err != nil {
		return err
	}
	units, err := filepath.Glob(r.path(partsDir + "/units/*"))
	for _, unit := range units {
		node.Contents = append(node.Contents, file(unit, "/usr/lib/systemd/system/"+filepath.Base(unit), 0o644))
	}
	node.Contents = append(node.Contents, file(r.path(partsDir+"/90-pinbox-node.preset"),
		"/usr/lib/systemd/system-preset/90-pinbox-node.preset", 0o644))
	node.Scripts = map[string]string{
		"postinstall": "cmd/release/postinstall.sh", "preremove": "cmd/release/preremove.sh",
		"postremove": "cmd/release/postremove.sh",
	}
	return errors.Join(err, r.pack(ctx, pinbox), r.pack(ctx, node))
}

// pkg is a package with a program, its man pages and its completions.
func (r *release) pkg(name, program, description string) (p pkg, err error) {
	p = pkg{
		Name: name, Architecture: runtime.GOARCH, Version: r.version, Section: "admin", Priority: "optional",
		Maintainer: "The pinbox authors <pinbox@example.com>", Description: name + " " + description,
		Homepage: "https://github.com/pinbox/pinbox", License: "Apache-2.0", ModTime: r.time.Format(time.RFC3339),
		RPM: map[string]any{"buildhost": "localhost", "summary": name + " " + description, "group": "System"},
		Contents: []content{
			file(program, path.Join(path.Dir(provision.PackagedProgram), name), 0o755),
			file("LICENSE", "/usr/share/doc/"+name+"/copyright", 0o644),
		},
	}
	for shell, target := range completions {
		p.Contents = append(p.Contents,
			file(r.path(partsDir+"/"+name+"."+shell), strings.ReplaceAll(target, "%", name), 0o644))
	}
	pages, err := filepath.Glob(r.path(partsDir + "/man-" + name + "/*.1"))
	for _, page := range pages {
		err = errors.Join(err, compress(page))
		p.Contents = append(p.Contents, file(page+".gz", "/usr/share/man/man1/"+filepath.Base(page)+".gz", 0o644))
	}
	slices.SortFunc(p.Contents, func(a, b content) int { return strings.Compare(a.Target, b.Target) })
	return p, err
}

// epoch is an environment variable with the time of what is made.
func (r *release) epoch() string { return "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10) }

// compress writes a gzipped copy beside a file.
func compress(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return errors.Join(err, w.Close(), os.WriteFile(name+".gz", b.Bytes(), 0o644))
}

// pack makes the deb and the rpm of a package.
func (r *release) pack(ctx context.Context, p pkg) error {
	text, err := json.Marshal(p) // JSON is YAML
	config := r.path(partsDir + "/" + p.Name + ".yaml")
	if err := errors.Join(err, os.WriteFile(config, text, 0o644)); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		cmd := exec.CommandContext(ctx, r.nfpm, "package", "--config", config, "--packager", kind, "--target", r.out)
		cmd.Env = append(os.Environ(), r.epoch())
		if err := run(cmd); err != nil {
			return err
		}
	}
	return nil
}
