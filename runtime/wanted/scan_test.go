package wanted_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/runtime/wanted"
)

const (
	digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	one    = "602d3cf3-b53d-4eb4-9f64-edc8f259684e"
	two    = "0415a8ae-e009-478d-83e4-cd8b7ba3b157"
)

// start is when the logs of the tests begin.
var start = time.Date(2026, 11, 28, 5, 54, 0, 0, time.UTC)

func at(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }

// pulls is a line of CRI-O, as 1.34 and 1.36 write it.
func pulls(second int, verb, name, id string) string {
	return fmt.Sprintf(`time="%s" level=info msg="%s image: %s" id=%s name=/runtime.v1.ImageService/PullImage`,
		at(second).Format(time.RFC3339Nano), verb, name, id)
}

// journaled is a line as `journalctl --output=short-unix` prints it.
func journaled(second int, unit, line string) string {
	return fmt.Sprintf("%d.000000 node12 %s[57]: %s", at(second).Unix(), unit, line)
}

// notSynced is a line of the kubelet as text, with what its error says of a container.
func notSynced(pod string, errs ...string) string {
	return fmt.Sprintf(`E1128 05:54:17.914911   12345 pod_workers.go:1338] "Error syncing pod, skipping" err=%q pod="%s" `+
		`podUID="f93e15701c1d581382f01429f7413c2b"`, strings.Join(errs, ", "), pod)
}

func backOff(name string) string {
	return fmt.Sprintf(`failed to "StartContainer" for "app" with ImagePullBackOff: %q`,
		fmt.Sprintf("Back-off pulling image %q: RegistryUnavailable: connection refused", name))
}

func never(name string) string {
	return fmt.Sprintf(`failed to "StartContainer" for "app" with ErrImageNeverPull: %q`,
		fmt.Sprintf("Container image %q is not present with pull policy of Never", name))
}

// asJSON is a line that a kubelet 1.36 has written: the error, and its causes.
const asJSON = `{"ts":1795845343591.7012,"caller":"kubelet/pod_workers.go:1338","msg":"Error syncing pod, skipping",` +
	`"pod":{"name":"gone-node12","namespace":"default"},"podUID":"f93e15701c1d581382f01429f7413c2b","err":"failed to ` +
	`\"StartContainer\" for \"app\" with ImagePullBackOff: \"Back-off pulling image \\\"quay.io/a/b:v1\\\": ` +
	`RegistryUnavailable: connection refused\"","errCauses":[{"error":"failed to \"StartContainer\" for \"app\" with ` +
	`ImagePullBackOff: \"Back-off pulling image \\\"quay.io/a/b:v1\\\": RegistryUnavailable: connection refused\""}]}`

