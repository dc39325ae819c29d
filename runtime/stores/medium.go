package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// findMedium mounts the medium that has the store, whatever device it is now.
func (k Keeper) findMedium(ctx context.Context, o Store) error {
	where := k.medium(o)
	at, err := mounts()
	if err != nil {
		return err
	}
	if at[where] > 0 && present(where) && on(where, o) {
		return nil
	}
	devices, err := discs()
	if err != nil {
		return err
	}
	for _, device := range devices {
		if err := mountMedium(ctx, device, where); err != nil {
			continue // it cannot be read
		}
		if on(where, o) {
			return nil
		}
		if err := unmountAll(ctx, Direct{}, where); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: no medium that has it is plugged in", ErrLost)
}

// on says whether a medium has a store.
func on(where string, o Store) bool {
	var s source
	return s.at(filepath.Join(where, o.Place), "") == nil && s.id == o.ID
}

// discs are the block devices with the file system of a CD: ECMA-119, 8.4.
func discs() (found []string, err error) {
	devices, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		device := filepath.Join("/dev", strings.ReplaceAll(d.Name(), "!", "/"))
		if isDisc(device) {
			found = append(found, device)
		}
	}
	return found, nil
}

func isDisc(device string) bool {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 5)
	_, err = f.ReadAt(magic, 16*2048+1)
	return err == nil && string(magic) == "CD001"
}

// present says whether the device of a medium that is mounted is still there.
func present(where string) bool {
	var st unix.Stat_t
	if unix.Stat(where, &st) != nil {
		return false
	}
	size, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/size", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return false
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(size)), 10, 64)
	return err == nil && sectors > 0
}

// sweepMedia takes away media that no store is used from.
func (k Keeper) sweepMedia(s State) error {
	entries, err := os.ReadDir(k.Media)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	used := map[string]bool{}
	for _, o := range s.Stores {
		used[k.medium(o)] = o.Medium
	}
	for _, e := range entries {
		where := filepath.Join(k.Media, e.Name())
		if !used[where] {
			err = errors.Join(err, unmountAll(context.Background(), Direct{}, where), os.Remove(where))
		}
	}
	return err
}
