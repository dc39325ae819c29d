package inspect_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

// labels of an image, one of which would be a script if a page took it for HTML.
var labels = map[string]string{
	"org.opencontainers.image.version": "1.2.3", "vendor": "<script>document.title='owned'</script>",
}

// pushLabelled pushes an image with the labels.
func pushLabelled(t *testing.T, r *sample.Registry, name string) (pin string) {
	t.Helper()
	layer, err := sample.TarLayer(sample.File("name", name))
	if err != nil {
		t.Fatal(err)
	}
	img, err := sample.Image("amd64", false, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Config.Labels = labels
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}
	if pin, err = r.Push(t.Context(), name, img); err != nil {
		t.Fatal(err)
	}
	return pin
}

// signedImages are one with a signature of sigstore in the registry, one with one of OpenPGP in a folder, and one
// without. registriesD says where they are, and key is the ID of the OpenPGP key.
func signedImages(t *testing.T) (pins []string, registriesD, key string) {
	t.Helper()
	r, _ := appliance.Registry(t)
	pins = []string{pushLabelled(t, r, "a/sigstore"), pushLabelled(t, r, "b/simple"), pushLabelled(t, r, "c/none")}
	if _, err := r.Cosign(t.Context(), pins[0]); err != nil {
		t.Fatal(err)
	}
	signer, err := openpgp.NewEntity("site", "", "site@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	name, digest, _ := strings.Cut(pins[1], "@")
	var text bytes.Buffer
	w, err := openpgp.Sign(&text, signer, nil, nil)
	if err == nil { // it names another image
		_, err = fmt.Fprintf(w, `{"critical":{"type":"atomic container signature",`+
			`"image":{"docker-manifest-digest":"sha256:%s"},"identity":{"docker-reference":%q}},"optional":{}}`,
			strings.Repeat("a", 64), name)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lookaside := filepath.Join(dir, "lookaside/b", "simple@sha256="+strings.TrimPrefix(digest, "sha256:"))
	registriesD = filepath.Join(dir, "registries.d")
	write(t, filepath.Join(lookaside, "signature-1"), text.String())
	write(t, filepath.Join(registriesD, "all.yaml"),
		"default-docker:\n  lookaside: file://"+dir+"/lookaside\n  use-sigstore-attachments: true\n")
	return pins, registriesD, signer.PrimaryKey.KeyIdString()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// signedOptions are those of a build of signed images, whose sums and store are signed with a new key.
func signedOptions(t *testing.T) (o builder.Options, publicKey, imageKey string) {
	t.Helper()
	pins, registriesD, imageKey := signedImages(t)
	o = appliance.Options(t, sample.SetNamed("s", pins...))
	o.Access.RegistriesDir = registriesD
	secret, publicKey := fixtures.Key(t)
	var err error
	if o.Signer, err = signature.ReadSigner(secret, nil); err != nil {
		t.Fatal(err)
	}
	return o, publicKey, imageKey
}

func readInventory(t *testing.T, name string, o inspect.Options) inspect.Inventory {
	t.Helper()
	r, err := release.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	report, err := inspect.Read(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	return report.Inventory
}

// document returns a document by its name.
func document(t *testing.T, v inspect.Inventory, name string) inspect.Document {
	t.Helper()
	i := slices.IndexFunc(v.Documents, func(d inspect.Document) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("got no %s among %v, want it", name, v.Documents)
	}
	return v.Documents[i]
}

// The inventory has each image with its date, labels and signatures, and each document with what is known of its
// signature: verified is only what was verified.
func TestInventory(t *testing.T) {
	o, publicKey, imageKey := signedOptions(t)
	appliance.Build(t, o)
	t.Run("images", func(t *testing.T) { checkImages(t, o.Out, imageKey) })
	t.Run("without keys", func(t *testing.T) {
		for _, d := range readInventory(t, o.Out, inspect.Options{}).Documents {
			if d.Check != inspect.NotChecked || strings.Contains(d.Signed(), "verified") {
				t.Errorf("%s: got the signature %q, want it not checked", d.Name, d.Signed())
			}
		}
	})
	t.Run("with keys", func(t *testing.T) { checkVerified(t, o.Out, publicKey) })
	t.Run("lock", func(t *testing.T) {
		v := readInventory(t, filepath.Join(o.Out, layout.LockFile), inspect.Options{})
		if img := v.Images[0]; img.Check != inspect.Unread || !img.Created.IsZero() || len(v.Unread) != 1 {
			t.Errorf("got %+v and %v of a lock, want that its signatures were not read, and why", img, v.Unread)
		}
	})
	t.Run("changed documents", func(t *testing.T) { checkChanged(t, o.Out) })
}

func checkImages(t *testing.T, dir, key string) {
	t.Helper()
	report := readPath(t, dir)
	v := report.Inventory
	if len(v.Images) != 3 || len(v.Unread) > 0 {
		t.Fatalf("got %d images and %v that could not be read, want 3 and nothing", len(v.Images), v.Unread)
	}
	for i, want := range []struct {
		name, form, signed string
		other              bool
	}{
		{"sigstore", "sigstore", "sigstore: not checked", false}, {"simple", "OpenPGP", "OpenPGP: not checked", true},
		{name: "none", signed: "none"},
	} {
		img := v.Images[i]
		if img.Name != want.name || img.Platform != "linux/amd64" || img.Created.IsZero() ||
			img.Labels["vendor"] != labels["vendor"] || img.Layers != 1 || img.Size == 0 || img.Signed() != want.signed {
			t.Errorf("got %+v, want the image %s with its date, labels, layers and the signature %q", img, want.name, want.signed)
		}
		if want.form == "" {
			continue
		}
		if len(img.Signatures) != 1 || img.Signatures[0].Form != want.form || img.Signatures[0].Other != want.other {
			t.Errorf("%s: got the signatures %+v, want one of %s", img.Name, img.Signatures, want.form)
		}
	}
	if got := v.Images[1].Signatures[0].Keys; len(got) != 1 || got[0] != key {
		t.Errorf("got the keys %v, want %s", got, key)
	}
	var text bytes.Buffer
	if err := report.HTML(&text, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"vendor &lt;script&gt;", "this is another image", "a/sigstore", key} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got no %q on the page, want it", want)
		}
	}
	if strings.Contains(text.String(), labels["vendor"]) || strings.Contains(text.String(), ">verified<") {
		t.Errorf("got a label as HTML, or a signature that is verified:\n%s", text.String())
	}
}

func checkVerified(t *testing.T, dir, publicKey string) {
	t.Helper()
	keys, err := signature.ReadKeys(publicKey)
	if err != nil {
		t.Fatal(err)
	}
	r, err := release.Open(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	good, err := verify.Signatures(t.Context(), r, keys, progress.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	v := readInventory(t, dir, inspect.Options{Keys: publicKey, Good: good})
	for _, d := range v.Documents {
		if d.Check != inspect.Verified {
			t.Errorf("%s: got the signature %q, want it verified", d.Name, d.Signed())
		}
	}
	store := document(t, v, layout.StoreFile)
	if len(store.Signatures) != 1 || store.Sums != inspect.Same || store.Size == 0 {
		t.Errorf("got %+v, want a store as in the sums with a signature", store)
	}
	for _, img := range v.Images {
		if img.Check == inspect.Verified {
			t.Errorf("got %s verified, want it not: the keys are for documents", img.Pin)
		}
	}
}

// What the sums do not list, or list otherwise, is not covered by their signature.
func checkChanged(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "notes.txt"), "new")
	write(t, filepath.Join(dir, artifact.ButaneFile), "changed")
	if err := os.Remove(filepath.Join(dir, artifact.AllowlistFile)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, layout.StoreFile+".sig"), "no signature")
	v := readInventory(t, dir, inspect.Options{Keys: "site.pub", Good: []string{layout.SumsFile}})
	for name, want := range map[string]inspect.Sums{
		"notes.txt": inspect.Unlisted, artifact.ButaneFile: inspect.Differs, artifact.AllowlistFile: inspect.Missing,
	} {
		if d := document(t, v, name); d.Sums != want || d.Check != inspect.Unsigned {
			t.Errorf("%s: got %q and the signature %q, want %q and none", name, d.Sums, d.Signed(), want)
		}
	}
	if d := document(t, v, layout.StoreFile); d.Signatures[0].Problem == "" ||
		d.Signatures[0].Check == inspect.Verified {
		t.Errorf("got %+v, want that the signature cannot be read", d.Signatures[0])
	}
}

// The store of format dir is one document, and its records are read in place.
func TestInventoryOfAFolderStore(t *testing.T) {
	fixtures.NeedRoot(t)
	r, _ := appliance.Registry(t)
	o := appliance.Options(t, sample.SetNamed("s", pushLabelled(t, r, "a/b")))
	o.Appliance.Spec.Store.Format = format.Dir
	o.Appliance.Spec.Node.Store.Path = filepath.Join(o.Out, layout.StoreDir)
	appliance.Build(t, o)
	v := readInventory(t, o.Out, inspect.Options{})
	store := document(t, v, layout.StoreDir)
	if store.Files < 5 || store.Kind != "store" || store.Check != inspect.Unsigned || v.Images[0].Created.IsZero() {
		t.Errorf("got %+v and %+v, want a store of several files, and the date of the image", store, v.Images[0])
	}
	if len(v.Documents) > 13 {
		t.Errorf("got %d documents, want the store to be one: %v", len(v.Documents), v.Documents)
	}
}
