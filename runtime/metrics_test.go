package runtime_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/pinset"
)

var degraded = runtime.Status{
	Time:       time.Unix(1_700_000_000, 0),
	Conditions: []runtime.Condition{{Type: runtime.DegradedCondition, Status: "True"}},
	Sets: []runtime.SetStatus{
		{Name: "a", Images: 2, Pinned: 2}, {Name: "b", Images: 2, Pinned: 1}, {Name: "c"}, {Name: "c", LastFailedGeneration: "1"},
	},
	Images: []runtime.ImageStatus{
		{State: runtime.Pinned}, {State: runtime.Pinned}, {State: runtime.Present},
		{State: runtime.Missing, Bytes: 1000, ErrorClass: runtime.NotFound, Error: "404"},
		{State: runtime.Missing, Bytes: 20},
	},
	Unpinned: []string{"x", "y"},
	Wanted:   []wanted.Image{{Name: "quay.io/x/y:1"}, {Name: "quay.io/x/z:1"}},
	Stores: []runtime.StoreStatus{
		{
			Slot: "1", Digest: "sha256:12", ReleaseID: pinset.ReleaseID{Name: "edge", Number: 7}, State: runtime.StoreMounted,
			Verity: &runtime.VerityStatus{State: runtime.Verified},
		},
		{Slot: "2", State: runtime.StoreMounted, Verity: &runtime.VerityStatus{State: runtime.Unverified}},
		{Slot: "3", State: runtime.StoreMounted, Verity: &runtime.VerityStatus{State: runtime.Corrupted}},
		{State: runtime.StoreUnavailable, Slot: "4"}, {State: runtime.StoreRefused, Slot: "5"},
	},
	Space: []runtime.SpaceStatus{{Path: `/a\"b`, Bytes: 100, Free: 7}},
	Totals: runtime.Totals{
		PulledBytes: 12345, PullFailures: map[runtime.Class]int64{runtime.Auth: 3}, LastSuccess: time.Unix(1_600_000_000, 0),
	},
	OwnStore: &runtime.VerityStatus{State: runtime.Corrupted},
}

// samples parses the metrics of a status: values by the name and, if there is one, the value of the label.
func samples(t *testing.T, s runtime.Status) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(s.Metrics()))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, family := range families {
		if family.GetHelp() == "" {
			t.Errorf("%s: got no help", name)
		}
		for _, m := range family.Metric {
			key := name
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			for _, l := range m.Label {
				key += " " + l.GetValue()
			}
			if _, twice := all[key]; twice {
				t.Errorf("%s: got it twice", key)
			}
			all[key] = value
		}
	}
	return all
}

// Prometheus reads the metrics, and they count what the status has.
func TestMetricsGolden(t *testing.T) {
	fixtures.Golden(t, "metrics.prom", degraded.Metrics())
	got := samples(t, degraded)
	for name, want := range map[string]float64{
		"pinbox_healthy": 0, "pinbox_degraded": 1, "pinbox_progressing": 0, "pinbox_sets": 4,
		"pinbox_status_timestamp_seconds": 1_700_000_000, "pinbox_images pinned": 2, "pinbox_images present": 1,
		"pinbox_images missing": 2, "pinbox_images pulling": 0, "pinbox_failed_images not found": 1,
		"pinbox_failed_images auth": 0, "pinbox_pull_remaining_bytes": 1020, "pinbox_unpinned_images": 2,
		"pinbox_stores mounted": 2, "pinbox_stores corrupted": 2, "pinbox_stores unavailable": 1,
		"pinbox_stores refused": 1, "pinbox_unverified_stores": 1, "pinbox_set_ready a": 1, "pinbox_set_ready b": 0,
		"pinbox_set_ready c": 0, "pinbox_pull_bytes_total": 12345, "pinbox_pull_failures_total auth": 3,
		"pinbox_pull_failures_total network": 0, "pinbox_last_success_timestamp_seconds": 1_600_000_000,
		`pinbox_space_free_bytes /a\"b`: 7, `pinbox_space_size_bytes /a\"b`: 100,
		"pinbox_store_info 1 sha256:12 edge 7 mounted": 1,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s: got %v, %v, want %v", name, value, ok, want)
		}
	}
}

// An empty status has the same metrics, all 0, but for those of sets, stores and disks; and while images are pulled,
// the bytes are those of the pulls.
func TestMetricsOfOtherStatuses(t *testing.T) {
	empty := samples(t, runtime.Status{Time: time.Unix(0, 0)})
	more := func(name string) bool {
		return strings.HasPrefix(name, "pinbox_set_") || strings.HasPrefix(name, "pinbox_space_") ||
			strings.HasPrefix(name, "pinbox_store_")
	}
	got, want := slices.Sorted(maps.Keys(empty)), slices.DeleteFunc(slices.Sorted(maps.Keys(samples(t, degraded))), more)
	if !slices.Equal(got, want) {
		t.Errorf("got the metrics %v, want %v", got, want)
	}
	for name, value := range empty {
		if value != 0 {
			t.Errorf("%s: got %v, want 0", name, value)
		}
	}
	pulling := runtime.Status{
		Images:   []runtime.ImageStatus{{State: runtime.Pulling, Bytes: 1000}},
		Progress: &runtime.Progress{Bytes: 300, OfBytes: 1000},
	}
	if got := samples(t, pulling)["pinbox_pull_remaining_bytes"]; got != 700 {
		t.Errorf("got %v bytes to fetch, want 700", got)
	}
}
