package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config"
	ignerrors "github.com/coreos/ignition/v2/config/shared/errors"
	ignutil "github.com/coreos/ignition/v2/config/util"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	igntypes "github.com/coreos/ignition/v2/config/v3_6_experimental/types"
	"github.com/coreos/vcontext/report"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrMerge says that a configuration cannot be merged with the one that pinbox makes.
var ErrMerge = fault.New(fault.Input, "the Ignition config of the ISO cannot be merged",
	"change the Butane files of the appliance, or make an ISO without these parts")

// maxMerges is how deep configurations may be nested. Ignition has no limit; coreos-installer nests one level.
const maxMerges = 5

// Merge adds ours to theirs, the configuration that an ISO has already, as Ignition would at the first boot. The
// version is that of ours, or that of theirs if it is newer. A path, unit or user of which both say something
// else is an ErrMerge that names it. Notes name what theirs fetches when it boots, which nobody can compare.
func Merge(theirs, ours []byte) (merged []byte, notes []string, err error) {
	there, own := parts{says: map[string]string{}}, parts{says: map[string]string{}}
	if err := there.read(theirs, maxMerges); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	if err := own.read(ours, maxMerges); err != nil {
		return nil, nil, fmt.Errorf("%w: pinbox's own: %w", ErrMerge, err)
	}
	var conflicts []error
	for _, name := range slices.Sorted(maps.Keys(own.says)) {
		if said, both := there.says[name]; both && said != own.says[name] {
			conflicts = append(conflicts, fmt.Errorf("%s: the ISO has %s, pinbox %s", name, said, own.says[name]))
		}
	}
	if err := errors.Join(conflicts...); err != nil {
		return nil, nil, fmt.Errorf("%w:\n%w", ErrMerge, err)
	}
	merged, err = mergeAs(v34.ParseCompatibleVersion, v34.Merge, theirs, ours)
	if errors.Is(err, ignerrors.ErrUnknownVersion) {
		merged, err = mergeAs(v35.ParseCompatibleVersion, v35.Merge, theirs, ours)
	}
	if errors.Is(err, ignerrors.ErrUnknownVersion) {
		version, _, _ := ignutil.GetConfigVersion(theirs)
		err = fmt.Errorf("it has version %s; pinbox knows 3.0 to 3.5", version)
	}
	if err == nil {
		_, _, err = ign.Parse(merged)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	for _, source := range there.remote {
		notes = append(notes, "the Ignition config of the ISO fetches "+source+" when it boots; if that has a file or unit "+
			"of pinbox, pinbox's is replaced")
	}
	return merged, notes, nil
}

// mergeAs merges configurations as those of one version.
func mergeAs[C any](
	parse func([]byte) (C, report.Report, error), merge func(parent, child C) C, theirs, ours []byte,
) ([]byte, error) {
	parent, _, err := parse(theirs)
	if err != nil {
		return nil, err
	}
	child, _, err := parse(ours)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merge(parent, child))
}

// parts is what a configuration says of each path, unit, user and device, without the content of files: it may be
// secret.
type parts struct {
	says map[string]string
	// remote are the configurations that it fetches.
	remote []string
}

// read adds a configuration, and those in it that it merges, which override it.
func (p *parts) read(config []byte, depth int) error {
	c, findings, err := ign.Parse(config)
	if err != nil {
		return fmt.Errorf("%w %s", err, oneLine(findings.String()))
	}
	if source := c.Ignition.Config.Replace.Source; source != nil {
		return fmt.Errorf("it is replaced by %s when it boots", shortSource(*source))
	}
	if err := p.files(c); err != nil {
		return err
	}
	for _, u := range c.Systemd.Units {
		p.unit(u)
	}
	for _, u := range c.Passwd.Users {
		if u.PasswordHash != nil {
			p.says["password of user "+u.Name] = "the hash " + sum([]byte(*u.PasswordHash))
		}
	}
	for _, m := range c.Ignition.Config.Merge {
		switch {
		case m.Source == nil:
		case !strings.HasPrefix(*m.Source, "data:"):
			p.remote = append(p.remote, *m.Source)
		case depth == 0:
			return fmt.Errorf("more than %d configs within each other", maxMerges)
		default:
			child, err := decode(m)
			if err == nil {
				err = p.read(child, depth-1)
			}
			if err != nil {
				return fmt.Errorf("config in it: %w", err)
			}
		}
	}
	return nil
}

func (p *parts) files(c igntypes.Config) error {
	for _, f := range c.Storage.Files {
		said, err := describeFile(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		p.says[f.Path] = said
	}
	for _, d := range c.Storage.Directories {
		p.says[d.Path] = fmt.Sprintf("a folder %s", describeNode(d.Node, d.Mode, 0o755))
	}
	for _, l := range c.Storage.Links {
		p.says[l.Path] = "a link " + asJSON(l)
	}
	for _, d := range c.Storage.Disks {
		p.says["partitions of "+d.Device] = asJSON(d)
	}
	for _, f := range c.Storage.Filesystems {
		p.says["file system of "+f.Device] = asJSON(f)
	}
	return nil
}

func (p *parts) unit(u igntypes.Unit) {
	p.put("unit "+u.Name, u.Contents)
	if u.Enabled != nil {
		p.says["enabling of unit "+u.Name] = fmt.Sprint(*u.Enabled)
	}
	if u.Mask != nil {
		p.says["masking of unit "+u.Name] = fmt.Sprint(*u.Mask)
	}
	for _, d := range u.Dropins {
		p.put("drop-in "+d.Name+" of unit "+u.Name, d.Contents)
	}
}

func (p *parts) put(name string, contents *string) {
	if contents != nil {
		p.says[name] = sum([]byte(*contents))
	}
}

func describeFile(f igntypes.File) (string, error) {
	said := "a file " + describeNode(f.Node, f.Mode, 0o644)
	for _, r := range append([]igntypes.Resource{f.Contents}, f.Append...) {
		switch {
		case r.Source == nil:
		case !strings.HasPrefix(*r.Source, "data:"):
			said += ", " + *r.Source
		default:
			content, err := decode(r)
			if err != nil {
				return "", err
			}
			said += ", " + sum(content)
		}
	}
	if len(f.Append) > 0 {
		said += ", appended"
	}
	return said, nil
}

// describeNode describes the owner and the mode of a file or folder.
func describeNode(n igntypes.Node, mode *int, otherwise int) string {
	if mode == nil {
		mode = &otherwise
	}
	return fmt.Sprintf("%04o %s:%s", *mode, owner(n.User.Name, n.User.ID), owner(n.Group.Name, n.Group.ID))
}

func sum(content []byte) string {
	return fmt.Sprintf("of %d bytes with SHA-256 %s", len(content), digest.FromBytes(content).Encoded())
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // of types that Ignition reads from JSON
	}
	return string(text)
}

// shortSource leaves out the content of a data URL.
func shortSource(source string) string {
	if strings.HasPrefix(source, "data:") {
		return "another one in it"
	}
	return source
}
