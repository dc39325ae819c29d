package setup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// ErrNotSetUp means that there is nothing to undo.
var ErrNotSetUp = fault.New(fault.Input, "setup has written nothing here: there is no "+ManifestPath,
	"a node that Ignition has made was not set up")

// Undo removes what setup has written and nobody has changed since, and restarts CRI-O without the stores.
// detach removes the stores that are attached; its error, if something refers to one, leaves all as it is.
func (s Setup) Undo(ctx context.Context, detach func(context.Context) error) (r Result, err error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return r, err
	}
	defer unlock()
	m, r, err := s.removals()
	if errors.Is(err, ErrNotSetUp) { // or it was killed before it had written anything
		return r, errors.Join(err, s.host.sweep(m))
	}
	if err != nil {
		return r, err
	}
	if s.host.live {
		if err := detach(ctx); err != nil {
			return r, err
		}
		if err := stop(ctx, m); err != nil {
			return r, err
		}
		if err := detach(ctx); err != nil { // a pass has made the folder of the state again
			return r, err
		}
	}
	if err := s.host.remove(r.Changes); err != nil {
		return r, err
	}
	if s.host.live {
		if err := s.deactivate(ctx); err != nil {
			return r, err
		}
	}
	return r, s.host.sweep(m)
}

// sweep removes the directories that are empty. The manifest goes when nothing
// else is left to do, and the next run removes its folder, if need be.
func (h host) sweep(m Manifest) error {
	dirs := slices.Clone(m.Directories)
	slices.Reverse(dirs)
	if err := each(dirs, h.removeDirectory); err != nil {
		return err
	}
	if err := h.removeFile(ManifestPath); err != nil {
		return err
	}
	return h.removeDirectory(path.Dir(ManifestPath))
}

// stop stops the services that setup has written.
func stop(ctx context.Context, m Manifest) error {
	for _, e := range m.Files {
		unit := systemd.Unit(path.Base(e.Path))
		if path.Dir(e.Path) != provision.UnitDir || path.Ext(e.Path) != ".service" || strings.Contains(e.Path, "@") {
			continue
		}
		if err := unit.Stop(ctx); err != nil && unit.Loaded(ctx) {
			return err
		}
	}
	return nil
}

// CheckUndo returns what Undo would remove, and changes nothing.
func (s Setup) CheckUndo() (Result, error) {
	_, r, err := s.removals()
	return r, err
}

// removals finds out what is to be removed: the reverse of what Run does, last the program.
func (s Setup) removals() (m Manifest, r Result, err error) {
	if m, err = s.host.readManifest(); err != nil {
		return m, r, err
	}
	if m.Version == 0 {
		return m, r, ErrNotSetUp
	}
	r.Restart = s.host.live
	r.Changes = s.host.removals(m, Manifest{})
	if s.host.exists(crio.PinnedImagesPath) { // pinbox-node has written it
		r.Changes = append(r.Changes, Change{crio.PinnedImagesPath, Remove})
	}
	slices.Reverse(r.Changes)
	return m, r, nil
}

// deactivate makes systemd and CRI-O forget the files, and removes what pinbox-node has written.
func (s Setup) deactivate(ctx context.Context) error {
	if err := systemd.ReloadUnits(ctx); err != nil {
		return err
	}
	if systemd.HasProcess(ctx, crio.Unit) {
		if err := systemd.Unit(crio.Unit).Restart(ctx); err != nil {
			return err
		}
	}
	for _, slot := range crio.Slots() {
		if err := each(locks, func(name string) error {
			return errors.Join(s.host.removeFile(path.Join(slot, name)), s.host.removeDirectory(path.Join(slot, path.Dir(name))))
		}); err != nil {
			return err
		}
	}
	// CRI-O 1.36 has made an index in the folder for OCI artifacts when it last listed them. The status, and locks.
	return errors.Join(
		os.RemoveAll(path.Join(layout.NodeDir, layout.ArtifactsDir)), os.RemoveAll(path.Dir(layout.StatusPath)))
}

// locks are what CRI-O makes in a slot that is empty: containers/storage, layers.go and images.go.
var locks = []string{"overlay-images/images.lock", "overlay-layers/layers.lock"}

// relabel gives files the labels of SELinux's policy, where there is one.
func relabel(ctx context.Context, names ...string) {
	if program, err := exec.LookPath("restorecon"); err == nil {
		_ = exec.CommandContext(ctx, program, append([]string{"-R", "-F"}, names...)...).Run() // without SELinux it fails
	}
}
