package iso

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/iso9660"
)

func open(t *testing.T, content []byte) *Image {
	t.Helper()
	i, err := Open(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// The numbers are from the tests of coreos-installer, or from xorriso and isoinfo.
func TestRealHeaders(t *testing.T) {
	for name, want := range map[string]struct {
		label    string
		arch     string
		ignition Area
		kargs    []int64
	}{
		"embed-areas-2021-09": {
			"fedora-coreos-34.20210921.dev.0", "amd64", Area{102400, 262144}, []int64{98126, 371658},
		},
		"embed-areas-2023-03.s390x": {"fedora-coreos-37.20230307.dev.0", "s390x", Area{35*sector + 132096, 262144}, nil},
		"embed-areas-2023-07.x86_64": {
			"fedora-coreos-38.20230718.dev.0", "amd64", Area{68 * sector, 262144}, []int64{199*sector + 970, 66*sector + 1869},
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := open(t, fixtures.LiveHeader(t, name))
			a, err := i.IgnitionArea()
			if err != nil || a != want.ignition || i.Label != want.label || i.Architecture() != want.arch {
				t.Errorf("got label %s, architecture %q, area %+v, %v; want %+v", i.Label, i.Architecture(), a, err, want)
			}
			if config, err := i.Ignition(); err != nil || config != nil {
				t.Errorf("got a config of %d bytes, %v; want none", len(config), err)
			}
			k, err := i.Kargs()
			if want.kargs == nil {
				if !errors.Is(err, ErrNoKargs) {
					t.Errorf("got %+v, %v; want %v", k, err, ErrNoKargs)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range k.areas {
				if !slices.Contains(want.kargs, a.Offset) || a.Length != 1139 || len(k.areas) != len(want.kargs) {
					t.Errorf("got kernel arguments at %+v, want 1139 bytes at each of %v", a, want.kargs)
				}
			}
			if !strings.Contains(k.Current, "coreos.liveiso="+want.label) || k.Default != k.Current {
				t.Errorf("got %+v, want coreos.liveiso=%s and the default", k, want.label)
			}
		})
	}
}

// apply returns a copy of content with the patches.
func apply(content []byte, patches ...patch) []byte {
	content = bytes.Clone(content)
	for _, p := range patches {
		copy(content[p.offset:], p.content)
	}
	return content
}

// Other files in the Ignition area stay, however they are compressed.
func TestEmbedKeepsOtherFiles(t *testing.T) {
	base := fixtures.LiveHeader(t, "embed-areas-2023-07.x86_64")
	i := open(t, base)
	area, err := i.IgnitionArea()
	if err != nil {
		t.Fatal(err)
	}
	network := Member{
		Name: "etc/coreos-firstboot-network/eth0.nmconnection", Mode: modeFile, Content: []byte("[connection]\n"),
	}
	for name, pack := range map[string]func([]byte) []byte{
		"gzip":  nil,
		"plain": func(b []byte) []byte { return b },
		"xz":    func(b []byte) []byte { return xzipped(t, b) },
		"zstd":  func(b []byte) []byte { return zstdPacked(t, b) },
	} {
		t.Run(name, func(t *testing.T) {
			packed, err := writeArchive([]Member{network})
			if err != nil {
				t.Fatal(err)
			}
			second, err := writeArchive([]Member{{Name: configName, Mode: modeFile, Content: []byte("old")}})
			if err != nil {
				t.Fatal(err)
			}
			if pack != nil {
				plain, _, err := gunzip(packed, maxArchive)
				if err != nil {
					t.Fatal(err)
				}
				packed = pack(plain)
			}
			// Two archives, with zeros between and after.
			before := apply(base, patch{
				area.Offset, append(append(append([]byte{}, packed...), make([]byte, 512)...), second...),
			})
			p, _, err := editor{open(t, before)}.embed([]byte(`{"ignition":{}}`), false)
			if err != nil {
				t.Fatal(err)
			}
			if p.offset != area.Offset || int64(len(p.content)) != area.Length {
				t.Errorf("got %d bytes at %d, want %+v", len(p.content), p.offset, area)
			}
			members, err := open(t, apply(before, p)).Members()
			if err != nil {
				t.Error(err)
			}
			got := map[string]string{}
			for _, m := range members {
				got[m.Name] = string(m.Content)
			}
			if got[configName] != `{"ignition":{}}` || got[network.Name] != "[connection]\n" || got["etc"] != "" {
				t.Errorf("got %q, want the new config and %s", got, network.Name)
			}
		})
	}
}

func TestConfigThatDoesNotFit(t *testing.T) {
	i := open(t, fixtures.LiveHeader(t, "embed-areas-2023-07.x86_64"))
	huge := make([]byte, 400_000)
	random := rand.NewChaCha8([32]byte{})
	if _, err := random.Read(huge); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (editor{i}).embed(huge, false); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "the largest member is config.ign with 400000 bytes") {
		t.Errorf("got %v, want %v with the largest member", err, ErrTooLarge)
	}
}

// cpio is a second reader of the format, next to the kernel's.
func TestArchiveIsReadByCpio(t *testing.T) {
	packed, err := writeArchive([]Member{
		{Name: "etc/net/a", Mode: modeFile, Content: []byte("abc")}, {
			Name: configName, Mode: modeFile, Content: []byte("{}"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fixtures.Need(t, "cpio")
	cmd := exec.Command("sh", "-c", "gunzip | cpio --quiet -idm")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(packed)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: got %v, want no error\n%s", err, out)
	}
	for name, want := range map[string]string{"etc/net/a": "abc", configName: "{}"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		fi, statErr := os.Stat(filepath.Join(dir, name))
		if err != nil || statErr != nil || string(got) != want || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %q, %v, %v, %v; want %q with mode 0600", name, got, fi, err, statErr, want)
		}
	}
}

func TestKargsEdit(t *testing.T) {
	for name, test := range map[string]struct {
		edit KargsEdit
		want string
		text string // of the error
	}{
		"nothing": {KargsEdit{}, "a b=1 c", ""},
		"append":  {KargsEdit{Append: []string{"d", "e=2 f"}}, "a b=1 c d e=2 f", ""},
		"delete":  {KargsEdit{Delete: []string{"b=1"}}, "a c", ""},
		"replace": {KargsEdit{Replace: []string{"b=1=2"}}, "a b=2 c", ""},
		"all at once": {
			KargsEdit{Append: []string{"b=3"}, Delete: []string{"a"}, Replace: []string{"b=1=x=y"}}, "b=x=y c b=3", "",
		},
		"quote":         {KargsEdit{Append: []string{`motd="hello`}}, "", "is empty, or has one of"}, // GRUB would stop at it
		"variable":      {KargsEdit{Replace: []string{"b=1=$x"}}, "", "is empty, or has one of"},
		"newline":       {KargsEdit{Append: []string{"d\ne"}}, "", "is empty, or has one of"},
		"empty":         {KargsEdit{Append: []string{""}}, "", "is empty, or has one of"},
		"missing":       {KargsEdit{Delete: []string{"b"}}, "", `there is no "b"`},
		"another value": {KargsEdit{Replace: []string{"b=2=3"}}, "", `there is no "b=2"`},
		"not a form":    {KargsEdit{Replace: []string{"b=1"}}, "", "key=old=new"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.edit.apply("a b=1 c")
			if got != test.want || (err == nil) != (test.text == "") ||
				err != nil && (!errors.Is(err, ErrKargs) || !strings.Contains(err.Error(), test.text)) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.want, test.text)
			}
		})
	}
}

// An edit writes the arguments to all areas and keeps the default.
func TestKargsOfARealHeader(t *testing.T) {
	for _, name := range []string{"embed-areas-2021-09", "embed-areas-2023-07.x86_64"} {
		t.Run(name, func(t *testing.T) {
			base := fixtures.LiveHeader(t, name)
			k, err := open(t, base).Kargs()
			if err != nil {
				t.Fatal(err)
			}
			patches, err := k.edit(k.Current + " console=ttyS0")
			if err != nil || len(patches) != 2 {
				t.Fatalf("got %v, %v; want 2 patches", patches, err)
			}
			after, err := open(t, apply(base, patches...)).Kargs()
			if err != nil || after.Current != k.Current+" console=ttyS0" || after.Default != k.Default {
				t.Errorf("got %+v, %v; want console=ttyS0 appended to %+v", after, err, k)
			}
			if _, err := k.edit(strings.Repeat("x", 1139)); !errors.Is(err, ErrKargs) ||
				!strings.Contains(err.Error(), "longer than the area of") {
				t.Errorf("a long argument: got %v, want %v", err, ErrKargs)
			}
			if _, err := open(t, apply(base, patches[0])).Kargs(); !errors.Is(err, iso9660.ErrCorrupt) {
				t.Errorf("areas that differ: got %v, want %v", err, iso9660.ErrCorrupt)
			}
		})
	}
}

func TestInvalidImages(t *testing.T) {
	base := fixtures.LiveHeader(t, "embed-areas-2023-07.x86_64")
	at := func(name string) int64 {
		f, err := open(t, base).Find(name)
		if err != nil {
			t.Fatal(err)
		}
		return f.Offset()
	}
	read := func(i *Image) error {
		_, ignitionErr := i.Ignition()
		_, kargsErr := i.Kargs()
		return errors.Join(ignitionErr, kargsErr)
	}
	for name, test := range map[string]struct {
		content []byte
		want    error
		text    string // of the error
	}{
		"empty":     {nil, iso9660.ErrNotISO, "sector 16"},
		"text":      {bytes.Repeat([]byte("text"), 20_000), iso9660.ErrNotISO, ""},
		"truncated": {base[:700_000], iso9660.ErrTruncated, "the file 700000"},
		"no end":    {base[:17*sector+100], iso9660.ErrNotISO, ""},
		"igninfo is not JSON": {
			apply(base, patch{at("coreos/igninfo.json"), []byte("[")}), iso9660.ErrCorrupt, "coreos/igninfo.json",
		},
		"kargs are not JSON": {
			apply(base, patch{at("coreos/kargs.json"), []byte("[")}), iso9660.ErrCorrupt, "coreos/kargs.json",
		},
		"area of a missing file": {
			apply(base, patch{at("coreos/igninfo.json"), []byte(`{"file":"no/such"}                  `)}), ErrNoIgnition, "",
		},
		"area outside": {
			apply(base, patch{at("coreos/igninfo.json"), []byte(`{"offset":262000,"length":1000}     `)}), iso9660.ErrCorrupt,
			"is not within images/ignition.img",
		},
		"negative area": {
			apply(base, patch{at("coreos/igninfo.json"), []byte(`{"offset":-1}                       `)}), iso9660.ErrCorrupt,
			"",
		},
		"rubbish in it":   {apply(base, patch{68 * sector, []byte("rubbish")}), iso9660.ErrCorrupt, "cpio"},
		"half an archive": {apply(base, patch{68 * sector, []byte{0x1f, 0x8b, 8, 0}}), iso9660.ErrCorrupt, "Ignition area"},
		"a huge directory": {
			apply(base, patch{
				open(t, base).FileVolume().Descriptor + iso9660.RootRecordOffset + 10, []byte{255, 255, 255, 255},
			}),
			iso9660.ErrCorrupt, "directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, err := Open(bytes.NewReader(test.content), int64(len(test.content)))
			if err == nil {
				err = read(i)
			}
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
		})
	}
}

