package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// pseudoTerminal is a real one: what is written to keyboard is typed there, and Ctrl-C interrupts who has it.
func pseudoTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The kernel drops what is not read yet when Ctrl-C is typed, and may do so after the program's answer to it.
	settings, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	settings.Lflag |= unix.NOFLSH
	if err := unix.IoctlSetTermios(int(terminal.Fd()), unix.TCSETS, settings); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return keyboard, terminal
}

// onTerminal starts pinbox in an empty folder, on a terminal. shown gets what is drawn there, and is closed at the end.
func onTerminal(t *testing.T, args ...string) (cmd *exec.Cmd, keyboard *os.File, shown <-chan string) {
	t.Helper()
	keyboard, terminal := pseudoTerminal(t)
	t.Cleanup(func() { _ = keyboard.Close() })
	cmd = exec.CommandContext(t.Context(), fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), args...)
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	drawn := make(chan string, 1000)
	go func() {
		defer close(drawn)
		for buffer := make([]byte, 1000); ; {
			n, err := keyboard.Read(buffer)
			if drawn <- string(buffer[:n]); err != nil {
				return // EIO: nobody has the terminal any more
			}
		}
	}()
	return cmd, keyboard, drawn
}

// Ctrl-C at any question of init ends it as interrupted, and nothing is written.
func TestInterruptAtAQuestion(t *testing.T) {
	const last = "CoreOS live ISO to put it into, or nothing for no ISO: "
	input := "edge\n\n\n" + write(t, "sets.yaml", sample.Set("worker", "quay.example.com/a@"+someDigest)) + "\n"
	for name, c := range map[string]struct{ typed, question, begun string }{
		"name":           {"", "Name of the appliance: ", ""},
		"platform":       {"edge\n", "Platform of the nodes [linux/amd64]: ", ""},
		"kind":           {"edge\n\n", "Kind of the input that names the images [1]: ", ""},
		"file":           {"edge\n\n\n", "File or folder: ", ""},
		"ISO":            {input, last, ""},
		"half an answer": {input, last, "half an ans"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, keyboard, shown := onTerminal(t, "init")
			screen := await(t, shown, "Name of the appliance: ")
			if _, err := io.WriteString(keyboard, c.typed); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(screen, c.question) { // the terminal shows what is typed before it is asked for
				screen += await(t, shown, c.question)
			}
			if _, err := io.WriteString(keyboard, c.begun+"\x03"); err != nil {
				t.Fatal(err)
			}
			screen += rest(t, shown)
			exit := new(exec.ExitError)
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
				t.Errorf("got %v, want exit code 130\n%s", err, screen)
			}
			_, after, _ := strings.Cut(screen, "^C")
			if !strings.HasPrefix(after, "\r\n") || !strings.Contains(after, "interrupted") {
				t.Errorf("got %q after the question, want a new line that says what happened", after)
			}
			if files, err := os.ReadDir(cmd.Dir); err != nil || len(files) > 0 {
				t.Errorf("got %v, %v; want no file", files, err)
			}
		})
	}
}

// On a terminal, words that say what is wrong have colours, unless somebody wants none.
func TestColoursOfWords(t *testing.T) {
	const red, green = "\x1b[31m", "\x1b[32m"
	for name, test := range map[string]struct {
		variable, value string
		want            []string
	}{
		"colours":  {"TERM", "xterm", []string{green + "ok      \x1b[0m cache", red + "fails   \x1b[0m ", red + "pinbox:\x1b[0m "}},
		"NO_COLOR": {"NO_COLOR", "1", []string{"ok       cache", "fails    ", "pinbox: "}},
		"dumb":     {"TERM", "dumb", []string{"ok       cache", "fails    ", "pinbox: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", "")
			t.Setenv("TERM", "xterm")
			t.Setenv(test.variable, test.value)
			screen := ""
			for _, args := range [][]string{
				{"doctor", "--set", "no-such-file", "--no-cache"}, {"plan", "--set", "no-such-file"},
			} {
				cmd, _, shown := onTerminal(t, append(args, "--quiet")...)
				screen += rest(t, shown)
				if err := cmd.Wait(); err == nil {
					t.Errorf("%v: got no error, want one", args)
				}
			}
			for _, want := range test.want {
				if !strings.Contains(screen, want) {
					t.Errorf("got %q, want %q in it", screen, want)
				}
			}
			if name != "colours" && strings.Contains(screen, "\x1b[3") {
				t.Errorf("got %q, want no colours", screen)
			}
		})
	}
}

