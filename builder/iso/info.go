package iso

import (
	"encoding/json"
	"errors"
)

// Info describes an image.
type Info struct {
	Label string `json:"label"`
	// Architecture of the system, as in GOARCH; "" if there is none, or it is unknown.
	Architecture string `json:"architecture,omitempty"`
	// Size in bytes.
	Size int64 `json:"size"`
	// Ignition is the area of the config; nil for a medium without a system.
	Ignition *InfoIgnition `json:"ignition,omitempty"`
	// Kargs are the kernel arguments; nil if they cannot be changed.
	Kargs *InfoKargs `json:"kargs,omitempty"`
	// Features that coreos-installer relies on.
	Features json.RawMessage `json:"features,omitempty"`
	// Installs is the disk that the image installs to unattended, and BaseSHA256 the digest of the
	// image before it was edited. Info leaves both empty: the caller sets them.
	Installs   string `json:"installs,omitempty"`
	BaseSHA256 string `json:"baseSHA256,omitempty"`
	// Appliance and Release name the release of the store, by its lock. The caller sets them.
	Appliance string `json:"appliance,omitempty"`
	Release   int64  `json:"release,omitempty"`
	// StoreRootHash is the root of the store's hash tree as the image names it. The caller sets it.
	StoreRootHash string `json:"storeRootHash,omitempty"`
	// Added are the files that pinbox added.
	Added []InfoMember `json:"added,omitempty"`
}

// InfoIgnition is the Ignition area, in bytes, and its members.
type InfoIgnition struct {
	Offset  int64        `json:"offset"`
	Length  int64        `json:"length"`
	Members []InfoMember `json:"members"`
}

// InfoMember is a file by its name and its size in bytes.
type InfoMember struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 of the file when it was added, "" if unknown.
	SHA256 string `json:"sha256,omitempty"`
}

// InfoKargs are the default and the current kernel arguments.
type InfoKargs struct {
	Default string `json:"default"`
	Current string `json:"current"`
}

// Info describes the image.
func (i *Image) Info() (info Info, err error) {
	info.Label, info.Size = i.Label, i.Size()
	if info.Added, err = i.added(); err != nil {
		return info, err
	}
	info.Ignition, err = i.infoIgnition()
	if errors.Is(err, ErrNoIgnition) && len(info.Added) > 0 {
		return info, nil
	}
	if err != nil {
		return info, err
	}
	info.Architecture = i.Architecture()
	k, err := i.Kargs()
	switch {
	case err == nil:
		info.Kargs = &InfoKargs{k.Default, k.Current}
	case !errors.Is(err, ErrNoKargs):
		return info, err
	}
	info.Features, _, err = i.features()
	return info, err
}

func (i *Image) infoIgnition() (*InfoIgnition, error) {
	area, err := i.IgnitionArea()
	if err != nil {
		return nil, err
	}
	members, err := i.Members()
	if err != nil {
		return nil, err
	}
	info := &InfoIgnition{area.Offset, area.Length, []InfoMember{}}
	for _, m := range members {
		info.Members = append(info.Members, InfoMember{Name: m.Name, Size: int64(len(m.Content))})
	}
	return info, nil
}

// added lists the files of Dir.
func (i *Image) added() (all []InfoMember, err error) {
	root, err := i.ReadDir(i.FileVolume().Root)
	if err != nil {
		return nil, err
	}
	for _, dir := range root {
		if !dir.HasName(Dir) || !dir.IsDir() {
			continue
		}
		records, err := i.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, r := range records[min(2, len(records)):] {
			name := r.DisplayName()
			if n := len(all); n > 0 && all[n-1].Name == name {
				all[n-1].Size += int64(r.Size)
				continue
			}
			all = append(all, InfoMember{Name: name, Size: int64(r.Size)})
		}
	}
	return all, nil
}