// Reading an image of any content ends without a panic.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("CD001"), uint16(0))
	base := make([]byte, 40*sector)
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		content := apply(base, patch{int64(at) % (39 * sector), b[:min(len(b), sector)]})
		if i, err := Open(bytes.NewReader(content), int64(len(content))); err == nil {
			_, _ = i.Ignition()
			_, _ = i.Kargs()
		}
	})
}

// newc returns an uncompressed cpio archive in newc format, as other programs write it.
func newc(t *testing.T, members ...Member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := cpioWriter{w: &b}
	for _, m := range append(members, Member{Name: trailer}) {
		w.write(m)
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func xzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.WriterConfig{CheckSum: xz.CRC32}.NewWriter(&b)
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdPacked(t *testing.T, content []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(content, nil)
}

// Archives of other programs are read as the kernel reads them.
func TestArchivesOfOthers(t *testing.T) {
	config, key := Member{Name: "./config.ign", Mode: modeFile, Content: []byte("{}")},
		Member{Name: "etc/key", Mode: modeFile, Content: []byte("key")}
	both := append(newc(t, config), append(make([]byte, 8), newc(t, key)...)...)
	for name, area := range map[string][]byte{
		"plain": both, "two in one stream": gzipped(t, both), "two streams": append(gzipped(t, newc(t, config)),
			gzipped(t, newc(t, key))...),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readArchives(area)
			if err != nil || len(got) != 2 || got[0].Name != "config.ign" || got[1].Name != "etc/key" {
				t.Errorf("got %+v, %v; want config.ign and etc/key", got, err)
			}
		})
	}
	linked := newc(t, key)
	copy(linked[6+8*4:], "00000002") // its number of links
	if _, err := readArchives(linked); !errors.Is(err, iso9660.ErrCorrupt) ||
		!strings.Contains(err.Error(), "etc/key is a hard link") {
		t.Errorf("a hard link: got %v, want %v with its name", err, iso9660.ErrCorrupt)
	}
	large := gzipped(t, newc(t, Member{Name: "a", Mode: modeFile, Content: make([]byte, maxArchive*2/3)}))
	if _, err := readArchives(append(large, large...)); !errors.Is(err, iso9660.ErrCorrupt) ||
		!strings.Contains(err.Error(), "more than") {
		t.Errorf("a bomb in two parts: got %v, want %v", err, iso9660.ErrCorrupt)
	}
}

