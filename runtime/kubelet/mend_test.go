package kubelet_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/kubelet"
)

const (
	inStore = "quay.io/app@sha256:345a49928591a96332fde064518ac8db937dd02709010e74161ce66d7e6d4f4b"
	id      = "0000000000000000000000000000000000000000000000000000000000000001"
)

var names = map[string]string{inStore: id, "quay.io/app:1": id}

// Files as a kubelet 1.36 wrote them.
var (
	intent = `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"` + inStore + `"}`
	pulled = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",` +
		`"lastUpdatedTime":"2026-11-01T10:00:00Z","imageRef":"` + id + `"}`
)

// state makes a folder of the kubelet with these files below image_manager.
func state(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, "image_manager", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBlocking(t *testing.T) {
	for name, test := range map[string]struct {
		file, content, want string // want is "" for none
	}{
		"a pull that has not ended": {"pulling/sha256-1", intent, inStore + " from its next start on"},
		"a tag":                     {"pulling/sha256-1", `{"image":"quay.io/app:1"}`, "quay.io/app:1 from its next start on"},
		"of another image":          {"pulling/sha256-1", `{"image":"quay.io/other:1"}`, ""},
		"a file that is written":    {"pulling/sha256-1.tmp", intent, ""},
		"another file":              {"pulling/README", intent, ""},
		"unknown credentials":       {"pulled/sha256-1", pulled, "quay.io/app:1 now"},
		"an ID with its algorithm":  {"pulled/sha256-1", `{"imageRef":"sha256:` + id + `"}`, "quay.io/app:1 now"},
		"known credentials": {
			"pulled/sha256-1", `{"imageRef":"` + id + `","credentialMapping":{"quay.io/app":{"nodePodsAccessible":true}}}`, "",
		},
		"another image was pulled": {"pulled/sha256-1", `{"imageRef":"` + strings.Repeat("2", 64) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kubelet.Blocking(state(t, map[string]string{test.file: test.content}), names)
			if err != nil || len(got) > 1 || (len(got) == 1) != (test.want != "") {
				t.Fatalf("got %v, %v, want %q", got, err, test.want)
			}
			if len(got) == 1 && !strings.Contains(got[0].String(), test.want) {
				t.Errorf("got %s, want %s", got[0], test.want)
			}
		})
	}
	t.Run("no kubelet", func(t *testing.T) {
		if got, err := kubelet.Blocking(t.TempDir(), names); got != nil || err != nil {
			t.Errorf("got %v, %v, want nothing", got, err)
		}
	})
	for name, content := range map[string]string{"no JSON": "{", "too large": strings.Repeat(" ", 1<<20) + pulled} {
		t.Run(name, func(t *testing.T) {
			_, err := kubelet.Blocking(state(t, map[string]string{"pulled/sha256-1": content}), names)
			if err == nil || !strings.Contains(err.Error(), "pulled/sha256-1") {
				t.Errorf("got %v, want an error of the file", err)
			}
		})
	}
}

// service records what is done with it.
type service struct {
	running bool
	calls   []string
	onStop  func()
	err     error // of Stop
}

func (s *service) Running(context.Context) bool { return s.running }

func (s *service) Stop(context.Context) error {
	s.calls = append(s.calls, "stop")
	if s.onStop != nil {
		s.onStop()
	}
	s.running = s.err != nil
	return s.err
}

func (s *service) Start(context.Context) error {
	s.calls, s.running = append(s.calls, "start"), true
	return nil
}

