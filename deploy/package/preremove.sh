#!/bin/sh
# Of the package pinbox-node. $1 is "remove" of dpkg, or the number of packages that are left of rpm.
set -e
case $1 in
remove | 0) ;;
*) exit 0 ;;
esac
if test -e /etc/pinbox/setup.json || test -L /etc/pinbox/setup.json; then
	echo "pinbox-node: CRI-O has image stores through it: run 'pinbox-node setup --undo' before you remove the package" >&2
	exit 1
fi