// A bug was to report more than 64 MiB in a truncated gzip stream: the zeros after it repeat its last
// code, which can encode 258 bytes.
func TestTruncatedArchives(t *testing.T) {
	text := make([]byte, 100_000, 11_000_000) // and then zeros, by short codes
	random := rand.NewChaCha8([32]byte{})
	if _, err := random.Read(text); err != nil {
		t.Fatal(err)
	}
	plain := newc(t, Member{Name: configName, Mode: modeFile, Content: text[:cap(text)]})
	for name, packed := range map[string][]byte{
		"gzip": gzipped(t, plain), "xz": xzipped(t, plain), "zstd": zstdPacked(t, plain),
	} {
		t.Run(name, func(t *testing.T) {
			area := make([]byte, 4*len(packed)+256<<10)
			copy(area, packed)
			if got, err := readArchives(area); err != nil || len(got) != 1 {
				t.Errorf("not truncated: got %d members, %v; want 1", len(got), err)
			}
			for _, size := range []int{len(packed) - 20, len(packed) - 1000, len(packed) / 2, 100} {
				clear(area[size:])
				for _, area := range [][]byte{area, area[:size]} {
					if _, err := readArchives(area); !errors.Is(err, iso9660.ErrCorrupt) ||
						!strings.Contains(err.Error(), "is truncated") {
						t.Errorf("%d bytes in an area of %d: got %v, want %v", size, len(area), err, iso9660.ErrCorrupt)
					}
				}
			}
		})
	}
}

