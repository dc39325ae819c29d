package compose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/vbatts/tar-split/tar/storage"

	"github.com/pinbox/pinbox/fixtures/sample"
)

// The entries of a tar-split file count up; what lies between two contents is one segment.
func TestTarSplitEntries(t *testing.T) {
	for name, test := range map[string]struct {
		entries []sample.Entry
		want    []string
	}{
		"no files":    {[]sample.Entry{d("a"), f("b", ""), d("c")}, []string{"0 segment"}},
		"one file":    {[]sample.Entry{d("a"), f("b", "x")}, []string{"0 segment", "1 b", "2 segment"}},
		"two files":   {[]sample.Entry{f("a", "x"), f("b", "y")}, []string{"0 segment", "1 a", "2 segment", "3 b", "4 segment"}},
		"empty layer": {nil, []string{"0 segment"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, record, err := unpack(t, tarOf(t, test.entries))
			if err != nil {
				t.Fatal(err)
			}
			zip, err := gzip.NewReader(bytes.NewReader(record))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for lines := json.NewDecoder(zip); ; {
				var e storage.Entry
				if err := lines.Decode(&e); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				kind := e.GetName()
				if e.Type == storage.SegmentType {
					kind = "segment"
				}
				got = append(got, fmt.Sprintf("%d %s", e.Position, kind))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
