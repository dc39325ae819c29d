package runtime

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// metric is a metric of a status.
type metric struct {
	name, help string
	// counter means that it only grows, until the node boots again; else it is a gauge.
	counter bool
	samples func(Status) []sample
}

// sample is a value, with the labels of the metric in the text format, or "".
type sample struct {
	labels string
	value  int64
}

// metrics are the metrics of a status: docs/node.md lists them. Names follow
// https://prometheus.io/docs/practices/naming.
var metrics = []metric{
	flag("pinbox_healthy", "1 if every image is on the node and pinned, and nothing else is wrong.", Status.Healthy),
	flag("pinbox_degraded", "1 if something is wrong, and no pass is repairing it.", Status.Degraded),
	flag("pinbox_progressing", "1 if a pass is running, or due.",
		func(s Status) bool { return s.is(ProgressingCondition) }),
	one("pinbox_status_timestamp_seconds", "When a pass last wrote the status.",
		func(s Status) int64 { return s.Time.Unix() }),
	one("pinbox_last_success_timestamp_seconds",
		"When a pass last found every image on the node and pinned, and nothing else wrong; 0 if none has since the boot.",
		func(s Status) int64 { return max(0, s.Totals.LastSuccess.Unix()) }),
	one("pinbox_sets", "Sets that the node follows.", func(s Status) int64 { return int64(len(s.Sets)) }),
	flag("pinbox_no_sets", "1 if the node has no sets and is meant to have some.", Status.NoSets),
	{"pinbox_set_ready", "1 if every image of the set is on the node and pinned.", false, readySets},
	{"pinbox_images", "Images of the sets by their state.", false, each("state", countImages,
		Pinned, Present, Pulling, Missing, Unknown)},
	{"pinbox_failed_images", "Images that could not be pulled or pinned, by the class of the error.", false,
		each("class", countFailed, classes...)},
	one("pinbox_pull_remaining_bytes", "Bytes of the images of the sets that are still to be fetched.", remaining),
	{"pinbox_pull_bytes_total", "Bytes of the images that were pulled since the boot.", true,
		func(s Status) []sample { return []sample{{"", s.Totals.PulledBytes}} }},
	{"pinbox_pull_failures_total", "Attempts to pull an image that have failed since the boot, by the class of the error.",
		true, each("class", func(s Status) map[Class]int64 { return s.Totals.PullFailures }, classes...)},
	{"pinbox_space_free_bytes", "Free space where images are pulled to, and where blobs are staged.", false,
		spaces(func(s SpaceStatus) int64 { return s.Free })},
	{"pinbox_space_size_bytes", "Size of these file systems.", false,
		spaces(func(s SpaceStatus) int64 { return s.Bytes })},
	one("pinbox_unpinned_images", "Images on the node that no set has any more.",
		func(s Status) int64 { return int64(len(s.Unpinned)) }),
	one("pinbox_wanted_images", "Images that pods wanted, and that neither the node nor its sets have.",
		func(s Status) int64 { return int64(len(s.Wanted)) }),
	{"pinbox_stores", "Stores by their state: corrupted is a mounted one in which a changed block was read.", false,
		each("state", countStores, string(StoreMounted), string(Corrupted), string(StoreUnavailable), string(StoreRefused),
			string(StoreComposing))},
	{"pinbox_store_info", "1 for each attached store.", false, storeInfos},
	one("pinbox_unverified_stores", "Mounted stores whose blocks dm-verity does not verify.", countUnverified),
}

func one(name, help string, value func(Status) int64) metric {
	return metric{name, help, false, func(s Status) []sample { return []sample{{"", value(s)}} }}
}

func flag(name, help string, is func(Status) bool) metric {
	return one(name, help, func(s Status) int64 { return number(is(s)) })
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// each has a sample for each of the values of a label: a query then finds 0 instead of nothing.
func each[V ~string](label string, count func(Status) map[V]int64, values ...V) func(Status) []sample {
	return func(s Status) (all []sample) {
		n := count(s)
		for _, v := range values {
			all = append(all, sample{labels(label, string(v)), n[v]})
		}
		return all
	}
}

// escape is how the text format writes the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels are pairs of a name and a value, in the text format.
func labels(pairs ...string) string {
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, pairs[i]+`="`+escape.Replace(pairs[i+1])+`"`)
	}
	return "{" + strings.Join(all, ",") + "}"
}

// Metrics returns the status in the text format of Prometheus:
// https://prometheus.io/docs/instrumenting/exposition_formats.
func (s Status) Metrics() []byte {
	var b bytes.Buffer
	for _, m := range metrics {
		kind := "gauge"
		if m.counter {
			kind = "counter"
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, kind)
		for _, sample := range m.samples(s) {
			fmt.Fprintf(&b, "%s%s %d\n", m.name, sample.labels, sample.value)
		}
	}
	return b.Bytes()
}

// readySets has one sample for each name: a file that cannot be read may have that of another set.
func readySets(s Status) (all []sample) {
	ready := map[string]bool{}
	for _, set := range s.Sets {
		before, twice := ready[set.Name]
		ready[set.Name] = set.Ready() && (before || !twice)
	}
	for _, name := range slices.Sorted(maps.Keys(ready)) {
		all = append(all, sample{labels("set", name), number(ready[name])})
	}
	return all
}

func spaces(value func(SpaceStatus) int64) func(Status) []sample {
	return func(s Status) (all []sample) {
		for _, space := range s.Space {
			all = append(all, sample{labels("path", space.Path), value(space)})
		}
		return all
	}
}

func storeInfos(s Status) (all []sample) {
	for _, store := range s.Stores {
		all = append(all, sample{labels("slot", store.Slot, "digest", store.Digest, "name", store.Name,
			"release", strconv.FormatInt(store.Number, 10), "state", string(store.State)), 1})
	}
	return all
}

func countImages(s Status) map[State]int64 {
	n := map[State]int64{}
	for _, img := range s.Images {
		n[img.State]++
	}
	return n
}

func countFailed(s Status) map[Class]int64 {
	n := map[Class]int64{}
	for _, img := range s.Images {
		if img.Error != "" {
			n[img.ErrorClass]++
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
