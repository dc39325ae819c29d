package runbook

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Built is what a build or a delta has made. All paths are relative to its folder.
type Built struct {
	pinset.ReleaseID
	// Images is how many there are.
	Images int
	// Store is the name of the store, Size its bytes, and Sum its SHA-256 in hexadecimal; "" for a folder.
	Store string
	Size  int64
	Sum   string
	// Node is where an appliance's store is on the node: one of these is set unless it is on the ISO.
	Node Place
	// ISO says that there is a live ISO, of ISOSize bytes, and Installs names the disk that it overwrites.
	ISO      bool
	ISOSize  int64
	Installs string
	// Kubeadm is the version of Kubernetes whose images kubeadm starts, as in v1.36.3, and MicroShift says that those of
	// its packages are there; neither without such images.
	Kubeadm    string
	MicroShift bool
	// Delta says that it is one. Made is the size of the store that a node makes of a thin one.
	Delta bool
	Made  int64
	// Signed says that sums and store are signed.
	Signed bool
	// OpenShift is the cluster; nil without one. Sets are its PinnedImageSets, and Releases those that a delta updates to.
	OpenShift *spec.OpenShift
	Sets      []pinset.Set
	Releases  []openshift.Release
}

// Place is where a node finds its store.
type Place struct{ Path, PartitionLabel, VolumeLabel, URL, Folder string }

// device is the file or the device that the store is written to; "" if it is not.
func (p Place) device() string {
	if p.PartitionLabel != "" {
		return "/dev/disk/by-partlabel/" + p.PartitionLabel
	}
	return p.Path
}

// Step is one thing to do, by a person or a shell.
type Step struct {
	Title string
	// Commands of a shell.
	Commands []string
	// Done is a test of a shell: whether it was done before; "" if the commands see that by themselves.
	Done string
	// Script says that the script does it.
	Script bool
	// Wait is what the step waits for, Check how to see that it worked.
	Wait, Check, IfItFails string
	// Bytes that are copied, for each node, and by what.
	Bytes int64
	By    []Pace
}

// manifests is the folder of the objects for a cluster.
const manifests = "manifests"

// Steps are all that is to be done, in their order.
func Steps(b Built) []Step {
	verify := Step{
		Title: "Verify the folder", Commands: []string{"pinbox verify ."}, Bytes: b.Size + b.ISOSize, By: []Pace{disk},
		IfItFails: "copy or build the folder again: a file of it was changed.",
	}
	if b.Signed {
		verify.Commands = []string{"pinbox verify . --key release.pub"}
	}
	steps := []Step{verify}
	switch {
	case b.OpenShift != nil && b.Delta:
		steps = append(steps, update(b)...)
	case b.OpenShift != nil && !b.ISO:
		steps = append(steps, cluster(b)...)
	case b.Delta:
		steps = append(steps, attach(b)...)
	default:
		steps = append(steps, node(b)...)
	}
	return steps
}

// check is the last step, on a node; script if the others of the script are for that node, too.
func check(script bool) Step {
	return Step{
		Title: "Check, on each node, as root", Script: script, Commands: []string{"pinbox-node status"},
		Check:     "the exit code is 0: every image is on the node and pinned.",
		IfItFails: "`pinbox-node status` and `journalctl -u 'pinbox-*'` say what is missing; run the step again then.",
	}
}

