# roots.sh - sourced by the scripts here, after setup.sh: other releases of Debian and Ubuntu, each in a root folder.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
#   need_roots                            ends the script with 77 on a machine that can make no roots
#   choose_release trixie                 which release the next two are of
#   make_root "$roots/NAME" PACKAGE...    makes a root with debootstrap, or completes one that is there
#   inside "$roots/NAME" COMMAND...       runs a command in a root
#   copy_project "$roots/NAME"            brings this project to /dtrain there
#   step LOG COMMAND...                   runs a step of a test; $took then says how it ended, and in how many seconds
#   time_limit=15m                        ends a command in a root, and its children, after this time

time_limit=0
roots=${DTRAIN_ROOTS:-$HOME/.cache/dtrain/roots}
here=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# By default, where this machine's packages come from.
debian_mirror=${DTRAIN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
  'Created-By: Packages' 'Label: Debian' "Codename: $here" 2>/dev/null | sed -n '/^http/s|/$||p' || true)}
debian_mirror=${debian_mirror%%$'\n'*}
debian_mirror=${debian_mirror:-http://deb.debian.org/debian}
ubuntu_mirror=${DTRAIN_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}

need_roots() {
  [ "$(id -u)" = 0 ] || { echo "skipped: roots of other distributions need root"; exit 77; }
  unshare --mount --pid --fork true 2>/dev/null || { echo "skipped: this machine allows no namespaces"; exit 77; }
  [ -e /etc/debian_version ] || { echo "skipped: debootstrap needs a Debian machine"; exit 77; }
  install_packages debootstrap || { echo "skipped: apt-get cannot install debootstrap"; exit 77; }
  # Programs other than apt take the proxy from here.
  eval "$(apt-config shell apt_proxy Acquire::http::Proxy)"
  [ "${apt_proxy:-DIRECT}" = DIRECT ] || export http_proxy=${http_proxy:-$apt_proxy}
}

# Fails with 77 where the release's mirror does not answer.
reach_mirror() {
  timeout 60 wget --quiet --tries=2 --timeout=20 --output-document=/dev/null "$mirror/dists/$release/InRelease" ||
    { echo "$mirror/dists/$release does not answer"; return 77; }
}

# Runs a command in a namespace of processes, all of which end with it, with this script, and when time is up (137).
bounded() {
  local status=0
  setpriv --pdeathsig KILL timeout --foreground --signal=KILL "$time_limit" \
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$@" || status=$?
  [ $status != 137 ] || echo "Error: killed, by the limit of $time_limit or for want of memory"
  return $status
}

# Runs what loads packages. A mirror that is too slow for the limit is as good as none, which says nothing of dtrain.
loaded() {
  local status=0
  "$@" || status=$?
  [ $status != 137 ] || { echo "$mirror is too slow"; return 77; }
  return $status
}

choose_release() {
  release=$1
  case $release in
    # Debian has no keys of Ubuntu's to check these with. The root's own apt has them.
    jammy | noble | resolute) mirror=$ubuntu_mirror bootstrap=(--no-check-gpg --components=main,universe) ;;
    *) mirror=$debian_mirror bootstrap=() ;;
  esac
  # If the release is this machine's, the compiler is the same, and so are most objects.
  ccache=$roots/ccache/$release
  [ "$release" != "$here" ] || ccache=$(command -v ccache >/dev/null && ccache -k cache_dir || echo "$ccache")
}

# This project is at /dtrain in a root; processes, /dev/shm and /tmp are the root's own, and there is a
# ccache. Not by chroot alone: who enters another's namespaces, as the tests with two hosts do, leaves that.
# /tmp is empty: Open MPI 5 finds another job's folder there by the number of a process.
inside() {
  mkdir -p "$1/root/.cache/ccache" "$ccache"
  bounded bash -c '
    set -e
    root=$1; ccache=$2; shift 2
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --bind "$ccache" "$root/root/.cache/ccache"
    cd "$root"
    pivot_root . .
    umount -l .
    exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      LANG=C.UTF-8 CCACHE_BASEDIR=/dtrain "$@"' _ "$1" "$ccache" "${@:2}"
}

# A root with what every root of a release has; those copy it.
make_base() {
  local base=$1
  [ ! -e "$base/.made" ] || return 0
  reach_mirror || return
  # debootstrap may not know the newest releases by name. All are made like sid, or like Ubuntu's gutsy.
  local script=/usr/share/debootstrap/scripts/$release like=sid
  [ "$mirror" = "$debian_mirror" ] || like=gutsy
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/$like
  rm -rf "$base"
  mkdir -p "$base"
  loaded bounded --mount-proc debootstrap --variant=minbase "${bootstrap[@]}" --include=ca-certificates \
    "$release" "$base" "$mirror" "$script" || { echo "debootstrap makes no root of $release here"; return 77; }
  # No package starts a server here.
  printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
  chmod +x "$base/usr/sbin/policy-rc.d"
  # A mirror that is no longer brought up to date will do.
  printf '%s\n' 'Acquire::Check-Valid-Until "false";' 'Acquire::Retries "3";' 'Acquire::http::Timeout "30";' \
    >"$base/etc/apt/apt.conf.d/99dtrain"
  touch "$base/.made"
}

make_root() {
  local root=$1
  shift
  if [ ! -e "$root/.made" ]; then
    make_base "$roots/base-$release" || return
    rm -rf "$root" "$root.new"
    cp -a "$roots/base-$release" "$root.new" || return 1
    mv "$root.new" "$root"
  fi
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  apt-config dump | grep -iE '^Acquire::https?::Proxy' >"$root/etc/apt/apt.conf.d/98proxy" ||
    echo "${http_proxy:+Acquire::http::Proxy \"$http_proxy\";}" >"$root/etc/apt/apt.conf.d/98proxy"
  # Nothing is asked of the mirror where nothing is missing.
  [ $# != 0 ] || return 0
  ! inside "$root" dpkg-query -W "$@" >/dev/null 2>&1 || return 0
  reach_mirror || return
  loaded inside "$root" bash -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends $*"
}

# The project as it is in the working tree, without what git ignores. Unchanged files keep their dates, and
# what was built there stays.
copy_project() {
  local root=$1 files
  mkdir -p "$root/dtrain"
  find "$root/dtrain" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  files=$(mktemp)
  git ls-files -z --cached --others --exclude-standard >"$files"
  tar --null --files-from="$files" -cf - | tar -xf - -C "$root/dtrain"
  rm -f "$files"
}

step() {
  local log=$1 begin=$SECONDS word=ok status=0
  shift
  "$@" >"$log" 2>&1 || status=$?
  case $status in 0) ;; 77) word=skipped ;; *) word=failed ;; esac
  took="$word $((SECONDS - begin)) s"
  return $status
}
