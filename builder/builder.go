package builder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrDrift says that the inputs are not what was locked.
var ErrDrift = errors.New("the inputs are not what the lock says")

// Options of a plan or a build.
type Options struct {
	// Appliance says what to build.
	Appliance spec.Appliance
	// Out is the folder to make. It must not exist, or be empty.
	Out string
	// From are what nodes have, each with one of them, for a delta: folders of
	// appliances or of deltas, ISOs, locks.
	From []string
	// Access is how registries are reached.
	Access storage.Access
	// Lock of an earlier build: tags that it knows are not resolved again.
	Lock pinset.Lock
	// Locked refuses to make anything but what the lock says.
	Locked bool
	// NodeBinary is the pinbox-node to use where the appliance names none.
	NodeBinary string
	// Cache keeps what is made of layers; the zero value keeps nothing.
	Cache Cache
	// ModTime stamps the files that are no image's own; zero means the time of
	// the newest image.
	ModTime time.Time
	// Hooks tell how far the work is.
	Hooks progress.Hooks
}

func (o *Options) validate() error {
	if err := o.Appliance.Validate(); err != nil {
		return fmt.Errorf("%w: %w", spec.ErrAppliance, err)
	}
	return nil
}

// Result is what was built.
type Result struct {
	Name     string          `json:"name"`
	Platform pinset.Platform `json:"platform"`
	Out      string          `json:"out"`
	Totals   pinset.Totals   `json:"totals"`
	// Store is the store's name in the folder, StoreSize its size in bytes.
	Store     string `json:"store"`
	StoreSize int64  `json:"storeSize"`
	// Format of the store.
	Format format.Description `json:"-"`
	// NodeStore is where the node wants the store: a path or a partition.
	NodeStore string `json:"nodeStore"`
	// StoreDigest is the SHA-256 of the store's file, "" of a folder.
	StoreDigest string   `json:"storeDigest,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
	// ISO is the file of the live ISO, if one was made.
	ISO string `json:"iso,omitempty"`
	// Medium is the label of the medium that the store comes on, if that is another.
	Medium string `json:"medium,omitempty"`
	// Installs is the disk that the ISO installs to, if it does.
	Installs string `json:"installs,omitempty"`
	// Seconds that the build took.
	Seconds float64 `json:"seconds"`
}

// Build makes the appliance's folder: it appears complete, or not at all.
func Build(ctx context.Context, o Options) (Result, error) {
	started := time.Now()
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	if err := o.writable(); err != nil {
		return Result{}, err
	}
	program, err := openNodeBinary(o)
	if err != nil {
		return Result{}, err
	}
	defer program.Close()
	p, err := run(ctx, o, recipe{program: program})
	if err != nil {
		return Result{}, err
	}
	s := o.Appliance.Spec
	r := Result{
		Name: o.Appliance.Metadata.Name, Platform: p.lock.Platform, Out: filepath.Clean(o.Out), Totals: p.lock.Totals(),
		Store: p.store.Name, StoreSize: p.store.Size, StoreDigest: p.store.Digest(), Format: o.format().Describe(),
		NodeStore: s.Config(nil, nil).Store.NodePath(), Installs: s.ISO.InstallDevice, Medium: s.Node.Store.VolumeLabel,
		Warnings: p.warnings, Seconds: time.Since(started).Seconds(),
	}
	if s.ISO.Base != "" {
		r.ISO = filepath.Join(o.Out, artifact.ISOFile)
	}
	return r, nil
}

// Plan says what a build would make, and writes nothing.
func Plan(ctx context.Context, o Options) (pinset.Lock, []string, error) {
	if err := o.validate(); err != nil {
		return pinset.Lock{}, nil, err
	}
	if o.Appliance.Spec.Node.Binary != "" { // a build would want it
		binary, err := openNodeBinary(o)
		if err != nil {
			return pinset.Lock{}, nil, err
		}
		if err := binary.Close(); err != nil {
			return pinset.Lock{}, nil, err
		}
	}
	d, err := decide(ctx, o)
	if err != nil {
		return pinset.Lock{}, nil, err
	}
	defer d.Close()
	return makeLock(o.Appliance.Spec.Platform, d.sets, d.images), append(d.warnings, d.config.Warnings()...), nil
}

// format is that of the store, which the appliance was validated with.
func (o Options) format() format.Format { return format.Of(o.Appliance.Spec.Store.Format) }

// writable returns an error if this process may not write the store's format.
func (o Options) writable() error {
	if check := o.format().Describe().Writable; check != nil {
		return check()
	}
	return nil
}

// limitation returns a warning if the store that this process writes is of limited use, else "".
func (o Options) limitation() string {
	if warning := o.format().Describe().Limitation; warning != nil {
		return warning()
	}
	return ""
}
