package iso

import (
	"bytes"
	"strings"
	"testing"
)

// Whatever the area of an ISO for an Ignition config has, it is refused, or its members are read
// again from an archive of them.
func FuzzReadArchives(f *testing.F) {
	archive, err := writeArchive([]Member{{Name: "config.ign", Content: []byte("{}")}, {Name: "etc/a", Content: []byte("a")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(archive)
	f.Add([]byte("070701"))
	f.Add([]byte("\xfd7zXZ\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, area []byte) {
		found, err := readArchives(area)
		if err != nil {
			return
		}
		written, err := writeArchive(found)
		if err != nil {
			return // such as a name that no archive of pinbox has
		}
		again, err := readArchives(written)
		if err != nil || len(again) > len(found) {
			t.Fatalf("got %d members, %v, want %d", len(again), err, len(found))
		}
		for n, m := range again {
			if !bytes.Equal(m.Content, found[n].Content) {
				t.Errorf("%s: got %q, want %q", m.Name, m.Content, found[n].Content)
			}
		}
	})
}

// An edit of kernel arguments writes one line, and no line is judged good that hides the store from the live system.
func FuzzKargs(f *testing.F) {
	f.Add("coreos.liveiso=fcos ignition.firstboot console=tty0", "quiet", "console=tty0", "a=b=c")
	f.Fuzz(func(t *testing.T, text, add, remove, replace string) {
		got, err := KargsEdit{Append: []string{add}, Delete: []string{remove}, Replace: []string{replace}}.apply(text)
		if err != nil {
			got, err = KargsEdit{Append: []string{add}}.apply(text)
		}
		if err != nil {
			return
		}
		if CheckKernelLine(got, RunsFromMedium, "fcos") == nil && !strings.Contains(got, "coreos.liveiso=") {
			t.Errorf("%q was judged good, want coreos.liveiso= in it", got)
		}
		if strings.ContainsAny(got, "\n\x00") && !strings.ContainsAny(text, "\n\x00") {
			t.Errorf("got %q, want one line", got)
		}
	})
}
