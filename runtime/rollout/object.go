package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Kind of the object in the API: deploy/rollouts.yaml. Group and version are those of the reports.
const Kind = "Rollout"

// Label of a set names the Rollout that releases its changes. It is of the set, so that no node sees a change without
// its label.
const Label = "pinbox.dev/rollout"

// PreviousAnnotation of a set has what all nodes had before the change that is released: generation and images, as
// JSON. Nodes that join meanwhile take that, and a rollback restores it.
const PreviousAnnotation = "pinbox.dev/previous"

// CanaryLabel of a Node puts it before those without the label.
const CanaryLabel = "pinbox.dev/canary"

// Rollout says in which waves the nodes take the changes of the sets that name it.
type Rollout struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	Status     Status   `json:"status,omitzero"`
}

// Metadata of a Rollout, as far as it is used.
type Metadata struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Spec is what somebody wants.
type Spec struct {
	// Waves in their order; the limit of the last one is Rest.
	Waves []Wave `json:"waves"`
	// Success is the percentage of the nodes that must be ready before the next wave begins; 0 is 100.
	Success int `json:"success,omitempty"`
	// MaxPulling is how many nodes may pull at once; 0 means any number.
	MaxPulling int `json:"maxPulling,omitempty"`
	// Window is the time of the day in UTC in which nodes are released, as 22:00-05:00; "" is all day.
	Window string `json:"window,omitempty"`
	// Deadline is how long after its release a node may take until it is ready, as 6h; later it fails. With "", one that
	// has taken nothing fails after the time in which nodes must report, and one that pulls may take any time.
	Deadline string `json:"deadline,omitempty"`
	// Paused means that no more nodes are released.
	Paused bool `json:"paused,omitempty"`
}

// Wave is a step of a rollout.
type Wave struct {
	Name string `json:"name"`
	// Limit is how many nodes have the change at the end of the wave, with those of the waves before: a number, a
	// percentage of the nodes, or Rest.
	Limit string `json:"limit"`
}

// Rest is the limit of a wave with all nodes.
const Rest = "rest"

// State of a rollout.
type State string

// A rollout goes on; or it is paused, by somebody or by nodes that fail; or all nodes are released, and enough of them
// ready; or no node or no set is there for it.
const (
	Progressing State = "Progressing"
	Paused      State = "Paused"
	Complete    State = "Complete"
	Idle        State = "Idle"
)

// Status is how far a rollout has come: what the controller writes, and what nodes read.
type Status struct {
	State  State  `json:"state"`
	Reason string `json:"reason"`
	// Started is when one of the sets has changed last.
	Started time.Time `json:"started"`
	// ReleasedAt is when nodes were released last; zero if none was.
	ReleasedAt time.Time `json:"releasedAt,omitzero"`
	// Sets are released in these generations, to the nodes up to the place Released.
	Sets     []Target `json:"sets"`
	Released int64    `json:"released"`
	// Wave is the place of the present wave in the spec, from 0, and WaveName its name.
	Wave     int    `json:"wave"`
	WaveName string `json:"waveName"`
	Nodes    Counts `json:"nodes"`
}

