#!/bin/sh
# Of the package pinbox-node. $1 is "remove" or "purge" of dpkg, or the number of packages that are left of rpm; not an upgrade.
case $1 in
remove | purge | 0) ;;
*) exit 0 ;;
esac
test -d /run/systemd/system && command -v systemctl >/dev/null || exit 0
systemctl daemon-reload || echo "pinbox-node: run 'systemctl daemon-reload', which has failed" >&2
exit 0