// A bug was not to find a config whose name is padded, as dracut pads names, and to add a second one.
func TestConfigByAnotherSpelling(t *testing.T) {
	content, err := os.ReadFile(fixtures.LiveISO(t))
	if err != nil {
		t.Fatal(err)
	}
	area, err := open(t, content).IgnitionArea()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"config.ign\x00\x00\x00", "config.ign\x00rest", "./config.ign", "/config.ign", ".//config.ign", "/./config.ign\x00",
		"etc/../config.ign", "../config.ign",
	} {
		t.Run(name, func(t *testing.T) {
			i := open(t, apply(content, patch{
				area.Offset, newc(t, Member{Name: name, Mode: modeFile, Content: []byte("theirs")}),
			}))
			if config, err := i.Ignition(); err != nil || string(config) != "theirs" {
				t.Errorf("got %q, %v; want %q", config, err, "theirs")
			}
			if _, err := (editor{i}).edit(Edit{Ignition: []byte("ours")}); !errors.Is(err, ErrHasConfig) {
				t.Errorf("got %v, want %v", err, ErrHasConfig)
			}
			p, _, err := editor{i}.embed([]byte("ours"), false)
			if err != nil {
				t.Fatal(err)
			}
			members, err := open(t, apply(content, p)).Members()
			if err != nil || len(members) != 1 || members[0].Name != configName || string(members[0].Content) != "ours" {
				t.Errorf("got %+v, %v; want only %s of ours", members, err, configName)
			}
		})
	}
	padded := newc(t, Member{Name: "etc/key\x00\x00", Mode: modeFile, Content: []byte("key")},
		Member{Name: "..", Mode: modeDir}, Member{Name: trailer + "\x00\x00"})
	if got, used, err := readCpio(append(padded, "more"...)); err != nil || used >= len(padded) || len(got) != 2 ||
		got[0].Name != "etc/key" || got[1].Name != "." {
		t.Errorf("got %+v, %d of %d bytes, %v; want etc/key and .", got, used, len(padded), err)
	}
	endless := newc(t, Member{Name: "etc/key", Mode: modeFile})
	copy(endless[6+8*11:], "00000007") // its length without the end
	if _, err := readArchives(endless); !errors.Is(err, iso9660.ErrCorrupt) ||
		!strings.Contains(err.Error(), "has no end") {
		t.Errorf("a name without an end: got %v, want %v", err, iso9660.ErrCorrupt)
	}
}