// attach are the steps of a delta on a node without the operator.
func attach(b Built) []Step {
	s := Step{
		Title:    "Attach the store on the node, as root",
		Commands: []string{`pinbox-node attach "${1:-.}"`}, Script: true, Bytes: b.Size, By: []Pace{disk},
		Wait:      "the node copies the store and compares its sum; CRI-O and its containers keep running.",
		IfItFails: "run it again: an interrupted copy continues. The error names a base that the node lacks.",
	}
	if b.Made > 0 { // it takes the time of a processor, which is not known
		s.By = nil
		s.Wait = fmt.Sprintf("the node makes a store of %s of it; CRI-O and its containers keep running.",
			bytesize.Format(b.Made))
	}
	steps := []Step{{
		Title: "Bring the folder to the node, as files or as a medium that `attach /dev/sr0` reads; or once to a server of " +
			"the site, for `sh runbook.sh https://SERVER/FOLDER/` on its nodes",
		Commands: []string{"pinbox medium . -o ../delta.iso"}, Bytes: b.Size, By: []Pace{stick, link},
	}, s, check(true)}
	switch {
	case b.Kubeadm != "":
		steps = append(steps, Step{
			Title: "Update the cluster once all machines have the store, unless it has " + b.Kubeadm + " already; " +
				"on the other machines `kubeadm upgrade node`",
			Commands: []string{"kubeadm upgrade apply " + b.Kubeadm},
			Check:    "`kubectl get nodes` shows the version.", IfItFails: "run it again.",
		})
	case b.MicroShift:
		steps = append(steps, Step{
			Title:     "Update MicroShift, as root, and pin the images of its new lists (with the flags that `setup` had)",
			Commands:  []string{"dnf update microshift", "pinbox-node setup", "pinbox-node status"},
			Check:     "the exit code is 0.",
			IfItFails: "`status` names images of the lists that the store lacks: build the delta of the lists of this version.",
		})
	}
	return steps
}

// machines are the steps of an appliance for machines of kubeadm or MicroShift that have a system: setup, no Ignition.
func machines(b Built) []Step {
	has := "CRI-O, the kubelet and kubeadm"
	if b.MicroShift {
		has = "CRI-O and MicroShift"
	}
	return append([]Step{{
		Title:     "Bring the folder and `pinbox-node` to each machine, which has " + has,
		Commands:  []string{"cp -r . /media/STICK/out    # or: scp -r \"$PWD\" root@MACHINE:"},
		Check:     "`sha256sum -c --quiet SHA256SUMS` in the copy prints nothing.",
		IfItFails: "copy it again. FAT takes no file of 4 GiB: give the stick exFAT or ext4.",
		Bytes:     b.Size, By: []Pace{stick, link},
	}, {
		Title: "Make a node of the machine, in the copy, as root", Script: true, Bytes: b.Size, By: []Pace{disk},
		Commands: []string{"pinbox-node setup --store ."},
		Wait:     "it copies the store and compares its sum, and restarts CRI-O the first time.",
		IfItFails: "run it again: what is done is passed over. A machine of Ignition takes `config.ign` instead, " +
			"and the store at " + b.Node.Path + ".",
	}, check(true)}, start(b, true)...)
}

// start makes the cluster of nodes that have the images; script if it can be the script's.
func start(b Built, script bool) []Step {
	switch {
	case b.Kubeadm != "":
		return []Step{{
			Title: "Make the cluster, on the first machine, as root; on the others run the `kubeadm join` that it prints",
			Commands: []string{"kubeadm init --kubernetes-version " + b.Kubeadm +
				" --cri-socket unix:///var/run/crio/crio.sock"},
			Check:     "`kubectl get nodes` shows Ready once the network plugin is applied.",
			IfItFails: "`kubeadm reset`, then again: the images stay.",
		}}
	case b.MicroShift:
		return []Step{{
			Title: "Start MicroShift, as root", Script: script, Commands: []string{"systemctl start microshift"},
			Check:     "`oc get pods -A --kubeconfig /var/lib/microshift/resources/kubeadmin/kubeconfig` shows Running.",
			IfItFails: "`journalctl -u microshift`.",
		}}
	}
	return nil
}

