#!/usr/bin/env bash
# arm_sysroot.sh - makes a folder with Debian's libraries and headers for 64-bit ARM, to build for it elsewhere.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/arm_sysroot.sh FOLDER               of this machine's release
#   tools/arm_sysroot.sh FOLDER bookworm      of another one
#   cmake --preset aarch64 -DCMAKE_SYSROOT=FOLDER
#
# Packages for arm64 are downloaded and unpacked; nothing of them is installed or run. Needs root.
set -euo pipefail
folder=$(realpath -m -- "${1:-.}")
source "$(dirname "$0")/setup.sh"

usage() { sed -n '5,9s/^# \{0,1\}//p' "$project_dir/tools/arm_sysroot.sh"; }
case ${1:-} in
  '') usage >&2; exit 2 ;;
  -h | --help) usage; exit 0 ;;
esac
release=${2:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}
mirror=${DTRAIN_MIRROR:-http://deb.debian.org/debian}
[ "$(id -u)" = 0 ] || { echo "arm_sysroot.sh: debootstrap needs root" >&2; exit 2; }
[ ! -e "$folder/.made" ] || exit 0
install_packages debootstrap

# Of what a build needs, all that is not a program of this machine.
packages=(libc6-dev libgomp1 libstdc++6)
for package in "${build_packages[@]}"; do
  case $package in *-dev | catch2) packages+=("$package") ;; esac
done
script=/usr/share/debootstrap/scripts/$release
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
rm -rf "$folder"
mkdir -p "$folder"
debootstrap --arch=arm64 --foreign --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" \
  "$release" "$folder" "$mirror" "$script"
for package in "$folder"/var/cache/apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$folder"
done
rm -rf "$folder/var/cache/apt" "$folder/debootstrap"

# Links to absolute paths would lead out of the folder.
find "$folder" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  target=$folder$(readlink "$link")
  ln -sfn "$(realpath -m -s --relative-to="$(realpath "$(dirname "$link")")" "$target")" "$link"
done
touch "$folder/.made"