// A bug was a panic: the product of these two numbers overflowed.
func TestGPTOfAbsurdSize(t *testing.T) {
	content, err := os.ReadFile(fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...))
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(content[block+80:], 0xFFFFFFFF)
	binary.LittleEndian.PutUint32(content[block+84:], 0x80000001)
	if _, _, _, err := (editor{open(t, content)}).hybrid(int64(len(content))); !errors.Is(err, iso9660.ErrCorrupt) {
		t.Errorf("got %v, want %v", err, iso9660.ErrCorrupt)
	}
}

// A reset also reverts what other programs changed in an edited image.
func TestResetAfterOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	base, edited, again := fixtures.LiveISO(t), filepath.Join(dir, "edited"), filepath.Join(dir, "again")
	if err := Apply(t.Context(), base, edited,
		Edit{Additions: []Addition{{"lock.json", 5, strings.NewReader("lock\n")}}}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(edited)
	if err != nil {
		t.Fatal(err)
	}
	i := open(t, content)
	k, err := i.Kargs()
	if err != nil {
		t.Fatal(err)
	}
	patches, err := k.edit(k.Current + " console=ttyS0")
	if err != nil {
		t.Fatal(err)
	}
	embedded, _, err := editor{i}.embed([]byte("{}"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(edited, apply(content, append(patches, embedded)...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := restore(edited, again); err != nil || digest(t, again) != digest(t, base) {
		t.Errorf("got another image, %v; want the base", err)
	}
}

// restore writes the base of an edited image to out, byte for byte.
func restore(edited, out string) error {
	i, f, err := OpenFile(edited)
	if err != nil {
		return err
	}
	defer f.Close()
	base, _, err := i.Base()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(base)
	return errors.Join(err, os.WriteFile(out, content, 0o644))
}