// node are the steps of an appliance whose nodes have no operator, or are made by its ISO.
func node(b Built) (steps []Step) {
	if (b.Kubeadm != "" || b.MicroShift) && !b.ISO && b.Node == (Place{Path: layout.NodeStore}) {
		return machines(b)
	}
	hand := func(title string, bytes int64, by Pace, commands ...string) {
		steps = append(steps, Step{Title: title, Bytes: bytes, By: []Pace{by}, Commands: commands})
	}
	switch p := b.Node; {
	case p.VolumeLabel != "":
		hand("Write the medium with the store, and plug it into the node", b.Size, stick,
			"pinbox medium . -o ../medium.iso", "dd if=../medium.iso of=/dev/sdX bs=4M conv=fsync")
	case p.URL != "":
		hand(fmt.Sprintf("Copy `%s` and `pinbox-node` to the server, so that it serves `%s`", b.Store, p.URL), b.Size, link)
	}
	if b.OpenShift != nil {
		hand("Add the manifests to those of the installer, before it makes the base ISO", 0, 0,
			"cp manifests/sets/*.yaml manifests/nodes/*.yaml CLUSTER/openshift/")
	}
	if b.ISO {
		hand("Write the ISO to a stick", b.ISOSize, stick, "dd if=appliance.iso of=/dev/sdX bs=4M conv=fsync")
		boot := "Boot the node from it"
		if b.Installs != "" {
			boot += ": it overwrites " + b.Installs + " without a question"
		}
		hand(boot, 0, 0)
		return append(append(steps, check(false)), start(b, false)...)
	}
	hand("Give the node `config.ign` as its Ignition config, and boot it; a machine without Ignition needs only "+
		"`pinbox-node` (kubeadm, MicroShift)", 0, 0)
	if place := cmp.Or(b.Node.device(), b.Node.Folder); place != "" {
		steps = append(steps, Step{
			Title:    "Bring the folder to the node, and the store to its place, as root",
			Commands: []string{choose(b, place)}, Script: true, Bytes: b.Size, By: []Pace{disk},
			IfItFails: "run it again. A node with `config.ign` mounts the store when it is there, or at the next boot.",
		})
	}
	return append(append(steps, check(true)), start(b, true)...)
}

// choose brings the store to its place where Ignition has configured the node, and attaches it elsewhere.
func choose(b Built, place string) string {
	copied := fmt.Sprintf("[ -e %s ] || { cp -a %s %[1]s.part && mv %[1]s.part %[1]s; }", place, b.Store)
	if b.Sum != "" {
		copied = fmt.Sprintf("%s ||\n    { { %s; } <%s && %[1]s; }", has(b, place, ""), write(b, place, ""), b.Store)
	}
	return fmt.Sprintf("if [ -e /etc/pinbox/boot ]; then\n  %s\nelse\n  pinbox-node setup --store .\nfi", copied)
}

// has is a test on a node: whether the store is at its place.
func has(b Built, place, sudo string) string {
	return fmt.Sprintf("%shead -c %d %s 2>/dev/null | sha256sum | grep -q %s", sudo, b.Size, place, b.Sum)
}

// write writes the store from standard input to its place. A connection that ends early is no end of the store. The
// store of another release, which may be read from there now, is not overwritten.
func write(b Built, place, sudo string) string {
	text := fmt.Sprintf("%sdd of=%s bs=4M conv=fsync,nocreat", sudo, place)
	if b.Node.PartitionLabel == "" {
		text = fmt.Sprintf(`mkdir -p %s && cat >%s.part && echo "%s  %[2]s.part" | sha256sum -c --quiet && `+
			`mv %[2]s.part %[2]s`, path.Dir(place), place, b.Sum)
		if sudo != "" {
			text = sudo + `sh -c "` + strings.ReplaceAll(text, `"`, `\"`) + `"`
		}
	}
	return fmt.Sprintf(`if %smountpoint -q %s; then
      echo "$(hostname) has the store of another release: it gets the next one by pinbox delta" >&2; false
    else %s; fi`, sudo, crio.Slots()[0], text)
}

// nodes sets the variable of that name to the nodes of the pools.
func nodes(o spec.OpenShift) Step {
	var gets []string
	for _, pool := range o.PoolNames() {
		gets = append(gets, "  oc get nodes -l node-role.kubernetes.io/"+pool+
			` -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}'`)
	}
	return Step{
		Title: "Find the nodes of the pools (if ssh has other names for them, name all: `export NODES=\"node1 node2\"`)",
		Commands: []string{"oc get mcp " + strings.Join(o.PoolNames(), " ") + " >/dev/null",
			"nodes=${NODES:-$(\n" + strings.Join(gets, " &&\n") + "\n)}", `[ "$nodes" ]`},
		Script:    true,
		IfItFails: "`oc whoami` says whether you are logged in, `oc get mcp` which pools `spec.openshift.pools` may name.",
	}
}

