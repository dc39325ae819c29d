package verify_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/root"
)

// samples are the artifacts that the tests verify. They are built once. A test changes a copy.
type samples struct {
	// pins are the images of three releases: pause, app, tool and index.
	pins [][]string
	// base is the folder of an appliance with the first release. second and third are the folders of deltas
	// with the other releases, each over the one before.
	base, second, third string
	// live is the folder of an appliance with one image of the first release, and a live ISO.
	live string
	// medium is an ISO of third.
	medium string
	// dir is the parent of all samples, and of the programs and sets that they are built of.
	dir string
}

var (
	made  samples
	build sync.Once
)

func TestMain(m *testing.M) {
	if root.Init() {
		return
	}
	code := m.Run()
	if err := os.RemoveAll(made.dir); err != nil {
		code = 1
	}
	os.Exit(code)
}

// built returns the samples. The first call builds them.
func built(t *testing.T) samples {
	t.Helper()
	fixtures.Need(t, "xorriso") // not in the first test alone
	build.Do(func() {
		if err := made.make(t.Context(), fixtures.LiveISO(t)); err != nil {
			t.Fatal(err)
		}
	})
	if made.medium == "" {
		t.Fatal("the samples could not be built: see the first test that failed")
	}
	return made
}

func (s *samples) make(ctx context.Context, liveBase string) (err error) {
	if s.dir, err = os.MkdirTemp("", "verify"); err != nil {
		return err
	}
	registry, err := sample.Serve(nil)
	if err != nil {
		return err
	}
	defer registry.Close()
	program := make([]byte, 1<<20) // does not compress, so that the store can be split
	rand.NewChaCha8([32]byte{}).Read(program)
	if s.pins, err = registry.PushSeries(ctx, program, 3); err != nil {
		return err
	}
	base, err := s.options("base", s.pins[0]...)
	if err != nil {
		return err
	}
	live, errLive := s.options("live", s.pins[0][1])
	live.Appliance.Spec.ISO.Base = liveBase
	second, errSecond := s.options("second", s.pins[1]...)
	third, errThird := s.options("third", s.pins[2]...)
	second.From, third.From = []string{base.Out}, []string{second.Out}
	if err := errors.Join(errLive, errSecond, errThird); err != nil {
		return err
	}
	for _, o := range []builder.Options{base, live} {
		if _, err := builder.Build(ctx, o); err != nil {
			return err
		}
	}
	for _, o := range []builder.Options{second, third} {
		if _, err := builder.Delta(ctx, o); err != nil {
			return err
		}
	}
	medium := filepath.Join(s.dir, "third.iso")
	if err := artifact.Medium(ctx, artifact.MediumOptions{Dir: third.Out, Out: medium}); err != nil {
		return err
	}
	s.base, s.live, s.second, s.third, s.medium = base.Out, live.Out, second.Out, third.Out, medium
	return nil
}

// options returns the options of a build of images into a folder of that name.
func (s *samples) options(name string, pins ...string) (builder.Options, error) {
	sets, program := filepath.Join(s.dir, name+".yaml"), filepath.Join(s.dir, "pinbox-node")
	return builder.Options{
		Appliance:  spec.New(source.Entry{Source: &source.PinnedImageSets{sets}}),
		Out:        filepath.Join(s.dir, name),
		Access:     storage.Access{Insecure: []string{"127.0.0.1"}},
		NodeBinary: program,
	}, errors.Join(os.WriteFile(sets, sample.Set("worker", pins...), 0o644), os.WriteFile(program, emptyProgram(), 0o755))
}

// emptyProgram returns the header of an x86-64 program. A build reads only the header: elf(5), Elf64_Ehdr.
func emptyProgram() []byte {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(head[16:], 2)  // e_type: ET_EXEC
	binary.LittleEndian.PutUint16(head[18:], 62) // e_machine: EM_X86_64
	binary.LittleEndian.PutUint32(head[20:], 1)  // e_version
	binary.LittleEndian.PutUint16(head[52:], 64) // e_ehsize
	return head
}

// copied copies a folder.
func copied(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	fixtures.Run(t, "cp", "-r", dir, out)
	return out
}

// shell runs a script in a folder.
func shell(t *testing.T, dir, script string) {
	t.Helper()
	fixtures.Run(t, "sh", "-ec", "cd "+dir+"\n"+script)
}

// resum writes the sums of a folder again.
func resum(t *testing.T, dir string) {
	t.Helper()
	shell(t, dir, "find * -type f ! -name SHA256SUMS | sort | xargs sha256sum > SHA256SUMS")
}

// steps records the steps, and the bytes that they announce and get.
type steps struct {
	names          []string
	announced, got int64
}

func (s *steps) hooks() progress.Hooks {
	return progress.Hooks{
		Step: func(name string, all int64, _ progress.Unit) {
			s.names = append(s.names, name)
			s.announced += all
		},
		Done: func(n int) { s.got += int64(n) },
	}
}

// wantProblem fails unless verification fails with all of the texts.
func wantProblem(t *testing.T, err error, texts ...string) {
	t.Helper()
	if !errors.Is(err, release.ErrVerify) {
		t.Errorf("got error %v, want %v", err, release.ErrVerify)
		return
	}
	wantLines(t, err, texts...)
}

// wantLines fails unless an error has these texts in its lines below the first, one in each and in any order.
func wantLines(t *testing.T, err error, texts ...string) {
	t.Helper()
	_, list, _ := strings.Cut(err.Error(), "\n")
	lines := strings.Split(list, "\n")
	for _, text := range texts {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, text) })
		if at < 0 {
			t.Errorf("got no line with %q, in:\n%v", text, err)
			return
		}
		lines = slices.Delete(lines, at, at+1)
	}
	if len(lines) > 0 {
		t.Errorf("got more than the lines %q:\n%v", texts, err)
	}
}

// artifactOf verifies a folder or an ISO.
func artifactOf(t *testing.T, name string) (verify.Result, error) {
	t.Helper()
	return verify.Release(t.Context(), name, verify.Options{})
}
