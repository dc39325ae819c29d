package ignition_test

import (
	"testing"

	"github.com/pinbox/pinbox/ignition"
)

// A disk has one spelling: what no system has as a device stops the installation at the site.
func TestDiskToInstallTo(t *testing.T) {
	for disk, want := range map[string]bool{
		"/dev/sda": true, "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4": true, "/dev/mapper/mpatha": true,
		"/dev/sda/": false, "/dev//sda": false, "/dev/disk/by-id/../../sdb": false, "/dev/./sda": false, "sda": false,
		"/dev/": false, "/dev/sd a": false, "/etc/passwd": false,
	} {
		if err := (ignition.Installer{Disk: disk}).Validate(); (err == nil) != want {
			t.Errorf("%q: got %v, want valid %t", disk, err, want)
		}
	}
}
