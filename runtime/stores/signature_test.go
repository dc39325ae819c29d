package stores_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
)

// sign signs a store with a new key and returns the public key.
func sign(t *testing.T, store string, armoured bool) (key []byte) {
	t.Helper()
	entity, err := openpgp.NewEntity("site", "", "site@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var sig, pub bytes.Buffer
	name, by := store+".sig", openpgp.DetachSign
	if armoured {
		name, by = store+".asc", openpgp.ArmoredDetachSign
	}
	if err := by(&sig, entity, f, nil); err != nil {
		t.Fatal(err)
	}
	w, err := armor.Encode(&pub, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{entity.Serialize(w), w.Close(), os.WriteFile(name, sig.Bytes(), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return pub.Bytes()
}

// A node with keys attaches only stores that are signed with one of them.
func TestSignatures(t *testing.T) {
	s := newSystem(t, 2)
	s.mustRun("firstboot")
	keys := filepath.Join(s.Root, "etc/pinbox/keys.d")
	if err := os.MkdirAll(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	signed := ""
	for _, armoured := range []bool{false, true} {
		signed = copyStore(t, s.stores[1])
		other := copyStore(t, s.stores[1])
		key := sign(t, filepath.Join(signed, artifact.DeltaStoreFile), armoured)
		sign(t, filepath.Join(other, artifact.DeltaStoreFile), armoured)
		if err := os.WriteFile(filepath.Join(keys, "site.asc"), key, 0o644); err != nil {
			t.Fatal(err)
		}
		s.wantExit(4, "the store has no signature, and this node requires one", "attach", s.stores[1])
		s.wantExit(4, "the signature of the store is not valid", "attach", other)
		s.wantExit(3, "cannot use a store in place", "attach", signed, "--in-place")
		s.wantPinned(0)
		if _, err := verify.Artifact(t.Context(), signed, progress.Hooks{}); err != nil {
			t.Error(err)
		}
		s.wantExit(4, "the signature of the store is not valid", "attach", newLoopDevice(t, other))
		s.mustRun("attach", newLoopDevice(t, signed))
		s.wantPinned(1)
		s.mustRun("rollback")
		s.mustRun("detach", "1")
	}
	if err := os.Remove(filepath.Join(keys, "site.asc")); err != nil {
		t.Fatal(err)
	}
	if out := s.mustRun("attach", signed).Out; !strings.Contains(out, "its signature was not checked") {
		t.Errorf("without keys: got %s, want that the signature was not checked", out)
	}
}
