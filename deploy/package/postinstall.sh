#!/bin/sh
# Of the package pinbox-node. A machine that is no node yet has no unit that runs. Nothing here fails: the package would stay
# half configured.
test -d /run/systemd/system && command -v systemctl >/dev/null || exit 0
systemctl daemon-reload || echo "pinbox-node: run 'systemctl daemon-reload', which has failed" >&2
systemctl try-restart pinbox-node.service || echo "pinbox-node: see 'journalctl -u pinbox-node': it did not start again" >&2
exit 0
