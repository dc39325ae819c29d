#!/bin/sh
# Installs the programs of a release, without root if you may write to the folder:
#   sh install.sh [-k KEY] [-u URL] [-d FOLDER]
# KEY is a file with the public key of the release, by which the signature of its sums is verified (needs openssl). URL
# is the folder of a release, also on a server of your own. The programs appear when all are verified.
set -eu

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

use='use: sh install.sh [-k KEY] [-u URL] [-d FOLDER]'
key='' url=https://github.com/pinbox/pinbox/releases/latest/download dir=/usr/local/bin
while getopts k:u:d: option; do
	case $option in
	k) key=$OPTARG ;;
	u) url=${OPTARG%/} ;;
	d) dir=$OPTARG ;;
	*) fail "$use" ;;
	esac
done
[ $# -lt "$OPTIND" ] || fail "$use"
[ -z "$key" ] || [ -r "$key" ] || fail "$key cannot be read: name the public key of the release with -k"
[ -z "$key" ] || command -v openssl >/dev/null || fail "openssl is needed to verify a signature"

case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
ppc64le | riscv64 | s390x) arch=$(uname -m) ;;
*) fail "there is no program for the architecture $(uname -m)" ;;
esac
case $(uname -s) in
Linux) system=linux programs='pinbox pinbox-node' ;;
Darwin) system=darwin programs=pinbox ;;
*) fail "there is no program for $(uname -s)" ;;
esac

if command -v curl >/dev/null; then
	secure=''
	case $url in https:*) secure='--proto =https --proto-redir =https' ;; esac
	# shellcheck disable=SC2086 # words
	get() { curl --fail --silent --show-error --location --retry 3 $secure --output "$2" "$1"; }
elif command -v wget >/dev/null; then
	get() { wget --quiet --output-document "$2" "$1"; }
else
	fail "curl or wget is needed"
fi
if command -v sha256sum >/dev/null; then
	sum() { sha256sum "$1"; }
else
	sum() { shasum -a 256 "$1"; }
fi

[ -w "$dir" ] || fail "no files can be made in $dir: run it as root, or name another folder with -d"
tmp=$(mktemp -d "$dir/.pinbox.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

get "$url/SHA256SUMS" "$tmp/sums" || fail "$url/SHA256SUMS cannot be fetched"
if [ "$key" ]; then
	get "$url/SHA256SUMS.sig" "$tmp/text" || fail "$url/SHA256SUMS.sig cannot be fetched"
	base64 -d <"$tmp/text" >"$tmp/signature" || fail "$url/SHA256SUMS.sig is no signature"
	openssl dgst -sha256 -verify "$key" -signature "$tmp/signature" "$tmp/sums" >/dev/null ||
		fail "$key has not signed $url/SHA256SUMS: nothing is installed"
else
	echo "install.sh: the signature is not verified: name the key of the release with -k" >&2
fi
for program in $programs; do
	name=$program-$system-$arch
	want=$(awk -v name="$name" '$2 == name {print $1}' "$tmp/sums")
	[ "$want" ] || fail "$url/SHA256SUMS does not list $name"
	get "$url/$name" "$tmp/$program" || fail "$url/$name cannot be fetched"
	got=$(sum "$tmp/$program")
	[ "${got%% *}" = "$want" ] || fail "$url/$name has not the sum in SHA256SUMS: nothing is installed"
	chmod 755 "$tmp/$program"
done
for program in $programs; do
	mv -f "$tmp/$program" "$dir/$program"
done
echo "installed in $dir: $programs"