// each runs a command of a shell for each node; an error ends the loop, and with it the script, but no shell of a user.
func each(command string) string { return "(for node in $nodes; do\n  " + command + " || exit\ndone)" }

// on is a command on a node.
func on(command string) string { return `ssh "core@$node" '` + command + "'" }

// cluster are the steps of an appliance for a cluster that runs.
func cluster(b Built) (steps []Step) {
	steps = append(steps, nodes(*b.OpenShift))
	if place := b.Node.device(); place != "" && b.Sum != "" {
		look := on(has(b, place, "sudo "))
		copied := Step{
			Title: "Copy the store to each node that lacks it", Script: true, Bytes: b.Size, By: []Pace{link},
			Commands: []string{each(look + " || {\n    " + on(write(b, place, "sudo ")) + " <" + b.Store +
				" &&\n    " + look + "; }")},
			IfItFails: "run it again: nodes that have the store are passed over.",
		}
		if b.Node.PartitionLabel != "" {
			copied.IfItFails += " A node without the partition gets it by `pinbox-node install-store`; " +
				"with `node.store.path` in the appliance file it needs none."
		}
		steps = append(steps, copied)
	}
	mounted := Step{
		Title: "Wait until each node has mounted the store: the operator would pull before", Script: true,
		Commands: []string{each(openshift.Until(
			on("sudo test -s " + path.Join(crio.Slots()[0], "overlay-images/images.json"))))},
		Wait:      "at most an hour for each node.",
		IfItFails: "on the node: `journalctl -u pinbox-store`.",
	}
	for _, s := range openshift.Stages(*b.OpenShift, manifests, b.Sets) {
		if s.NeedsStore && mounted.Commands != nil {
			steps = append(steps, mounted)
			mounted.Commands = nil
		}
		steps = append(steps, Step{Title: s.Title, Commands: s.Commands, Script: true, Wait: s.Wait,
			IfItFails: "run it again; `oc get mcp,co/machine-config` says what the operator waits for."})
	}
	return append(steps, check(false))
}

// update are the steps of a delta for a cluster: the store once to the site, all else by the script.
func update(b Built) []Step {
	// The store that a node makes of a thin delta has another digest: that one is attached again, which changes nothing.
	look := on(`sudo pinbox-node status --output json | tr -d " \n" | ` +
		`grep -q "` + b.Sum + `.,[^}]*.state.:.mounted"`)
	steps := []Step{
		{
			Title: "Copy the folder once to a web server of the site, or a medium to each node",
			Bytes: b.Size, By: []Pace{stick, link},
		},
		nodes(*b.OpenShift),
		{
			Title: "Attach the store on each node that lacks it: `sh runbook.sh http://SERVER/FOLDER/" + b.Store + "`",
			Commands: []string{each(look + ` ||
    ssh "core@$node" "sudo pinbox-node attach '${1:?the URL of ` + b.Store +
				`, or a path on the nodes}' --digest sha256:` + b.Sum + `"`)},
			Script: true, Bytes: b.Size, By: []Pace{link}, Wait: "CRI-O and its containers keep running.",
			IfItFails: "run it again: an interrupted fetch continues.",
		},
	}
	if sets := openshift.ApplySets(*b.OpenShift, manifests, b.Sets); sets != nil {
		steps = append(steps, Step{Title: openshift.SetsTitle, Commands: sets, Script: true})
	}
	if commands := openshift.Update(manifests, b.Releases); commands != nil {
		steps = append(steps, Step{
			Title: "Update the cluster", Commands: commands, Done: openshift.Requested(b.Releases), Script: true,
			Check: "`oc get clusterversion` shows the progress.", IfItFails: "`oc adm upgrade` says why the cluster refuses.",
		})
	}
	return append(steps, check(false))
}
