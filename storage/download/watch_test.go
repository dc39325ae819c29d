package download_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/pinbox/pinbox/storage/download"
)

// The library sleeps for longer each time when it is told to slow down. A bug was that a build with a short limit took
// such a sleep for a connection that had stalled, and began all anew.
func TestSleepOfTheLibraryIsNoStall(t *testing.T) {
	stalled := fmt.Errorf("%w: after 5s", download.ErrStalled)
	for _, test := range []struct {
		requests []string
		err      error
		want     error
	}{
		{[]string{"/v2/", "/v2/x/manifests/a"}, stalled, stalled},
		{[]string{"/v2/", "/v2/x/manifests/a", "/v2/x/manifests/a"}, stalled, download.ErrBusy},
		{[]string{"/v2/x/manifests/a", "/v2/x/manifests/a"}, download.ErrFails, download.ErrFails},
	} {
		r := download.NewPatience(1, nil).Host("registry.lan").Repeated()
		for _, path := range test.requests {
			r.See(&url.URL{Scheme: "https", Host: "registry.lan", Path: path})
		}
		if got := r.Busy(test.err); got != test.want { //nolint:errorlint // this very one
			t.Errorf("%v, %v: got %v, want %v", test.requests, test.err, got, test.want)
		}
	}
}
