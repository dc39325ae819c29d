package iso

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Info is what an image says of itself.
type Info struct {
	Label string `json:"label"`
	// Size in bytes.
	Size int64 `json:"size"`
	// Ignition is where the config goes, and what is there.
	Ignition struct {
		Offset  int64        `json:"offset"`
		Length  int64        `json:"length"`
		Members []InfoMember `json:"members"`
	} `json:"ignition"`
	// Kargs are the kernel arguments; nil if they cannot be changed.
	Kargs *InfoKargs `json:"kargs,omitempty"`
	// Features that coreos-installer relies on.
	Features json.RawMessage `json:"features,omitempty"`
	// Added are the files that pinbox added.
	Added []InfoMember `json:"added,omitempty"`
}

// InfoMember is a file by its name and its size in bytes.
type InfoMember struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// InfoKargs are kernel arguments as they were and as they are.
type InfoKargs struct {
	Default string `json:"default"`
	Current string `json:"current"`
}

// OpenFile opens an image. The caller closes the file.
func OpenFile(name string) (*Image, *os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	i, err := Open(f, fi.Size())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return i, f, nil
}

// Info tells what there is to tell.
func (i *Image) Info() (info Info, err error) {
	info.Label, info.Size = i.Label, i.size
	area, err := i.IgnitionArea()
	if err != nil {
		return info, err
	}
	info.Ignition.Offset, info.Ignition.Length, info.Ignition.Members = area.Offset, area.Length, []InfoMember{}
	members, err := i.Members()
	if err != nil {
		return info, err
	}
	for _, m := range members {
		info.Ignition.Members = append(info.Ignition.Members, InfoMember{m.Name, int64(len(m.Content))})
	}
	k, err := i.Kargs()
	switch {
	case err == nil:
		info.Kargs = &InfoKargs{k.Default, k.Current}
	case !errors.Is(err, ErrNoKargs):
		return info, err
	}
	if info.Features, _, err = i.features(); err != nil {
		return info, err
	}
	info.Added, err = i.added()
	return info, err
}

// added lists the files of Dir.
func (i *Image) added() (all []InfoMember, err error) {
	v := i.primary
	if i.joliet != nil {
		v = *i.joliet
	}
	root, err := i.list(v.root, v.joliet)
	if err != nil {
		return nil, err
	}
	for _, dir := range root {
		if !dir.named(Dir, v.joliet) || !dir.isDir() {
			continue
		}
		records, err := i.list(dir, v.joliet)
		if err != nil {
			return nil, err
		}
		for _, r := range records[min(2, len(records)):] {
			name := r.display(v.joliet)
			if n := len(all); n > 0 && all[n-1].Name == name {
				all[n-1].Size += int64(r.size)
				continue
			}
			all = append(all, InfoMember{name, int64(r.size)})
		}
	}
	return all, nil
}