// Target is a generation of a set.
type Target struct {
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// Counts are how many nodes have the sets; of these how many are released; and of these how many are in which state.
type Counts struct {
	Total    int `json:"total"`
	Released int `json:"released"`
	Ready    int `json:"ready"`
	Pulling  int `json:"pulling"`
	Failing  int `json:"failing"`
}

// Everyone is a place after those of all nodes.
const Everyone int64 = 1 << 42

// Place is the place of a node in the order in which nodes are released. The order is that of a hash of the names, so
// that a wave has nodes of all racks and sites; nodes with CanaryLabel come first.
func Place(node string, labels map[string]string) int64 {
	const bits = 40
	sum := sha256.Sum256([]byte(node))
	place := int64(binary.BigEndian.Uint64(sum[:8])>>(64-bits)) + 1 // #nosec G115 -- 40 bits
	if _, canary := labels[CanaryLabel]; !canary {
		place += 1 << bits
	}
	return place
}

// Releases reports whether a generation of a set is released to the node with the place.
func (s Status) Releases(t Target, place int64) bool {
	return place > 0 && place <= s.Released && slices.Contains(s.Sets, t)
}

// Finished reports whether a generation of a set is released to all nodes, and ready on enough of them.
func (s Status) Finished(t Target) bool { return s.State == Complete && slices.Contains(s.Sets, t) }

// Decode reads an object of the API.
func Decode(content []byte) (r Rollout, err error) {
	if err := json.Unmarshal(content, &r); err != nil {
		return Rollout{}, fmt.Errorf("rollout: %w", err)
	}
	if r.APIVersion != fleet.Group+"/"+fleet.Version || r.Kind != Kind || !pinset.ValidName(r.Metadata.Name) {
		return Rollout{}, fmt.Errorf("rollout: got %s %s %q", r.APIVersion, r.Kind, r.Metadata.Name)
	}
	return r, nil
}

// ErrSpec is a rollout whose waves make no sense.
var ErrSpec = errors.New("waves of a rollout")

// Check returns the errors of the waves, as deploy/rollouts.yaml has them.
func (s Spec) Check() error {
	if s.Success < 0 || s.Success > 100 || s.MaxPulling < 0 {
		return fmt.Errorf("%w: success %d %%, %d nodes at once", ErrSpec, s.Success, s.MaxPulling)
	}
	if _, err := s.open(time.Time{}); err != nil {
		return err
	}
	if _, err := s.deadline(); err != nil {
		return err
	}
	if n := len(s.Waves); n == 0 || s.Waves[n-1].Limit != Rest {
		return fmt.Errorf("%w: the last one must have the limit %q", ErrSpec, Rest)
	}
	for i, w := range s.Waves {
		if slices.ContainsFunc(s.Waves[:i], func(other Wave) bool { return other.Name == w.Name }) {
			return fmt.Errorf("%w: the name %q is there twice", ErrSpec, w.Name)
		}
		if _, err := w.nodes(100); err != nil {
			return err
		}
	}
	return nil
}

// open reports whether nodes may be released at a time.
func (s Spec) open(at time.Time) (bool, error) {
	if s.Window == "" {
		return true, nil
	}
	const clock = "15:04"
	from, to, _ := strings.Cut(s.Window, "-")
	for _, text := range []string{from, to} {
		if t, err := time.Parse(clock, text); err != nil || t.Format(clock) != text {
			return false, fmt.Errorf("%w: window %q: it is HH:MM-HH:MM", ErrSpec, s.Window)
		}
	}
	now := at.UTC().Format(clock) // such texts are in the order of the times
	if from <= to {
		return from <= now && now < to, nil
	}
	return from <= now || now < to, nil
}

// deadline is the time that a node may take; 0 if there is no deadline.
func (s Spec) deadline() (time.Duration, error) {
	if s.Deadline == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s.Deadline)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%w: deadline %q: it is a time above 0, as 6h or 90m", ErrSpec, s.Deadline)
	}
	return d, nil
}

// nodes is how many of all nodes have the change at the end of the wave: at least one, and at most all.
func (w Wave) nodes(all int) (int, error) {
	if w.Limit == Rest {
		return all, nil
	}
	number, percent := strings.CutSuffix(w.Limit, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 {
		return 0, fmt.Errorf("%w: limit %q: it is a number, a percentage as 10%%, or %q", ErrSpec, w.Limit, Rest)
	}
	if percent {
		n = ceil(all, n)
	}
	return min(n, all), nil
}

// ceil is a percentage of a number, rounded up.
func ceil(of, percent int) int { return (of*percent + 99) / 100 }

// ParseWave reads a wave as LIMIT or NAME=LIMIT.
func ParseWave(text string) (Wave, error) {
	name, limit, found := strings.Cut(text, "=")
	if !found {
		limit = name
	}
	w := Wave{Name: name, Limit: limit}
	if !pinset.Printable(name) || name == "" {
		return w, fmt.Errorf("%w: wave %q: it is LIMIT or NAME=LIMIT", ErrSpec, text)
	}
	_, err := w.nodes(100)
	return w, err
}
