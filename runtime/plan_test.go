package runtime

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/pinset"
)

// imageOfLayers is an image with these layers, of 100 bytes each. With exact, they are as in a lock,
// with 1000 unpacked bytes and 10 inodes.
func imageOfLayers(name string, exact bool, layers ...string) pinset.LockedImage {
	img := pinset.LockedImage{Pin: image(name).String()}
	for _, l := range layers {
		layer := &pinset.LockedLayer{Digest: digest.FromString("blob " + l), Size: 100}
		if exact {
			layer.DiffID, layer.UnpackedSize, layer.Inodes = digest.FromString("diff "+l), 1000, 10
		}
		img.Layers = append(img.Layers, layer)
	}
	return img
}

func TestPullsNeedOnlyMissingLayers(t *testing.T) {
	for name, test := range map[string]struct {
		missing []pinset.LockedImage
		have    [][]string // chains of unpacked layers
		want    string
	}{
		"no layers": {[]pinset.LockedImage{imageOfLayers("a", true, "1", "2")}, nil, "a 200 2000 20"},
		"one of the layers": {
			[]pinset.LockedImage{imageOfLayers("a", true, "1", "2")}, [][]string{{"1"}}, "a 100 1000 10",
		},
		"all layers": {
			[]pinset.LockedImage{imageOfLayers("a", true, "1", "2")}, [][]string{{"1", "2"}}, "a 0 0 0",
		},
		"a layer over another parent": {
			[]pinset.LockedImage{imageOfLayers("a", true, "1", "2")}, [][]string{{"3", "2"}}, "a 100 2000 20",
		},
		"no lock": {[]pinset.LockedImage{imageOfLayers("a", false, "1", "2")}, nil, "a 200 400 0 estimated"},
		"no lock, one of the layers": {
			[]pinset.LockedImage{imageOfLayers("a", false, "1", "2")}, [][]string{{"1"}}, "a 100 200 0 estimated",
		},
		"shared counts once": {
			[]pinset.LockedImage{imageOfLayers("a", true, "1", "2"), imageOfLayers("b", true, "1", "3")}, nil,
			"a 200 2000 20, b 100 1000 10",
		},
		"smallest first": {
			[]pinset.LockedImage{imageOfLayers("a", true, "1", "2", "3"), imageOfLayers("b", true, "4")}, nil,
			"b 100 1000 10, a 300 3000 30",
		},
		"a release comes first": {
			[]pinset.LockedImage{imageOfLayers("a", true, "1"), imageOfLayers("ocp-release", true, "2", "3")}, nil,
			"ocp-release 200 2000 20, a 100 1000 10",
		},
		"one in a lock, one not": {
			[]pinset.LockedImage{imageOfLayers("a", true, "1"), imageOfLayers("b", false, "1", "2")}, nil,
			"a 100 1000 10, b 100 200 0 estimated",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := pulls(test.missing, unpackedLayers(test.have))
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(all); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// unpackedLayers are the unpacked layers of these chains.
func unpackedLayers(chains [][]string) pinset.Layers {
	layers := pinset.Layers{}
	for _, chain := range chains {
		parent := ""
		for _, l := range chain {
			layers.Add(parent+"/"+l, parent, digest.FromString("diff "+l), digest.FromString("blob "+l))
			parent += "/" + l
		}
	}
	return layers
}

// describe lists the images with their bytes to fetch, unpacked bytes and inodes.
func describe(all []Pull) string {
	var lines []string
	for _, p := range all {
		name := strings.TrimPrefix(p.Image.Repository, "quay.io/x/")
		line := fmt.Sprintf("%s %d %d %d", name, p.Fetch, p.Unpacked, p.Inodes)
		if p.Estimated {
			line += " estimated"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

const gib = 1 << 30

// As in TestCheckNodeAllocatableStorage of the Machine Config Operator, of 25 GiB 10 have to stay
// free: images of 5 GiB fit, images of 10 GiB do not. The operator doubles the size of images, and
// counts the whole disk; pinbox counts the free space.
func TestCheckSpace(t *testing.T) {
	big := disk.Space{Path: "/var/lib/containers/storage", Total: 1000 * gib, Free: 25 * gib}
	disk20, disk100 := disk.Space{Total: 20 * gib, Free: 10 * gib}, disk.Space{Total: 100 * gib, Free: 20 * gib}
	reserve10 := Limits{Node: "node12", Reserve: bytesize.Reserve{Bytes: 10 * gib}}
	for name, test := range map[string]struct {
		limits Limits
		claim  Claim
		want   string // the text of the error; "" if it fits
	}{
		"5 GiB, doubled": {reserve10, Claim{Space: big, Bytes: 2 * 5 * gib, Store: true}, ""},
		"10 GiB, doubled": {
			reserve10, Claim{Space: big, Bytes: 2 * 10 * gib, Store: true, Estimated: true},
			"Pulling the images on node12 needs about 20 GiB in /var/lib/containers/storage; 25 GiB are free, 10 GiB " +
				"are kept in reserve.",
		},
		"exactly":     {reserve10, Claim{Space: big, Bytes: 15 * gib, Store: true}, ""},
		"a byte more": {reserve10, Claim{Space: big, Bytes: 15*gib + 1, Store: true}, "needs 15 GiB"},
		"fractions of GiB": {Limits{Node: "node12", Reserve: bytesize.Reserve{Bytes: 16 * gib}}, Claim{
			Space: disk.Space{Path: "/var/lib/containers/storage", Total: 1000 * gib, Free: 101 * gib / 10},
			Bytes: 162 * gib / 10, Store: true,
		},
			"Pulling the images on node12 needs 16.2 GiB in /var/lib/containers/storage; 10.1 GiB are free, 16 GiB " +
				"are kept in reserve."},
		"the reserve of a small disk is a tenth": {Limits{Reserve: DefaultReserve}, Claim{Space: disk20, Bytes: 7 * gib}, ""},
		"the tenth of a small disk": {
			Limits{Reserve: DefaultReserve}, Claim{Space: disk20, Bytes: 9 * gib}, "2 GiB are kept",
		},
		"no inode left": {
			Limits{}, Claim{Space: disk.Space{Path: "/x", Total: gib, Free: gib, Inodes: 100, FreeInodes: 10}, Inodes: 11},
			"needs 11 inodes in /x; 10 are free, 0 are kept",
		},
		"inodes without limit": {Limits{}, Claim{Space: disk.Space{Total: gib, Free: gib}, Inodes: 11}, ""},
		"the same share of inodes": {
			Limits{Reserve: bytesize.Reserve{Percent: 50}}, Claim{Space: disk.Space{Total: gib, Free: gib, Inodes: 100, FreeInodes: 60},
				Inodes: 11}, "50 are kept",
		},
		"the kubelet would remove images": {
			Limits{GCPercent: 85, GCFile: "/etc/kubernetes/kubelet.conf"},
			Claim{Space: disk100, Bytes: 5 * gib, Store: true},
			"the kubelet removes images once 85 % are used (/etc/kubernetes/kubelet.conf)",
		},
		"just below the threshold":         {Limits{GCPercent: 85}, Claim{Space: disk100, Bytes: 4 * gib, Store: true}, ""},
		"the kubelet never removes images": {Limits{GCPercent: 100}, Claim{Space: disk100, Bytes: 19 * gib, Store: true}, ""},
		"not the file system of the store": {Limits{GCPercent: 85}, Claim{Space: disk100, Bytes: 19 * gib}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.limits.check(test.claim)
			if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, ErrSpace) ||
				!strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Staged blobs are a claim of their own, unless the staging folder is on the disk of the store: then
// they are added to its claim.
func TestClaims(t *testing.T) {
	all := []Pull{
		{Need: Need{Fetch: 5, Unpacked: 50, Inodes: 1}}, {Need: Need{Fetch: 7, Unpacked: 70, Inodes: 1}},
		{Need: Need{Fetch: 6, Unpacked: 60, Inodes: 1}},
	}
	need, staged := totalNeed(all, 2)
	if need.Fetch != 18 || need.Unpacked != 180 || staged != 13 {
		t.Errorf("got %+v, %d staged, want 18 bytes to fetch, 180 unpacked, 13 staged", need, staged)
	}
	one := claims(need, staged, disk.Space{Device: 1, Free: 1}, disk.Space{Device: 1, Free: 2})
	two := claims(need, staged, disk.Space{Device: 1, Free: 1}, disk.Space{Device: 2, Free: 2})
	if subvolumes := claims(need, staged, disk.Space{Device: 1, Free: 1},
		disk.Space{Device: 2, Free: 1}); len(subvolumes) != 1 {
		t.Errorf("two subvolumes of one disk: got the claims %+v, want one", subvolumes)
	}
	if len(one) != 1 || one[0].Bytes != 193 || len(two) != 2 || two[0].Bytes != 180 || two[1].Bytes != 13 || two[1].Store {
		t.Errorf("got %+v on one disk, want 193 bytes; got %+v on two, want 180 bytes of the store, and 13", one, two)
	}
}

// What a pull or a look-up says of a registry without TLS, or with an untrusted certificate, says what to do.
func TestFaultOfRegistryWithoutTLS(t *testing.T) {
	const cure = "; to use the registry all the same, write `insecure = true` for it in registries.conf"
	for text, want := range map[string]string{
		"Get \"https://127.0.0.1:1/v2/\": http: server gave HTTP response to HTTPS client": cure,
		"tls: failed to verify certificate: x509: certificate signed by unknown authority": cure,
		"manifest unknown": "",
	} {
		err := errors.New("rpc error: code = Unknown desc = pinging container registry a.b: " + text)
		if got := faultOf(err).Text; got != "pinging container registry a.b: "+text+want {
			t.Errorf("got %q, want %q after the text", got, want)
		}
	}
}

// The texts are errors of CRI-O 1.34 and of containers/image.
func TestClassify(t *testing.T) {
	const unknown = "rpc error: code = Unknown desc = unable to try pulling possible OCI artifact: build image source: " +
		"reading manifest sha256:4040404040404040404040404040404040404040404040404040404040404040 in quay.io/x/a: "
	for text, want := range map[string]Class{
		unknown + "authentication required":                                                                Auth,
		unknown + `StatusCode: 403, ""`:                                                                    Auth,
		unknown + "unauthorized: access to the requested resource is not authorized":                       Auth,
		unknown + "denied: requested access to the resource is denied":                                     Auth,
		unknown + `StatusCode: 404, ""`:                                                                    NotFound,
		unknown + "manifest unknown":                                                                       NotFound,
		unknown + "name unknown: repository not found":                                                     NotFound,
		unknown + `StatusCode: 429, ""`:                                                                    Network,
		unknown + "toomanyrequests: slow down":                                                             Network,
		unknown + "received unexpected HTTP status: 500 Internal Server Error":                             Network,
		unknown + "received unexpected HTTP status: 503 Service Unavailable":                               Network,
		"rpc error: code = Unknown desc = RegistryUnavailable: pinging container registry a":               Network,
		unknown + "dial tcp: lookup nosuch.invalid on 10.0.0.1:53: no such host":                           Network,
		unknown + "net/http: TLS handshake timeout":                                                        Network,
		"parsing image configuration: unexpected EOF (after reconnecting)":                                 Network,
		"rpc error: code = Unknown desc = SignatureValidationFailed: Source image rejected":                Policy,
		"Source image rejected: Running image docker://a is rejected by policy.":                           Policy,
		"writing blob: adding layer: write /x: no space left on device":                                    Space,
		"invalid status code from registry 503 (Service Unavailable)":                                      Network,
		"reading manifest in 127.0.0.1:5000/a/b: no image found in image index for architecture \"amd64\"": NotFound,
		// Words in the names of images and hosts do not count.
		"pinging container registry quay.io/acme/signature-server: connection refused":                        Network,
		"reading manifest sha256:1 in acme.io/error-404: strange":                                             Other,
		"Get \"https://registry:403/v2/\": dial tcp 10.0.0.1:403: i/o timeout":                                Network,
		"dial tcp 10.0.0.404:404: strange":                                                                    Other,
		"Source image rejected: reading signature: Get \"http://a/b\": dial tcp: connect: connection refused": Network,
		// A mirror that does not answer may have the image.
		"(Mirrors also failed: [a/b: manifest unknown]): c/d: i/o timeout":                                            Network,
		"rpc error: code = Unavailable desc = error reading from server: EOF":                                         Other,
		"get manifest: Manifest does not match provided manifest digest sha256:" + strings.Repeat("404 "[:3]+"0", 16): Other,
		"Download config.json digest sha256:1 does not match expected sha256:2":                                       Other,
	} {
		if got := Classify(errors.New(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