func TestScan(t *testing.T) {
	image := func(name string, since, last, times int, pods ...string) wanted.Image {
		return wanted.Image{Name: name, Since: at(since), Last: at(last), Times: times, Pods: pods}
	}
	for name, c := range map[string]struct {
		log  []string
		want []wanted.Image
	}{
		"a pull that failed twice": {
			[]string{pulls(1, "Pulling", "quay.io/a/b:v1", one), pulls(14, "Pulling", "quay.io/a/b:v1", two)},
			[]wanted.Image{image("quay.io/a/b:v1", 1, 14, 2)},
		},
		"a pull that succeeded": {[]string{
			pulls(1, "Pulling", "quay.io/a/b:v1", one), pulls(2, "Pulling", "quay.io/c:v1", two),
			pulls(3, "Pulled", "quay.io/a/b@"+digest, one),
		}, []wanted.Image{image("quay.io/c:v1", 2, 2, 1)}},
		"CRI-O's log as JSON": {[]string{
			journaled(1, "crio", `{"id":"`+one+`","level":"info","msg":"Pulling image: quay.io/a/b:v1","time":"x"}`),
			journaled(2, "crio", `{"id":"`+two+`","level":"info","msg":"Pulling image: quay.io/c:v1","time":"x"}`),
			journaled(3, "crio", `{"id":"`+one+`","level":"info","msg":"Pulled image: quay.io/a/b@`+digest+`","time":"x"}`),
		}, []wanted.Image{image("quay.io/c:v1", 2, 2, 1)}},
		"the journal, with the pods": {[]string{
			journaled(1, "crio", pulls(0, "Pulling", "quay.io/a/b:v1", one)),
			journaled(2, "kubelet", notSynced("shop/web-1", backOff("quay.io/a/b:v1"))),
			journaled(3, "kubelet", notSynced("shop/web-2", backOff("quay.io/a/b:v1"))),
			journaled(4, "kubelet", notSynced("shop/web-1", backOff("quay.io/a/b:v1"))),
		}, []wanted.Image{image("quay.io/a/b:v1", 1, 4, 1, "shop/web-1", "shop/web-2")}},
		"a pod of two images": {
			[]string{journaled(1, "kubelet", notSynced("a/b", backOff("quay.io/a:1"), never("quay.io/b@"+digest)))},
			[]wanted.Image{image("quay.io/a:1", 1, 1, 0, "a/b"), image("quay.io/b@"+digest, 1, 1, 1, "a/b")},
		},
		"MicroShift": {
			[]string{journaled(1, "microshift", "kubelet "+notSynced("a/b", backOff("quay.io/a:1")))},
			[]wanted.Image{image("quay.io/a:1", 1, 1, 0, "a/b")},
		},
		"the kubelet's log as JSON": {[]string{journaled(1, "kubelet", asJSON)},
			[]wanted.Image{image("quay.io/a/b:v1", 1, 1, 0, "default/gone-node12")}},
		"names as CRI-O has them": {[]string{
			pulls(1, "Pulling", "quay.io/a/b:v1@"+digest, one), pulls(2, "Pulling", "docker.io/nginx", one),
			pulls(3, "Pulling", "index.docker.io/library/redis:7", one),
		}, []wanted.Image{
			image("quay.io/a/b@"+digest, 1, 1, 1), image("docker.io/library/nginx:latest", 2, 2, 1),
			image("docker.io/library/redis:7", 3, 3, 1),
		}},
		"no names": {[]string{
			pulls(1, "Pulling", "https://user:secret@quay.io/a/b:v1?token=x", one), pulls(2, "Pulling", "quay.io/A:v1", one),
			pulls(3, "Pulling", "user:secret@quay.io/a/b:v1", one), pulls(4, "Pulling", strings.Repeat("a", 64), one),
			pulls(5, "Pulling", strings.Repeat("a", 300)+"/b", one), pulls(6, "Pulling", "a\x1b[2Jb:1", one),
		}, nil},
		"words of others": {[]string{
			pulls(1, "Checking", "quay.io/a/b:v1", one), journaled(2, "crio", `msg="Current: \nmsg=\"Pulling image: quay.io/x:1\""`),
			journaled(3, "kubelet", notSynced("a/b", `failed: `+`pod=\"c/d\"`)), journaled(4, "kubelet", backOff("quay.io/a:1")),
			journaled(5, "kubelet", `"Event occurred" message="Container image \"quay.io/a:1\" already present on machine"`),
		}, nil},
		"a pod whose name is none": {[]string{journaled(1, "kubelet", notSynced("A/\x1b[2J", backOff("quay.io/a:1")))},
			[]wanted.Image{image("quay.io/a:1", 1, 1, 0)}},
		"a line that is longer than any": {
			[]string{journaled(1, "crio", strings.Repeat("x", 200_000)), pulls(2, "Pulling", "quay.io/a:1", one)},
			[]wanted.Image{image("quay.io/a:1", 2, 2, 1)},
		},
		"a time within a line that is longer than any": {
			[]string{
				strings.Repeat("x", 64<<10) + `time="2099-01-01T00:00:00Z" level=info`, pulls(2, "Pulling", "quay.io/a:1", one),
			},
			[]wanted.Image{image("quay.io/a:1", 2, 2, 1)},
		},
		"lines before the last reading, and such without a time": {
			[]string{"Pulling image", pulls(-5, "Pulling", "quay.io/a:1", one), pulls(0, "Pulling", "quay.io/a:1", one)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := wanted.Record{Version: 1, Read: start}
			if err := r.Scan(strings.NewReader(strings.Join(c.log, "\n") + "\n")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.Images); diff != "" {
				t.Errorf("the images differ (-want +got):\n%s", diff)
			}
			if r.Read.After(at(60)) { // nothing that is logged until then would count
				t.Errorf("got %v as the last time, want one of the log", r.Read)
			}
			if err := wanted.Check(r.Images); err != nil {
				t.Errorf("got images that no record has: %v", err)
			}
			before := fmt.Sprint(r)
			if err := r.Scan(strings.NewReader(strings.Join(c.log, "\n") + "\n")); err != nil || fmt.Sprint(r) != before {
				t.Errorf("got %v, %v after another reading of the same log, want %s", r, err, before)
			}
		})
	}
}

// Many images, and pods of one, do not let the record grow: the ones stay that were wanted last.
func TestRecordIsBounded(t *testing.T) {
	var log strings.Builder
	for i := range 1000 {
		fmt.Fprintln(&log, pulls(i+1, "Pulling", fmt.Sprintf("quay.io/a:%d", i), one))
		fmt.Fprintln(&log, journaled(i+1, "kubelet", notSynced(fmt.Sprintf("a/pod-%d", i), backOff("quay.io/busy:1"))))
	}
	r := wanted.Record{Read: start}
	if err := r.Scan(strings.NewReader(log.String())); err != nil {
		t.Fatal(err)
	}
	names := map[string]wanted.Image{}
	for _, img := range r.Images {
		names[img.Name] = img
	}
	busy, newest := names["quay.io/busy:1"], names["quay.io/a:999"]
	if len(r.Images) != 200 || len(busy.Pods) != 5 || newest.Times != 1 || names["quay.io/a:0"].Times != 0 {
		t.Errorf("got %d images, %+v and %+v, want the 200 newest, and 5 pods", len(r.Images), busy, newest)
	}
}
