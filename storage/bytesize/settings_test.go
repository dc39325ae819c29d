package bytesize_test

import (
	"testing"

	"github.com/pinbox/pinbox/storage/bytesize"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]bytesize.Rate{
		"0": 0, "1000": 1000, "20MB/s": 20_000_000, "512kB/s": 512_000, "1GB": 1_000_000_000, "20Mi": 20 << 20,
		"20MiB/s": 20 << 20, "1KiB/s": 1024,
	} {
		var got bytesize.Rate
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "fast", "-1", "-1MB/s", "1.5MB/s", "20Mbit/s", "MB/s", "/s", "99999999999999GB/s"} {
		var got bytesize.Rate
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestParseReserve(t *testing.T) {
	for text, want := range map[string]bytesize.Reserve{
		"16Gi": {Bytes: 16 << 30}, "10%": {Percent: 10}, "16Gi,10%": {Bytes: 16 << 30, Percent: 10}, "0": {}, "1048576": {Bytes: 1 << 20},
		"512Mi": {Bytes: 512 << 20},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := bytesize.ParseReserve(text)
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			if again, err := bytesize.ParseReserve(got.String()); err != nil || again != want {
				t.Errorf("from %s: got %+v, %v, want %+v", got, again, err, want)
			}
		})
	}
	for _, text := range []string{"", "ten", "-1", "100%", "-1%", "16GB", "99999999999999Ti", "%"} {
		if r, err := bytesize.ParseReserve(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, r)
		}
	}
}

// The text of a reserve is parsed to the same reserve.
func TestReserveText(t *testing.T) {
	for text, want := range map[string]bytesize.Reserve{
		"0": {}, "0,1%": {Percent: 1}, "1": {Bytes: 1}, "1Gi": {Bytes: 1 << 30}, "1073741825": {Bytes: 1<<30 + 1},
		"16Gi,99%": {Bytes: 16 << 30, Percent: 99},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := want.MarshalText()
			if err != nil || string(got) != text {
				t.Errorf("got %q, %v, want %q", got, err, text)
			}
			var parsed bytesize.Reserve
			if err := parsed.UnmarshalText(got); err != nil || parsed != want {
				t.Errorf("got %+v, %v, want %+v", parsed, err, want)
			}
		})
	}
	for text, ok := range map[string]bool{"0%": true, "99%": true, "-1%": false, "100%": false, "1.5%": false} {
		if _, err := bytesize.ParseReserve(text); (err == nil) != ok {
			t.Errorf("share %s: got %v, want it accepted: %v", text, err, ok)
		}
	}
}