func TestMend(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		files   map[string]string
		service service
		calls   []string
		left    int
		err     error
	}{
		"nothing to do":                {nil, service{running: true}, nil, 0, nil},
		"only a pull has not ended":    {map[string]string{"pulling/sha256-1": intent}, service{running: true}, nil, 0, nil},
		"the kubelet does not run":     {map[string]string{"pulled/sha256-1": pulled}, service{}, nil, 0, nil},
		"the kubelet is stopped":       {map[string]string{"pulled/sha256-1": pulled}, service{running: true}, []string{"stop", "start"}, 0, nil},
		"the kubelet is not stoppable": {map[string]string{"pulled/sha256-1": pulled}, service{running: true, err: broken}, []string{"stop", "start"}, 1, broken},
	} {
		t.Run(name, func(t *testing.T) {
			dir := state(t, test.files)
			m := kubelet.Mender{Dir: dir, Service: &test.service, Stopped: filepath.Join(dir, "stopped")}
			if _, err := m.Mend(t.Context(), names); !errors.Is(err, test.err) {
				t.Errorf("got %v, want %v", err, test.err)
			}
			if !slices.Equal(test.service.calls, test.calls) {
				t.Errorf("got the calls %v, want %v", test.service.calls, test.calls)
			}
			if left, err := kubelet.Blocking(dir, names); err != nil || len(left) != test.left {
				t.Errorf("got %v, %v left, want %d", left, err, test.left)
			}
			if _, err := os.Stat(m.Stopped); err == nil {
				t.Error("the file of a stopped kubelet is left")
			}
		})
	}
}

// A kubelet that no known unit runs keeps its records in memory: they are not removed beneath it. An intent is.
func TestMendRefusesAKubeletThatItCannotStop(t *testing.T) {
	dir := state(t, map[string]string{"pulled/sha256-1": pulled, "pulling/sha256-1": intent})
	if err := os.Mkdir(filepath.Join(dir, "pod-resources"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "pod-resources/kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, m := range map[string]kubelet.Mender{
		"no unit": {Dir: dir}, "a unit that does not run": {Dir: dir, Service: &service{}},
	} {
		t.Run(name, func(t *testing.T) {
			m.Stopped = filepath.Join(dir, "stopped")
			_, err := m.Mend(t.Context(), names)
			if !errors.Is(err, kubelet.ErrRunning) || !strings.Contains(err.Error(), "pulled/sha256-1, and start it") {
				t.Errorf("got %v, want %v with the cure", err, kubelet.ErrRunning)
			}
			if left, err := kubelet.Blocking(dir, names); err != nil || len(left) != 1 || left[0].Pulling {
				t.Errorf("got %v, %v left, want the record in pulled", left, err)
			}
		})
	}
	l.Close()
	if removed, err := (kubelet.Mender{Dir: dir}).Mend(t.Context(), names); err != nil || len(removed) != 1 {
		t.Errorf("once it has stopped: got %v, %v, want the record removed", removed, err)
	}
}

// A kubelet that tries a pull again while it is stopped leaves another record.
func TestMendRemovesWhatTheKubeletLeaves(t *testing.T) {
	dir := state(t, map[string]string{"pulled/sha256-1": pulled, "pulling/sha256-2": `{}`})
	s := &service{running: true, onStop: func() {
		if err := os.WriteFile(filepath.Join(dir, "image_manager/pulling/sha256-1"), []byte(intent), 0o600); err != nil {
			t.Error(err)
		}
	}}
	removed, err := kubelet.Mender{Dir: dir, Service: s, Stopped: filepath.Join(dir, "stopped")}.Mend(t.Context(), names)
	if err != nil || len(removed) != 2 {
		t.Errorf("got %v, %v, want both records removed", removed, err)
	}
}

// Killed while the kubelet is stopped, the next Mend starts it.
func TestMendStartsAKubeletThatItHasStopped(t *testing.T) {
	dir, s := state(t, map[string]string{"pulled/sha256-1": pulled}), &service{running: true}
	m := kubelet.Mender{Dir: dir, Service: s, Stopped: filepath.Join(dir, "stopped")}
	s.onStop = func() { panic("killed") }
	func() {
		defer func() { _ = recover() }()
		_, _ = m.Mend(t.Context(), names)
	}()
	s.running, s.onStop, s.calls = false, nil, nil
	if _, err := m.Mend(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	if !s.running {
		t.Errorf("got the calls %v and a stopped kubelet, want it started", s.calls)
	}
}
