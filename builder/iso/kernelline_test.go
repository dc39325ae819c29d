package iso

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

const coreOS = "ignition.firstboot ignition.platform.id=metal coreos.liveiso=fcos"

func TestKernelLineByWhatTheSystemDoes(t *testing.T) {
	medium := []System{RunsFromMedium, InstallsFromMedium, InstallsBesideOthers}
	all := append(slices.Clone(medium), StoreElsewhere)
	network := "ignition.firstboot coreos.live.rootfs_url=http://boot.lab/rootfs.img"
	for name, test := range map[string]struct {
		line string
		on   []System
		text string // of the error; "" for none
	}{
		"of CoreOS":                  {coreOS, all, ""},
		"of a label in capitals":     {strings.Replace(coreOS, "=fcos", "=FCOS", 1), all, ""},
		"with a console":             {coreOS + " console=ttyS0,115200n8 fips=1", all, ""},
		"the last value counts":      {"coreos.liveiso=old " + coreOS, all, ""},
		"no URL of a config":         {coreOS + " ignition.config.url=", all, ""},
		"URL of a config":            {coreOS + " ignition.config.url=http://boot.lab/a.ign", all, "ignition.config.url=http://boot.lab"},
		"URL of a config, PXE":       {network + " ignition.config.url=http://a/b", []System{FromNetwork}, "ignition.config.url"},
		"no first boot":              {"coreos.liveiso=fcos", all, "ignition.firstboot is missing"},
		"first boot off":             {coreOS + " ignition.firstboot=0", all, "ignition.firstboot is missing"},
		"first boot of old versions": {"coreos.liveiso=fcos ignition.firstboot=1", all, ""},
		"installs":                   {coreOS + " coreos.inst.install_dev=/dev/sda", all, "coreos.inst.install_dev=/dev/sda"},
		"installs, short":            {coreOS + " coreos.inst=yes", all, "coreos.inst=yes"},
		"installs, PXE":              {network + " coreos.inst.insecure", []System{FromNetwork}, "coreos.inst.insecure"},
		"fromram":                    {coreOS + " coreos.liveiso.fromram", medium, "unmount its medium"},
		"fromram, store elsewhere":   {coreOS + " coreos.liveiso.fromram", []System{StoreElsewhere}, ""},
		"minimal":                    {network, medium, "a minimal ISO"},
		"minimal, store elsewhere":   {network, []System{StoreElsewhere, FromNetwork}, ""},
		"no medium":                  {"ignition.firstboot", medium, "coreos.liveiso is missing"},
		"another medium":             {strings.Replace(coreOS, "=fcos", "=rhcos", 1), medium, `has the label "fcos"`},
		"medium over the network":    {coreOS, []System{FromNetwork}, "has no medium"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range test.on {
				err := CheckKernelLine(test.line, s, "fcos")
				if (err == nil) != (test.text == "") ||
					err != nil && (!errors.Is(err, ErrKernelLine) || !strings.Contains(err.Error(), test.text)) {
					t.Errorf("system %d: got %v, want %q", s, err, test.text)
				}
			}
		})
	}
}

// Whatever the arguments came from, no image is written with them: the base, the edit, or the line before the area.
func TestKernelLineOfEveryImage(t *testing.T) {
	plain := fixtures.LiveISO(t)
	changed := func(edits ...string) string {
		content, err := os.ReadFile(plain)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "base.iso")
		content = []byte(strings.NewReplacer(edits...).Replace(string(content)))
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const rest = fixtures.LiveKargs + "\n"
	label, first, _ := strings.Cut(fixtures.LiveKargs, " ")
	outside := []string{ // the areas begin behind the first argument
		`"offset":6`, `"offset":26`, `"offset":9`, `"offset":29`, `"size":539`, `"size":519`,
		`"default":"` + fixtures.LiveKargs, `"default":"` + fixtures.LiveKargs[2:],
	}
	for name, test := range map[string]struct {
		base string
		edit Edit
		text string // of the error
	}{
		"base":            {changed(rest, label+"\n"+strings.Repeat("#", len(first)+1)), Edit{}, "EFI/debian/grub.cfg: "},
		"deleted":         {plain, Edit{Kargs: KargsEdit{Delete: []string{label}}}, "coreos.liveiso is missing"},
		"appended":        {plain, Edit{Kargs: KargsEdit{Append: []string{"coreos.inst.insecure"}}}, "coreos.inst.insecure"},
		"before the area": {changed(append(outside, "linux "+label, "linux "+strings.ToUpper(label))...), Edit{}, "is missing"},
		"good":            {changed(outside...), Edit{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.iso")
			err := Apply(t.Context(), test.base, out, test.edit)
			if test.text == "" && err == nil {
				return
			}
			if !errors.Is(err, ErrKernelLine) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, ErrKernelLine, test.text)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v, want no image", err)
			}
		})
	}
}
