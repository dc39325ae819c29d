package provision

// Installer is a live system that installs a node to a disk, and copies the store there.
type Installer struct {
	// Disk to install to: a path below /dev.
	Disk string
	// Store on the medium of the live system.
	Store Store
	// Beside is for a live system in which another program installs the node, as OpenShift's agent does: only the
	// store is put on the disk.
	Beside bool
}

// Parts returns what the live system must hold.
func (i Installer) Parts() (Parts, error) {
	r := i.Store.rendering()
	r.Disk = i.Disk
	units := append(r.services(), r.storeUnits()...)
	r.Env = i.Store.env(false)
	p := Parts{Files: r.boot()}
	if i.Beside {
		p.Units = append(units, r.strict(Unit{Name: saveUnit, Enabled: true, Content: r.render("save-store.service")}, "rw"))
		return p, r.err
	}
	p.Units = append(units,
		r.strict(Unit{Name: checkUnit, Enabled: true, Content: r.render("check-disk.service")}, "r"),
		r.strict(Unit{Name: installUnit, Enabled: true, Content: r.render("install-store.service")}, "rw"))
	return p, r.err
}
