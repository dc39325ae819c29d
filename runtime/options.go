package runtime

import (
	"fmt"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
)

// Options of a pass. The zero value works.
type Options struct {
	// Node is the name of the node in messages.
	Node   string
	Limits Limits
	// Pools of the node, for the status.
	Pools []string
	// Owner is MCO where a pass only reports.
	Owner Owner
	// Parallel pulls; 0 means 4, or 1 with a rate.
	Parallel int
	// Rate that the pulls of a pass have at most, on average.
	Rate bytesize.Rate
	// Prune removes images that no set asks for any more and no container uses.
	Prune bool
	// Retry of pulls.
	Retry Retry
	// Stall is how long pulls may receive nothing before they are restarted; 0 means 5
	// minutes.
	Stall time.Duration
	// PinTimeout is how long CRI-O may take to apply the pins; 0 means 15 seconds.
	PinTimeout time.Duration
	// Wait is how long CRI-O may take to answer; 0 means 10 seconds.
	Wait time.Duration
	// PublishInterval is how often progress is published; 0 means every 2 seconds.
	PublishInterval time.Duration
}

// validate returns an ErrOptions if an option is invalid.
func (o Options) validate() error {
	for name, d := range map[string]time.Duration{
		"stall": o.Stall, "pin timeout": o.PinTimeout, "wait": o.Wait, "publish interval": o.PublishInterval,
		"retry": o.Retry.First,
	} {
		if d < 0 {
			return fmt.Errorf("%w: %s is %s; it cannot be negative", ErrOptions, name, d)
		}
	}
	if o.Parallel < 0 {
		return fmt.Errorf("%w: %d pulls at a time", ErrOptions, o.Parallel)
	}
	if p := o.Limits.GCPercent; p < 0 || p > 100 {
		return fmt.Errorf("%w: a threshold of %d %%", ErrOptions, p)
	}
	return nil
}

// ErrOptions is an invalid option.
var ErrOptions = fault.New(fault.Usage, "wrong options",
	"docs/format.md lists the settings, `pinbox-node COMMAND --help` the flags")

// defaults returns the options with their defaults.
func (o Options) defaults() Options {
	def := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	def(&o.Stall, 5*time.Minute)
	def(&o.PinTimeout, 15*time.Second)
	def(&o.Wait, 10*time.Second)
	def(&o.PublishInterval, 2*time.Second)
	def(&o.Retry.First, time.Second)
	def(&o.Retry.Longest, 30*time.Second)
	if o.Retry.Tries == 0 {
		o.Retry.Tries = 5
	}
	if o.Parallel == 0 && o.Rate > 0 {
		o.Parallel = 1
	}
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	if o.Owner == "" {
		o.Owner = Pinbox
	}
	o.Limits.Node = o.Node
	return o
}
