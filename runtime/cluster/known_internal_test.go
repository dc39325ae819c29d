package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pinbox/pinbox/storage/pinset"
)

// parse reads sets as "name:uid:generation:resourceVersion", and "!" after those that are kept. The letter of the UID is
// when the set was made.
func parse(t *testing.T, text string) (sets []Set) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		var s Set
		field, kept := strings.CutSuffix(field, "!")
		parts := strings.Split(field, ":")
		s.Created = time.Unix(int64(parts[1][0]), 0)
		s.Name, s.UID, s.ResourceVersion = parts[0], parts[1], parts[3]
		if _, err := fmt.Sscan(parts[2], &s.Generation); err != nil {
			t.Fatal(err)
		}
		if kept {
			s.KeptSince = time.Unix(1, 0)
		}
		sets = append(sets, s)
	}
	return sets
}

func format(sets []Set) string {
	var fields []string
	for _, s := range sets {
		field := fmt.Sprintf("%s:%s:%d:%s", s.Name, s.UID, s.Generation, s.ResourceVersion)
		if s.kept() {
			field += "!"
		}
		fields = append(fields, field)
	}
	return strings.Join(fields, " ")
}

// What a list says of the sets that are known at the resource version 100.
func TestList(t *testing.T) {
	for name, test := range map[string]struct {
		known, list, version string
		want, deleted        string
	}{
		"nothing changed":      {"a:u:1:50", "a:u:1:50", "101", "a:u:1:50", ""},
		"changed":              {"a:u:1:50", "a:u:2:101", "101", "a:u:2:101", ""},
		"more":                 {"b:u:1:50", "a:v:1:101 b:u:1:50", "101", "a:v:1:101 b:u:1:50", ""},
		"deleted":              {"a:u:1:50 b:u:1:51", "b:u:1:51", "101", "a:u:1:50 b:u:1:51", "a"},
		"deleted and made new": {"a:u:7:50", "a:v:1:101", "101", "a:v:1:101", ""},
		"all deleted":          {"a:u:1:50", "", "101", "a:u:1:50", "a"},
		"the same version":     {"a:u:1:50", "", "100", "a:u:1:50", "a"},

		"restored, as it was":          {"a:u:1:50", "a:u:1:50", "80", "a:u:1:50", ""},
		"restored, missing":            {"a:u:1:90", "", "80", "a:u:1:!", ""},
		"restored, older":              {"a:u:3:90", "a:u:2:70", "80", "a:u:3:70!", ""},
		"restored, before it was made": {"a:v:1:90", "a:u:9:70", "80", "a:v:1:70!", ""},
		"restored, made new since":     {"a:u:9:90", "a:v:1:79", "80", "a:v:1:79", ""},
		"restored, one that was gone":  {"a:u:1:50", "a:u:1:50 b:u:1:60", "80", "a:u:1:50 b:u:1:60", ""},
		"restored by a bumped version": {"a:u:3:90", "a:u:2:70", "1000000080", "a:u:3:70!", ""},

		"kept, missing still":         {"a:u:1:!", "", "101", "a:u:1:!", ""},
		"kept, missing, restored":     {"a:u:1:!", "", "80", "a:u:1:!", ""},
		"kept, made new":              {"a:u:3:!", "a:v:1:101", "101", "a:v:1:101", ""},
		"kept, there again":           {"a:u:3:!", "a:u:3:50", "101", "a:u:3:50", ""},
		"kept, there again but older": {"a:u:3:!", "a:u:2:40", "101", "a:u:3:40!", ""},
		"kept, older still":           {"a:u:3:70!", "a:u:2:70", "101", "a:u:3:70!", ""},
		"kept, changed since":         {"a:u:3:70!", "a:u:3:101", "101", "a:u:3:101", ""},
		"kept, older, changed since":  {"a:u:9:70!", "a:u:3:101", "101", "a:u:3:101", ""},
		"kept, older, then deleted":   {"a:u:3:70!", "", "101", "a:u:3:70!", "a"},
		"kept, older, restored again": {"a:u:3:70!", "", "60", "a:u:3:!", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := Known{ResourceVersion: "100", Sets: parse(t, test.known)}
			deleted := k.list(parse(t, test.list), test.version, time.Unix(2, 0))
			if got := format(k.Sets); got != test.want || strings.Join(deleted, " ") != test.deleted {
				t.Errorf("got %s, deleted %v, want %s, %s", got, deleted, test.want, test.deleted)
			}
			if k.ResourceVersion != test.version {
				t.Errorf("got the version %s, want %s", k.ResourceVersion, test.version)
			}
		})
	}
}

// The state says since when; a second failure is of the same time.
func TestStates(t *testing.T) {
	k := Known{Sets: parse(t, "a:u:1:50 b:u:1:60")}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	k.answered(at(1))
	k.failed("refused", at(2))
	k.failed("reset", at(3))
	if k.State != Unreachable || !k.Since.Equal(at(2)) || k.Reason != "refused" || len(k.Kept()) > 0 {
		t.Errorf("got %+v, want unreachable since the first failure, and no set kept", k)
	}
	k.lost("gone", at(4))
	k.lost("gone", at(5))
	if k.State != NotServed || !k.Since.Equal(at(4)) || format(k.Sets) != "a:u:1:! b:u:1:!" || !k.Sets[0].KeptSince.Equal(at(4)) {
		t.Errorf("got %+v, want all sets kept since the first time", k)
	}
	k.put(parse(t, "b:v:1:70")[0])
	k.answered(at(6))
	k.remove("a")
	if k.State != Current || !k.Since.Equal(at(6)) || k.Reason != "" || format(k.Sets) != "b:v:1:70" {
		t.Errorf("got %+v, want the set of the API alone", k)
	}
}

// A set of the API names a store in an annotation.
func TestStoreOfASet(t *testing.T) {
	u := unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": "s", "generation": int64(6), "annotations": map[string]any{pinset.StoreAnnotation: "https://a/b/1"},
		},
		"spec": map[string]any{"pinnedImages": []any{map[string]any{
			"name": "quay.io/x/app@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea",
		}}},
	}}
	s, err := object(&u)
	if err != nil {
		t.Fatal(err)
	}
	k := Known{Sets: []Set{s}}
	sets, errs := k.Decode()
	if len(errs) > 0 || len(sets) != 1 || sets[0].Store != "https://a/b/1" {
		t.Errorf("got %+v, %v, want the store", sets, errs)
	}
}
