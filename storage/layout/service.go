package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
)

// Service are the settings of passes, and of the service that makes them.
type Service struct {
	// Pools of the node; if left out, all sets apply.
	Pools []string `json:"pools,omitempty" yaml:"pools,omitempty" jsonschema:"example=worker"`
	// Reserve is space to leave free; 16Gi,10%, the lesser of both, if left out.
	Reserve *bytesize.Reserve `json:"reserve,omitempty" yaml:"reserve,omitempty" jsonschema:"example=8Gi"`
	// Parallel pulls; if left out 4, with a rate 1, else on a node of the control plane 2.
	Parallel int `json:"parallel,omitempty" yaml:"parallel,omitempty" jsonschema:"minimum=0,example=2"`
	// Rate of pulls, on average.
	Rate bytesize.Rate `json:"rate,omitzero" yaml:"rate,omitempty" jsonschema:"example=20MB/s"`
	// Stall is how long a pull or a fetch may make no progress; 5m if left out.
	Stall Duration `json:"stall,omitzero" yaml:"stall,omitempty" jsonschema:"example=15m"`
	// Wait for CRI-O, or for another pinbox-node.
	Wait Duration `json:"wait,omitzero" yaml:"wait,omitempty" jsonschema:"example=5m"`
	// Prune removes images that no set has and no container uses.
	Prune bool `json:"prune,omitempty" yaml:"prune,omitempty"`
	// Interval between passes; 5m if left out.
	Interval Duration `json:"interval,omitzero" yaml:"interval,omitempty" jsonschema:"example=1h"`
	// Metrics are served at this address of loopback.
	Metrics string `json:"metrics,omitempty" yaml:"metrics,omitempty" jsonschema:"example=127.0.0.1:9750"`
	// Kubeconfig of a cluster to follow; or in-cluster, in a pod.
	Kubeconfig string `json:"kubeconfig,omitempty" yaml:"kubeconfig,omitempty" jsonschema:"example=/etc/pinbox/kubeconfig"`
	// Jitter of passes after a change in the cluster; 10s if left out.
	Jitter *Duration `json:"jitter,omitempty" yaml:"jitter,omitempty" jsonschema:"example=5m"`
	// NodeCondition writes the condition PinnedImagesReady.
	NodeCondition bool `json:"nodeCondition,omitempty" yaml:"nodeCondition,omitempty"`
}

// Machine are the settings that differ from node to node, or that few need; "" or 0 for the default.
type Machine struct {
	// NodeName is the name of the node in messages, and in the API of a cluster; "" is the host's.
	NodeName string `json:"nodeName,omitempty"`
	// Owner is who writes the pins: "pinbox", "mco", or "auto" and "" to find out whether the Machine Config Operator
	// manages the node.
	Owner string `json:"owner,omitempty"`
	// GCThreshold is the percentage of the disk at which the kubelet removes images; 100 means never, 0 that of its
	// configuration.
	GCThreshold int `json:"gcThreshold,omitempty"`
	// LeastRate is that below which a server counts as stalled, of which a store is fetched.
	LeastRate *bytesize.Rate `json:"leastRate,omitempty"`
	// Retry is the time before the second attempt of a pull.
	Retry Duration `json:"retry,omitzero"`
	// SetsDir is the folder of the sets, and KeysDir that of the keys that the node trusts.
	SetsDir string `json:"setsDir,omitempty"`
	KeysDir string `json:"keysDir,omitempty"`
	// StateDir is the folder of the read-only stores and of the state, Status the file of the status, and MetricsFile that
	// of the metrics for node_exporter, beside it.
	StateDir    string `json:"stateDir,omitempty"`
	Status      string `json:"status,omitempty"`
	MetricsFile string `json:"metricsFile,omitempty"`
	// Socket of CRI-O, CRIODir the folder of its configuration, and CRIOLog the file of its log; "" is the journal.
	Socket  string `json:"socket,omitempty"`
	CRIODir string `json:"crioDir,omitempty"`
	CRIOLog string `json:"crioLog,omitempty"`
	// StagingDir is where CRI-O keeps blobs until they are unpacked; "" is the folder of its configuration.
	StagingDir string `json:"stagingDir,omitempty"`
	// Reload is how CRI-O is reloaded: by "systemd", by a "signal", or by a command without a shell; "" or "auto" is by
	// systemd where that runs, else by a signal.
	Reload string `json:"reload,omitempty"`
	// RegistriesConf and RegistriesDir replace those below /etc/containers.
	RegistriesConf string `json:"registriesConf,omitempty"`
	RegistriesDir  string `json:"registriesDir,omitempty"`
}

// Duration is a time such as 5m, not negative.
type Duration time.Duration

// MarshalText returns what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err == nil && parsed < 0 {
		err = errors.New("it cannot be negative")
	}
	if err != nil {
		return fmt.Errorf("%q is not a time such as 30s, 5m or 1h: %w", text, err)
	}
	*d = Duration(parsed)
	return nil
}

// Set sets a field by "NAME=VALUE", with its name in the file. The value of a list has commas.
func (c *NodeConfig) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q has not the form NAME=VALUE", text)
	}
	quoted, _ := json.Marshal(value) // a string cannot fail
	list, _ := json.Marshal(strings.Split(value, ","))
	var err error
	for _, form := range [][]byte{[]byte(value), list, quoted} {
		next := *c
		d := json.NewDecoder(bytes.NewReader(fmt.Appendf(nil, "{%q: %s}", name, form)))
		d.DisallowUnknownFields()
		if err = d.Decode(&next); err != nil {
			continue
		}
		if err = next.Validate(); err == nil {
			*c = next
			return nil
		}
		break
	}
	return fmt.Errorf("%s: %w", name, err)
}
