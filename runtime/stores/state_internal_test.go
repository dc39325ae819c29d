package stores

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// A store that was attached before is known by its own digest, also once it was compacted.
func TestKnownStores(t *testing.T) {
	gone, compacted, plain := digest.FromString("gone"), digest.FromString("compacted"), digest.FromString("plain")
	small := pinset.ReleaseID{Name: "small", Number: 7}
	s := State{
		Stores: []Store{{ID: plain, ReleaseID: small}, {ID: digest.FromString("all")}},
		Releases: []Release{
			{ID: gone, Store: gone}, {ID: compacted, Store: digest.FromString("all"), ReleaseID: small},
		},
	}
	for name, test := range map[string]struct {
		id   digest.Digest
		want *Release
	}{
		"without sets": {plain, &Release{ID: plain, Store: plain, ReleaseID: small}},
		"compacted":    {compacted, &s.Releases[1]},
		"removed":      {gone, nil},
		"new":          {digest.FromString("new"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.known(test.id); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// A store goes with its releases, except the current one.
func TestDropStore(t *testing.T) {
	one, two := digest.FromString("one"), digest.FromString("two")
	s := State{
		Stores: []Store{{ID: one}, {ID: two}}, Current: two,
		Releases: []Release{{ID: one, Store: one}, {ID: two, Store: two}},
	}
	s.drop(one)
	s.drop(one)
	want := State{
		Stores: []Store{{ID: two}}, Current: two, Releases: []Release{{ID: two, Store: two}}, Removed: []digest.Digest{one},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
	if s.drop(two); len(s.Releases) != 1 {
		t.Errorf("got the releases %+v, want the current one", s.Releases)
	}
}

// The current release is the first one; the one before it is the next one after a rollback.
func TestStandings(t *testing.T) {
	own := Release{ReleaseID: pinset.ReleaseID{Number: 1}}
	a := Release{ID: "a", ReleaseID: pinset.ReleaseID{Number: 2}, Attached: time.Unix(2, 0)}
	b := Release{ID: "b", ReleaseID: pinset.ReleaseID{Number: 3}, Attached: time.Unix(3, 0)}
	noNumber := Release{ID: "b", Attached: b.Attached}
	for name, c := range map[string]struct {
		s    State
		want string
	}{
		"nothing attached":       {State{}, ""},
		"attached":               {State{Releases: []Release{own, a}, Current: "a"}, "2 current, 1 previous"},
		"two":                    {State{Releases: []Release{own, a, b}, Current: "b"}, "3 current, 2 previous, 1 kept"},
		"rolled back":            {State{Releases: []Release{own, b, a}, Current: "a"}, "2 current, 3 next, 1 kept"},
		"without numbers":        {State{Releases: []Release{noNumber, a}, Current: "a"}, "2 current, 0 next"},
		"rolled back to the own": {State{Releases: []Release{a, own}}, "1 current, 2 next"},
	} {
		releases, standings := c.s.Standings()
		var got []string
		for i, r := range releases {
			got = append(got, fmt.Sprint(r.Number, " ", standings[i]))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
