package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// waiting is a build, or another command, that waits for something that never comes, or after hours.
type waiting struct {
	t *testing.T
	// args of the build, and the command that runs it: {} is the program and its arguments.
	args    []string
	wrapper []string
	env     []string
	// reached is closed once the build waits, unless waits reports that.
	reached chan struct{}
	waits   func() bool
	// after checks what is left; it may be nil.
	after func()
}

const imageDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// image names the image of a registry.
func (w *waiting) image(registry string) {
	w.args = append(w.args, "--image", registry+"/a@"+imageDigest, "--insecure-registry", registry)
}

// server answers as handle does; it has been reached then.
func (w *waiting) server(handle http.HandlerFunc) {
	first := true
	s := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		handle(a, r)
		if first && a.Header().Get("X-Next") == "" {
			first = false
			close(w.reached)
		}
		if a.Header().Get("Retry-After") == "" && a.Header().Get("X-Next") == "" {
			<-r.Context().Done()
		}
	}))
	w.t.Cleanup(s.Close)
	w.image(strings.TrimPrefix(s.URL, "http://"))
}

func (w *waiting) write(name, content string, perm os.FileMode) {
	if err := os.WriteFile(name, []byte(content), perm); err != nil {
		w.t.Fatal(err)
	}
}

// listen accepts connections on loopback, and calls accepted with the first.
func (w *waiting) listen(accepted func(net.Conn)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	go func() {
		if conn, err := l.Accept(); err == nil {
			accepted(conn)
		}
	}()
	w.image(l.Addr().String())
}

// waits are all kinds of them.
var waits = map[string]func(*waiting){
	"a helper for credentials": func(w *waiting) {
		dir := w.t.TempDir()
		at := filepath.Join(dir, "reached")
		w.write(filepath.Join(dir, "docker-credential-slow"), "#!/bin/sh\necho $$ >"+at+".new\nmv "+at+".new "+at+"\nsleep infinity\n", 0o755)
		w.write(filepath.Join(dir, "auth.json"), `{"credHelpers": {"127.0.0.1:1": "slow"}}`, 0o600)
		w.env = append(w.env, "PATH="+dir+":"+os.Getenv("PATH"))
		w.args = append(w.args, "--authfile", filepath.Join(dir, "auth.json"))
		w.image("127.0.0.1:1")
		w.waits = func() bool { _, err := os.Stat(at); return err == nil }
		w.after = func() {
			pid, _ := os.ReadFile(at) // it is there, or the command had not waited
			if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline"); err == nil && len(stat) > 0 {
				w.t.Errorf("the helper stays as process %s", pid)
			}
		}
	},
	"a name server": func(w *waiting) {
		fixtures.NeedRoot(w.t)
		conn, err := net.ListenPacket("udp", "127.83.17.1:53")
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { conn.Close() })
		go func() {
			if _, _, err := conn.ReadFrom(make([]byte, 512)); err == nil {
				close(w.reached)
			}
		}()
		conf := filepath.Join(w.t.TempDir(), "resolv.conf")
		w.write(conf, "nameserver 127.83.17.1\noptions timeout:600 attempts:9\n", 0o644)
		w.wrapper = []string{"unshare", "--mount", "sh", "-ec", "mount --bind " + conf + ` /etc/resolv.conf; exec "$@"`, "-"}
		w.image("registry.example.net")
	},
	"a connection": func(w *waiting) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil {
			w.t.Cleanup(func() { unix.Close(fd) })
			err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			err = unix.Listen(fd, 0)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			w.t.Fatal(err)
		}
		address := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
		for range 2 { // the queue is full then, and the kernel drops others
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err == nil {
				w.t.Cleanup(func() { conn.Close() })
			}
		}
		w.image(address)
		w.waits = func() bool { return connecting(address) }
	},
	"a handshake of TLS": func(w *waiting) {
		w.listen(func(net.Conn) { close(w.reached) })
		w.args = w.args[:len(w.args)-2] // not without TLS
	},
	"a pipe that the user names": func(w *waiting) {
		pipe := filepath.Join(w.t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			w.t.Fatal(err)
		}
		go func() {
			f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for a reader
			if err == nil {
				w.t.Cleanup(func() { f.Close() })
			}
			close(w.reached)
		}()
		w.args = append(w.args, "--set", pipe)
	},
	"an answer": func(w *waiting) { w.server(func(http.ResponseWriter, *http.Request) {}) },
	"an answer, of doctor": func(w *waiting) {
		w.args[0] = "doctor"
		w.server(func(http.ResponseWriter, *http.Request) {})
	},
	"the rest of an answer": func(w *waiting) {
		w.server(func(a http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/" {
				a.Header().Set("X-Next", "yes")
				return
			}
			a.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			a.Header().Set("Content-Length", "1000")
			_, _ = a.Write([]byte("{"))
			a.(http.Flusher).Flush()
		})
	},
	"a disk that is slow": func(w *waiting) {
		disk := fixtures.NewFaultyDisk(w.t)
		image, mnt := disk.Path("image"), w.t.TempDir()
		fixtures.Run(w.t, "truncate", "-s", "256M", image)
		fixtures.Run(w.t, "mkfs.ext2", "-q", image)
		fixtures.Run(w.t, "mount", fixtures.LoopDevice(w.t, image), mnt)
		w.t.Cleanup(func() { disk.Set(fixtures.Fault{}); fixtures.Unmount(w.t, mnt) })
		writes := func() (n int) {
			for _, operation := range disk.Slow() {
				n += strings.Count(operation, "write ")
			}
			return n
		}
		dir, random := filepath.Join(w.t.TempDir(), "oci"), make([]byte, 64<<20)
		_, _ = rand.Read(random)
		stream, err := sample.Tar(sample.File("random", string(random)))
		if err != nil {
			w.t.Fatal(err)
		}
		layer, err := sample.NewLayer(stream, types.OCIUncompressedLayer)
		if err != nil {
			w.t.Fatal(err)
		}
		img, err := sample.Image("amd64", false, layer)
		if err != nil {
			w.t.Fatal(err)
		}
		local, err := layout.Write(dir, empty.Index)
		if err == nil {
			err = local.AppendImage(img)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		out := filepath.Join(w.t.TempDir(), "out")
		file := filepath.Join(w.t.TempDir(), "appliance.yaml")
		w.write(file, "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\nspec:\n  node: {store: {volumeLabel: A}}\n"+
			"  sources: [{oci: [{path: "+dir+", name: 'registry.example.net/a:1'}]}]\n", 0o644)
		code, _, stderr := pinbox(w.t.Context(), "build", "-c", file, "-o", out, "--no-cache", "--node-binary", nodeProgram)
		if code != 0 {
			w.t.Fatalf("build: got exit code %d\n%s", code, stderr)
		}
		w.args = []string{"medium", out, "-o", filepath.Join(mnt, "medium.iso")}
		writes()
		w.waits = func() bool { return writes() > 0 }
		w.after = func() {
			if n := writes(); n > 300 {
				w.t.Errorf("got %d writes of up to 128 KiB until it ended, want less than the 512 of the whole store", n)
			}
		}
	},
	"Retry-After": func(w *waiting) {
		w.server(func(a http.ResponseWriter, _ *http.Request) {
			a.Header().Set("Retry-After", "3600")
			a.WriteHeader(http.StatusTooManyRequests)
		})
	},
}