// holding is an answer whose second half waits.
type holding struct {
	http.ResponseWriter
	left int
	wait func()
}

func (h *holding) Write(b []byte) (int, error) {
	now := b[:min(len(b), h.left)]
	n, err := h.ResponseWriter.Write(now)
	if h.left -= n; err != nil || n == len(b) {
		return n, err
	}
	h.ResponseWriter.(http.Flusher).Flush()
	h.wait()
	rest, err := h.ResponseWriter.Write(b[n:])
	return n + rest, err
}

// On a terminal, bars show the whole and the layers that are being read, with bytes, rate and time; of a layer that was
// read nothing is left.
func TestBarsOfABuild(t *testing.T) {
	for format, next := range map[string]string{"squashfs": "write store", "dir": "hash files"} {
		t.Run(format, func(t *testing.T) { checkBars(t, format, next) })
	}
}

// checkBars builds a store of a format. next is the stage after the layers.
func checkBars(t *testing.T, format, next string) {
	t.Helper()
	if format == "dir" {
		fixtures.NeedRoot(t)
	}
	drawn, held := make(chan struct{}), atomic.Bool{}
	r := serve(t, damage("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if held.Load() && r.Method == http.MethodGet {
			w = &holding{w, 700_000, func() { <-drawn }}
		}
		next.ServeHTTP(w, r)
	}))
	layer := noise(t, 1_400_000)
	sets := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", layer))))
	file := write(t, "appliance.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\nspec:\n"+
		"  sources: [{pinnedImageSets: ["+sets+"]}]\n  store: {format: "+format+"}\n"))
	digest, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	held.Store(true)
	cmd, _, shown := onTerminal(t, "build", "-c", file, "--insecure-registry=127.0.0.1", "--node-binary",
		nodeProgram, "-o", "out", "--cache-dir", t.TempDir())
	bar := " " + digest.Hex[:7] + " "
	// The bytes of the half that was sent, the rate and the time.
	half := regexp.MustCompile(regexp.QuoteMeta(bar) + ` *\[=+>-+\] \d+ % 6\d\d\.\d KiB / 1\.3 MiB .*B/s `)
	screen := ""
	for !half.MatchString(screen) {
		screen += await(t, shown, bar) + <-shown
	}
	close(drawn)
	screen += rest(t, shown)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("got %v\n%s", err, screen)
	}
	if !strings.Contains(screen, "read layers ") || strings.LastIndex(screen, bar) > strings.LastIndex(screen, next) {
		t.Errorf("got\n%q\nwant bars of the whole, and the layer only while it is read", screen)
	}
}

// await reads a terminal until a text stands there.
func await(t *testing.T, shown <-chan string, want string) string {
	t.Helper()
	screen := ""
	for !strings.Contains(screen, want) {
		text, ok := fixtures.Receive(t, "text on the terminal", shown)
		if screen += text; !ok {
			t.Fatalf("got %q and the end, want %q", screen, want)
		}
	}
	return screen
}

// rest reads a terminal until the program has ended.
func rest(t *testing.T, shown <-chan string) (screen string) {
	t.Helper()
	for {
		text, ok := fixtures.Receive(t, "text on the terminal, nor its end", shown)
		if !ok {
			return screen
		}
		screen += text
	}
}

// The passphrase of a key is asked for on a terminal, which does not show it.
func TestPassphraseIsAskedFor(t *testing.T) {
	secret, registry := sealedKey(t, "right"), serve(t, nil).Host
	for name, c := range map[string]struct {
		typed, want string
		code        int
	}{
		"right":  {"right\n", "registry does not have it", 6}, // it goes on
		"wrong":  {"mistaken\n", "the passphrase of the key is missing or wrong", 3},
		"Ctrl-C": {"\x03", "interrupted", 130},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, keyboard, shown := onTerminal(t, "build", "--image", registry+"/a@"+imageDigest, "--sign-key", secret,
				"--node-binary", nodeProgram, "-o", "out", "--insecure-registry", registry)
			screen := await(t, shown, "Passphrase of "+secret+": ")
			if _, err := io.WriteString(keyboard, c.typed); err != nil {
				t.Fatal(err)
			}
			screen += rest(t, shown)
			exit := new(exec.ExitError)
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(screen, c.want) {
				t.Errorf("got %v, want exit code %d and %q\n%s", err, c.code, c.want, screen)
			}
			if strings.Contains(screen, strings.TrimSpace(c.typed)) && c.code != 130 {
				t.Errorf("got the passphrase on the screen:\n%s", screen)
			}
		})
	}
}
