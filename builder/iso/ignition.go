package iso

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
)

// ErrNoIgnition is returned for an image without an Ignition area, and ErrTooLarge if the area or
// the image is too small.
var (
	ErrNoIgnition = fault.New(fault.Input, "the image has no Ignition area: it is not a CoreOS live ISO",
		"name a CoreOS live ISO; others do not read an Ignition config")
	ErrTooLarge = fault.New(fault.Input, "does not fit",
		"make the Butane config smaller; moving its files into the store was not enough")
)

// Names of the Ignition config in its area, and of the file with the offset of the area:
// coreos-installer, src/live/embed.rs.
const (
	configName  = "config.ign"
	ignInfoName = "coreos/igninfo.json"
	ignitionImg = "images/ignition.img"
)

// The header of images without igninfo.json: magic, offset, length.
const (
	legacyIgnition      = 32744
	legacyIgnitionMagic = "coreiso+"
)

// Area of an image that may be written over.
type Area struct{ Offset, Length int64 }

// IgnitionArea finds the area for the config: by igninfo.json, by the legacy header, or all of
// images/ignition.img.
func (i *Image) IgnitionArea() (Area, error) {
	a, _, err := i.ignitionArea()
	return a, err
}

// ignitionArea also returns the name of the file that is the area and nothing else, in a folder of the root; "" if
// there is none.
func (i *Image) ignitionArea() (a Area, file string, err error) {
	info := struct {
		File           string
		Offset, Length *int64
	}{File: ignitionImg}
	text, err := i.ReadText(ignInfoName)
	switch {
	case errors.Is(err, iso9660.ErrNotFound):
		if a, ok := i.legacyIgnition(); ok {
			return a, "", i.checkArea(a, "legacy header")
		}
	case err != nil:
		return Area{}, "", err
	default:
		if err := json.Unmarshal(text, &info); err != nil {
			return Area{}, "", fmt.Errorf("%s: %w: %w", ignInfoName, iso9660.ErrCorrupt, err)
		}
	}
	f, err := i.Find(info.File)
	if errors.Is(err, iso9660.ErrNotFound) {
		return Area{}, "", ErrNoIgnition
	}
	if err != nil {
		return Area{}, "", err
	}
	a = Area{Offset: 0, Length: f.Size}
	if info.Offset != nil {
		a.Offset, a.Length = *info.Offset, f.Size-*info.Offset
	}
	if info.Length != nil {
		a.Length = *info.Length
	}
	if a.Offset < 0 || a.Length <= 0 || a.Offset+a.Length > f.Size || !f.Contiguous() {
		return a, "", fmt.Errorf("%s: %w: the area from %d, %d bytes long, is not within %s, which has %d",
			ignInfoName, iso9660.ErrCorrupt, a.Offset, a.Length, info.File, f.Size)
	}
	if a.Length > maxArchive {
		return a, "", fmt.Errorf("%s: %w: the area has %d bytes", ignInfoName, iso9660.ErrCorrupt, a.Length)
	}
	if a.Length == f.Size && strings.Count(info.File, "/") == 1 {
		file = info.File
	}
	a.Offset += f.Offset()
	return a, file, i.checkArea(a, ignInfoName)
}

func (i *Image) legacyIgnition() (Area, bool) {
	h := make([]byte, 24)
	if _, err := i.ReadAt(h, legacyIgnition); err != nil || string(h[:8]) != legacyIgnitionMagic {
		return Area{}, false
	}
	return Area{int64(binary.LittleEndian.Uint64(h[8:])), int64(binary.LittleEndian.Uint64(h[16:]))}, true
}

func (i *Image) checkArea(a Area, by string) error {
	if a.Offset < 0 || a.Length < 0 || a.Offset > i.Size() || a.Length > i.Size()-a.Offset {
		return fmt.Errorf("%s: %w: the area from %d, %d bytes long, is not within the image, which has %d",
			by, iso9660.ErrCorrupt, a.Offset, a.Length, i.Size())
	}
	return nil
}

// Members of the Ignition area: the config, and other files such as keyfiles for the network.
func (i *Image) Members() ([]Member, error) {
	a, err := i.IgnitionArea()
	if err != nil {
		return nil, err
	}
	content := make([]byte, a.Length)
	if _, err := i.ReadAt(content, a.Offset); err != nil {
		return nil, err
	}
	return readArchives(content)
}

// Ignition is the config in the image, nil if there is none.
func (i *Image) Ignition() ([]byte, error) {
	members, err := i.Members()
	for _, m := range members {
		if m.Name == configName {
			return m.Content, err
		}
	}
	return nil, err
}

// patch is bytes that replace bytes of the base.
type patch struct {
	offset  int64
	content []byte
}

// embed returns the area with a config, and with all other members. If it is too small and may grow, that is the
// content of its file, which moves, and the patch clears the old one.
func (ed editor) embed(config []byte, grow bool) (p patch, moved movedFile, err error) {
	a, file, err := ed.ignitionArea()
	if err != nil {
		return p, moved, err
	}
	members, err := ed.Members()
	if err != nil {
		return p, moved, err
	}
	members = slices.DeleteFunc(members, func(m Member) bool { return m.Name == configName })
	members = append(members, Member{Name: configName, Mode: modeFile, Content: config})
	packed, err := writeArchive(members)
	if err != nil {
		return p, moved, err
	}
	_, header := ed.legacyIgnition() // which would have another area
	over := int64(len(packed)) - a.Length
	switch {
	case over <= 0:
		return patch{a.Offset, extend(packed, a.Length)}, moved, nil
	case grow && file != "" && !header && len(packed) <= maxArchive-grain:
		larger := extend(packed, int64(len(packed)+grain-1)/grain*grain)
		return patch{a.Offset, make([]byte, a.Length)}, movedFile{file, larger}, nil
	}
	largest := members[0]
	for _, m := range members {
		if len(m.Content) > len(largest.Content) {
			largest = m
		}
	}
	return p, moved, overflow{over,
		fmt.Errorf("the Ignition config %w: compressed, it is %d bytes larger than the area of "+
			"%d; the largest member is %s with %d bytes", ErrTooLarge, over, a.Length, largest.Name, len(largest.Content))}
}

// overflow is an ErrTooLarge of a config.
type overflow struct {
	bytes int64
	error
}

func (o overflow) Unwrap() error { return o.error }

// Overflow returns by how many bytes a config is larger than its area, compressed; 0 if the error does not say it.
func Overflow(err error) int64 {
	if o := (overflow{}); errors.As(err, &o) {
		return o.bytes
	}
	return 0
}

// extend adds zeros to content, up to a size in bytes.
func extend(content []byte, size int64) []byte {
	return append(content, make([]byte, size-int64(len(content)))...)
}
