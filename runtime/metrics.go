package runtime

import (
	"bytes"
	"fmt"
)

// gauge is a metric with one sample, or with one for each value of its label.
type gauge struct {
	name, help, label string
	// samples have the values of the label as keys, "" without a label.
	samples func(Status) map[string]int64
	// values are all values of the label, in order: a query then finds 0 instead of nothing.
	values []string
}

// gauges are the metrics of a status: docs/node.md lists them. Names follow
// https://prometheus.io/docs/practices/naming.
var gauges = []gauge{
	flag("pinbox_healthy", "1 if every image is on the node and pinned, and nothing else is wrong.", Status.Healthy),
	flag("pinbox_degraded", "1 if something is wrong, and no pass is repairing it.", Status.Degraded),
	flag("pinbox_progressing", "1 if a pass is running, or due.",
		func(s Status) bool { return s.is(ProgressingCondition) }),
	one("pinbox_status_timestamp_seconds", "When a pass last wrote the status.",
		func(s Status) int64 { return s.Time.Unix() }),
	one("pinbox_sets", "Sets that the node follows.", func(s Status) int64 { return int64(len(s.Sets)) }),
	{
		"pinbox_images", "Images of the sets by their state.", "state", countImages,
		[]string{string(Pinned), string(Present), string(Pulling), string(Missing), string(Unknown)},
	},
	{
		"pinbox_failed_images", "Images that could not be pulled or pinned, by the class of the error.", "class", countFailed,
		[]string{string(Auth), string(NotFound), string(Policy), string(Space), string(Network), string(Other)},
	},
	one("pinbox_pull_remaining_bytes", "Bytes of the images of the sets that are still to be fetched.", remaining),
	one("pinbox_unpinned_images", "Images on the node that no set has any more.",
		func(s Status) int64 { return int64(len(s.Unpinned)) }),
	{
		"pinbox_stores", "Stores by their state: corrupted is a mounted one in which a changed block was read.",
		"state", countStores,
		[]string{
			string(StoreMounted), string(Corrupted), string(StoreUnavailable), string(StoreRefused), string(StoreComposing),
		},
	},
	one("pinbox_unverified_stores", "Mounted stores whose blocks dm-verity does not verify.", countUnverified),
}

func one(name, help string, value func(Status) int64) gauge {
	return gauge{name: name, help: help, values: []string{""}, samples: func(s Status) map[string]int64 {
		return map[string]int64{"": value(s)}
	}}
}

func flag(name, help string, is func(Status) bool) gauge {
	return one(name, help, func(s Status) int64 {
		if is(s) {
			return 1
		}
		return 0
	})
}

// Metrics returns the status in the text format of Prometheus:
// https://prometheus.io/docs/instrumenting/exposition_formats.
func (s Status) Metrics() []byte {
	var b bytes.Buffer
	for _, g := range gauges {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", g.name, g.help, g.name)
		samples := g.samples(s)
		for _, value := range g.values {
			if g.label == "" {
				fmt.Fprintf(&b, "%s %d\n", g.name, samples[value])
			} else {
				fmt.Fprintf(&b, "%s{%s=%q} %d\n", g.name, g.label, value, samples[value])
			}
		}
	}
	return b.Bytes()
}

func countImages(s Status) map[string]int64 {
	n := map[string]int64{}
	for _, img := range s.Images {
		n[string(img.State)]++
	}
	return n
}

func countFailed(s Status) map[string]int64 {
	n := map[string]int64{}
	for _, img := range s.Images {
		if img.Error != "" {
			n[string(img.ErrorClass)]++
		}
	}
	return n
}

func remaining(s Status) (bytes int64) {
	if s.Progress != nil {
		return s.Progress.OfBytes - s.Progress.Bytes
	}
	for _, img := range s.Images {
		bytes += img.Bytes
	}
	return bytes
}

// mounted returns how the mounted stores are verified: the attached ones, and the appliance's own.
func (s Status) mounted() (all []VerityState) {
	for _, store := range s.Stores {
		if store.State == StoreMounted && store.Verity != nil {
			all = append(all, store.Verity.State)
		}
	}
	if s.OwnStore != nil {
		all = append(all, s.OwnStore.State)
	}
	return all
}

func countStores(s Status) map[string]int64 {
	n := map[string]int64{}
	for _, store := range s.Stores {
		if store.State != StoreMounted {
			n[string(store.State)]++
		}
	}
	for _, state := range s.mounted() {
		if state == Corrupted {
			n[string(Corrupted)]++
		} else {
			n[string(StoreMounted)]++
		}
	}
	return n
}

func countUnverified(s Status) (n int64) {
	for _, state := range s.mounted() {
		if state == Unverified {
			n++
		}
	}
	return n
}