// connecting reports whether the kernel tries to connect to an address.
func connecting(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	content, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		const synSent = "02"
		if len(fields) > 3 && strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", number)) && fields[3] == synSent {
			return true
		}
	}
	return false
}

// Whatever a build waits for, Ctrl-C ends it.
func TestInterruptAtEachWait(t *testing.T) {
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	for name, prepare := range waits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &waiting{t: t, reached: make(chan struct{}), args: []string{
				"build", "--stall", "1h", "--cache-dir", t.TempDir(), "--node-binary", nodeProgram, "-o", filepath.Join(t.TempDir(), "out"),
			}}
			prepare(w)
			args := append(append(append([]string{}, w.wrapper...), program), w.args...)
			cmd := exec.Command(args[0], args[1:]...)
			var stderr bytes.Buffer
			cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), w.env...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if w.waits != nil {
				go func() {
					fixtures.Until(t, func() error {
						if len(ended) == 0 && !w.waits() {
							return errors.New("it does not wait")
						}
						return nil
					})
					close(w.reached)
				}()
			}
			select {
			case <-w.reached:
			case err := <-ended:
				t.Fatalf("got %v before it waits\n%s", err, &stderr)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			trace := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // it would wait for an hour
			defer trace.Stop()
			var exit *exec.ExitError
			if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != fault.Interrupted {
				t.Errorf("got %v, want exit code %d\n%s", err, fault.Interrupted, &stderr)
			}
			if w.after != nil {
				w.after()
			}
			t.Logf("after %v", time.Since(at).Round(time.Millisecond))
		})
	}
}
