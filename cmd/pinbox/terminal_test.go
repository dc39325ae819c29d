package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
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
	return keyboard, terminal
}

// Ctrl-C at any question of init ends it as interrupted, and nothing is written.
func TestInterruptAtAQuestion(t *testing.T) {
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	for typed, question := range map[string]string{
		"":                             "Name of the appliance: ",
		"edge\n":                       "Platform of the nodes [linux/amd64]: ",
		"edge\n\n":                     "Kind of the input that names the images [1]: ",
		"edge\n\n\n":                   "File or folder: ",
		"edge\n\n\nsets/\n":            "CoreOS live ISO to put it into, or nothing for no ISO: ",
		"edge\n\n\nsets/\nhalf an ans": "half an ans",
	} {
		t.Run(question, func(t *testing.T) {
			keyboard, terminal := pseudoTerminal(t)
			defer keyboard.Close()
			cmd := exec.CommandContext(t.Context(), program, "init")
			cmd.Dir = t.TempDir()
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = terminal.Close()
			shown := make(chan string, 1000)
			go func() {
				defer close(shown)
				for buffer := make([]byte, 1000); ; {
					n, err := keyboard.Read(buffer)
					if shown <- string(buffer[:n]); err != nil {
						return // EIO: nobody has the terminal any more
					}
				}
			}()
			screen := await(t, shown, "Name of the appliance: ")
			if _, err := io.WriteString(keyboard, typed); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(screen, question) {
				screen += await(t, shown, question)
			}
			if _, err := io.WriteString(keyboard, "\x03"); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			for text := range shown {
				screen += text
			}
			late.Stop()
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

// await reads a terminal until a text stands there.
func await(t *testing.T, shown <-chan string, want string) string {
	t.Helper()
	var screen bytes.Buffer
	for end := time.After(time.Minute); !strings.Contains(screen.String(), want); {
		select {
		case text, ok := <-shown:
			if screen.WriteString(text); !ok {
				t.Fatalf("got %q and the end, want %q", screen.String(), want)
			}
		case <-end:
			t.Fatalf("got %q, want %q", screen.String(), want)
		}
	}
	return screen.String()
}
