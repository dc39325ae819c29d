package builder

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestClockOfARegistry(t *testing.T) {
	for name, test := range map[string]struct {
		date func(now time.Time) string
		want time.Duration
	}{
		"the same":         {func(now time.Time) string { return now.Format(http.TimeFormat) }, 0},
		"ahead":            {func(now time.Time) string { return now.Add(time.Hour).Format(http.TimeFormat) }, time.Hour},
		"behind":           {func(now time.Time) string { return now.Add(-time.Hour).Format(http.TimeFormat) }, -time.Hour},
		"it does not say":  {func(time.Time) string { return "" }, 0},
		"it says nonsense": {func(time.Time) string { return "yesterday" }, 0},
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", test.date(time.Now().UTC()))
		}))
		got := clockOf(t.Context(), server.Client().Transport, strings.TrimPrefix(server.URL, "https://"))
		server.Close()
		if (got - test.want).Abs() > maxClock { // the test may be slow, but not by an hour
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
