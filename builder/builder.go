package builder

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
)

// ErrDrift says that the inputs differ from the lock of a locked build.
var ErrDrift = fault.New(fault.Damaged, "the inputs differ from the lock",
	"`pinbox lock` locks the present inputs; without --locked, the lock only fixes tags")

// Options are the parameters of a plan or a build.
type Options struct {
	// Appliance says what to build.
	Appliance spec.Appliance
	// Out is the folder to make. It must not exist, or be empty.
	Out string
	// From names the bases of a delta: folders of appliances or of deltas, ISOs, locks. A node has one of them.
	From []string
	// Thin makes a thin delta, for which the bases must have contents.
	Thin bool
	// Access says how to reach registries.
	Access storage.Access
	// Lock of an earlier build: its tags keep their digests.
	Lock pinset.Lock
	// Locked ends the build with ErrDrift if the result would differ from the lock.
	Locked bool
	// NodeBinary is the pinbox-node to use if the appliance names none.
	NodeBinary string
	// Cache keeps packs for later builds; the zero value keeps nothing.
	Cache Cache
	// ModTime is the modification time of files that do not come from an image; zero means the time of the
	// newest image.
	ModTime time.Time
	// Signer signs the sums and the store; the zero value signs nothing.
	Signer signature.Signer
	// Version of pinbox, for the provenance statement; "" if it is unknown.
	Version string
	// Inputs are the flags that name inputs, for the provenance statement.
	Inputs map[string][]string
	// Hooks report progress.
	Hooks progress.Hooks

	// brief means that no more than the lock is wanted.
	brief bool
	// siteBases are the bases of a delta for sites, in place of From.
	siteBases []base.Base
}

func (o *Options) validate() error {
	if err := o.Appliance.Validate(); err != nil {
		return fmt.Errorf("%w: %w", spec.ErrAppliance, err)
	}
	return checkNumber(o.Appliance)
}

// checkNumber checks that the release has a number if the nodes attach releases by themselves.
func checkNumber(a spec.Appliance) error {
	if a.Spec.Node.AutoAttach && a.Metadata.Release == 0 {
		return fmt.Errorf("spec.node.autoAttach: %w", pinset.ErrNoNumber)
	}
	return nil
}

// format returns the format of the store. The appliance must be valid.
func (o Options) format() format.Format {
	if o.Thin {
		return format.OfThin()
	}
	return format.Of(o.Appliance.Spec.Store.Format)
}

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

// Result describes an appliance that was built.
type Result struct {
	pinset.ReleaseID
	Platform pinset.Platform `json:"platform"`
	Out      string          `json:"out"`
	Totals   pinset.Totals   `json:"totals"`
	// Store is the store's name in the folder, StoreSize its size in bytes.
	Store     string `json:"store"`
	StoreSize int64  `json:"storeSize"`
	// Format of the store.
	Format format.Description `json:"-"`
	// NodeStore is the path or the partition where the node expects the store.
	NodeStore string `json:"nodeStore"`
	// StoreDigest is the digest of the store's file; "" if the store is a folder.
	StoreDigest string `json:"storeDigest,omitempty"`
	// StoreRootHash is the root of the store's hash tree; "" if the format has none.
	StoreRootHash string   `json:"storeRootHash,omitempty"`
	Warnings      []string `json:"warnings,omitempty"`
	// Private says that the configs, and the files that carry them, can be read by their owner only, since the
	// configs have a pull secret or Butane files.
	Private bool `json:"private,omitempty"`
	// ISO is the path of the live ISO; "" without one.
	ISO string `json:"iso,omitempty"`
	// Medium is the volume label of a separate medium for the store; "" without one.
	Medium string `json:"medium,omitempty"`
	// StoreURL is where the node fetches the store; "" if it does not.
	StoreURL string `json:"storeURL,omitempty"`
	// Installs is the disk that the ISO installs to; "" if it does not install.
	Installs string `json:"installs,omitempty"`
	// Seconds is the duration of the build.
	Seconds float64 `json:"seconds"`
}

// Build makes the folder of an appliance. The folder appears complete, or not at all.
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
		ReleaseID: p.lock.ReleaseID, Platform: p.lock.Platform, Out: filepath.Clean(o.Out), Totals: p.lock.Totals(),
		Store: p.store.Name, StoreSize: p.store.Size, StoreDigest: p.store.Digest(),
		StoreRootHash: p.store.RootHash(), Format: o.format().Describe(),
		NodeStore: s.Config(nil, nil).Store.NodePath(), Installs: s.ISO.InstallDevice, Medium: s.Node.Store.VolumeLabel,
		StoreURL: s.Node.Store.URL,
		Warnings: p.warnings, Private: p.private, Seconds: time.Since(started).Seconds(),
	}
	if s.ISO.Base != "" {
		r.ISO = filepath.Join(o.Out, artifact.ISOFile)
	}
	return r, nil
}

// Plan returns the lock of the appliance that Build would make, and warnings. It writes nothing.
func Plan(ctx context.Context, o Options) (pinset.Lock, []string, error) {
	if err := o.validate(); err != nil {
		return pinset.Lock{}, nil, err
	}
	if o.Appliance.Spec.Node.Binary != "" { // Build would fail if it cannot be used
		binary, err := openNodeBinary(o)
		if err != nil {
			return pinset.Lock{}, nil, err
		}
		if err := binary.Close(); err != nil {
			return pinset.Lock{}, nil, err
		}
	}
	o.brief = true
	p, err := makePlan(ctx, o, pinset.Program{}, "", storage.PackOptions{})
	if err != nil {
		return pinset.Lock{}, nil, err
	}
	defer p.Close()
	return p.lock(p.Images), p.allWarnings(), nil
}
