package wanted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// firstRead is how far back the first reading of a log goes.
const firstRead = 24 * time.Hour

// The most that is read of a log at once, the newest part: an image that is still missed is asked for again.
const (
	maxLines = 100_000
	maxBytes = 16 << 20 // of a file
)

// Load reads a record. Without one, with one that cannot be read, and after the clock was set back, it begins anew.
func Load(path string, now time.Time) Record {
	none := Record{Version: Version, Read: now.Add(-firstRead)}
	f, err := input.Open(path)
	if err != nil {
		return none
	}
	defer f.Close()
	var r Record
	if err := pinset.Decode(f, Version, &r); err != nil || Check(r.Images) != nil {
		return none
	}
	if r.Read.After(now) {
		r.Read = now
	}
	return r
}

// Save writes the record, for root alone. It makes no file as long as there is nothing to record.
func (r Record) Save(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && len(r.Images) == 0 {
		return nil
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		_, err = atomicfile.Write(path, append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the images that pods wanted: %w", err)
	}
	return nil
}

// ReadJournal adds what units have logged since the last reading.
func (r *Record) ReadJournal(ctx context.Context, units ...string) error {
	args := []string{
		"--since=@" + strconv.FormatInt(r.Read.Unix(), 10), "--lines=" + strconv.Itoa(maxLines),
		"--output=short-unix", "--no-pager", "--quiet",
	}
	for _, unit := range units {
		args = append(args, "--unit="+unit)
	}
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	log, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	err = r.Scan(log)
	return errors.Join(err, cmd.Wait())
}

// ReadFile adds what the end of a log file has since the last reading.
func (r *Record) ReadFile(path string) error {
	f, err := input.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > maxBytes {
		if _, err := f.Seek(-maxBytes, io.SeekEnd); err != nil {
			return err
		}
	}
	return r.Scan(io.LimitReader(f, maxBytes))
}
