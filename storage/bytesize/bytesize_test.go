package bytesize

import "testing"

func TestFormat(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1 MiB",
		5977000:  "5.7 MiB",
		16 << 30: "16 GiB", 3 << 40: "3 TiB", 5000 << 40: "5000 TiB",
	} {
		if got := Format(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1048576": 1 << 20, "1Ki": 1024, "512Mi": 512 << 20, "50GiB": 50 << 30, "2Ti": 2 << 40,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: got %d and %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "much", "-1", "-1Gi", "1.5Gi", "16GB", "16G", "1B", "Gi", "99999999999999Ti"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}
