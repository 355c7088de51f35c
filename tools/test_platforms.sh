#!/usr/bin/env bash
# test_platforms.sh - builds, trains and tests dtrain on other distributions and MPI libraries.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/test_platforms.sh                   every platform: build, demo on two ranks, all tests
#   tools/test_platforms.sh --short           a few tests of each only
#   tools/test_platforms.sh debian13 mpich    only these of debian12, debian13, testing, mpich, clang
#
# Each platform is a root folder that debootstrap makes, in DTRAIN_ROOTS (default: ~/.cache/dtrain/roots).
# Roots, build folders and ccache are kept: the second run is fast. Needs root and a Debian machine.
# Prints a table at its end; exit code 1 if anything in it failed, 77 if this machine can make no roots.
set -euo pipefail
source "$(dirname "$0")/setup.sh"

roots=${DTRAIN_ROOTS:-$HOME/.cache/dtrain/roots}
mirror=${DTRAIN_MIRROR:-http://deb.debian.org/debian}
known=(debian12 debian13 testing mpich clang)
# What --short runs: each room below the launch once, MPI with two ranks, and one whole program.
short_tests='^(base/status|ops/gemm|ops/attention|comm/network_choice|tokenizers/bpe|formats/safetensors|optim/adam|train/train_loop|launch/run_on_ranks)_test$|mpi_communicator_test/2$'

usage() { sed -n '5,11s/^# \{0,1\}//p' "$project_dir/tools/test_platforms.sh"; }
fail() { echo "test_platforms.sh: $1" >&2; exit 2; }

short=
platforms=()
while [ $# -gt 0 ]; do
  case $1 in
    --short) short=1 ;;
    -h | --help) usage; exit 0 ;;
    *)
      [[ " ${known[*]} " = *" $1 "* ]] || fail "there is no platform $1; known are: ${known[*]}"
      platforms+=("$1") ;;
  esac
  shift
done
[ ${#platforms[@]} -gt 0 ] || platforms=("${known[@]}")
[ "$(id -u)" = 0 ] || { echo "skipped: debootstrap and chroot need root"; exit 77; }
unshare --mount true 2>/dev/null || { echo "skipped: this machine allows no namespaces"; exit 77; }
install_packages debootstrap

# What sets a platform apart: its release, its packages besides those of setup.sh, options of cmake.
describe() {
  suite=bookworm packages=("${build_packages[@]}") options=() mpirun='mpirun --oversubscribe'
  case $1 in
    debian12) ;;
    debian13) suite=trixie ;;
    testing) suite=forky ;;
    mpich)
      packages=("${packages[@]/libopenmpi-dev/libmpich-dev}")
      packages=("${packages[@]/openmpi-bin/mpich}") mpirun=mpirun ;;
    clang)
      packages+=(clang-16 libomp-16-dev)
      options=(-DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16) ;;
  esac
  packages+=(python3 sentencepiece)
}

# Runs a command in a platform's root, with this project at /dtrain and a /dev/shm of its own.
inside() {
  local root=$1
  shift
  unshare --mount bash -c '
    set -e
    root=$1; shift
    mount --make-rprivate /
    mount --bind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      CCACHE_BASEDIR=/dtrain "$@"' _ "$root" "$@"
}

make_root() {
  local root=$1
  if [ ! -e "$root/.made" ]; then
    # debootstrap may not know the newest releases by name; they are all made like sid.
    local script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" "$script" || return 1
    # No package starts a server here.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    touch "$root/.made"
  fi
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  inside "$root" bash -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends ${packages[*]}" \
    || return 1
}

# The project as it is in the working tree, without what git ignores. Unchanged files keep their dates.
copy_project() {
  local root=$1 files
  mkdir -p "$root/dtrain"
  files=$(mktemp)
  git ls-files -z --cached --others --exclude-standard >"$files"
  tar --null --files-from="$files" -cf - | tar -xf - -C "$root/dtrain"
  rm -f "$files"
}

count() { sed -n "s/.*$1.*/\1/p" "$2" | tail -n 1; }

# Builds and tests one platform; appends its row to the table.
run_platform() {
  local name=$1 root=$roots/$1 logs=$roots/logs/$1 build=failed demo=- passed=- failed=- skipped=-
  describe "$name"
  mkdir -p "$logs"
  echo "== $name ($suite; logs in $logs)"
  if ! make_root "$root" >"$logs/root.log" 2>&1; then
    tail -n 5 "$logs/root.log"
    rows+=("$name|no root|$demo|$passed|$failed|$skipped")
    bad=1
    return
  fi
  copy_project "$root"
  if inside "$root" bash -c "cd /dtrain && cmake --preset cpu -DDTRAIN_TESTS=ON -DDTRAIN_WERROR=ON ${options[*]} &&
      cmake --build build/cpu" >"$logs/build.log" 2>&1; then
    build=ok
    local time=1m
    [ -z "$short" ] || time=20s
    demo=failed
    inside "$root" bash -c "cd /dtrain && export PATH=/dtrain/build/cpu/bin:\$PATH && rm -rf runs/platform &&
        $mpirun -n 2 nmt_train --config examples/nmt_train/configs/demo.textproto \
          run.run_dir=runs/platform trainer.max_time=$time &&
        echo 'Click the button.' | dtrain translate runs/platform" >"$logs/demo.log" 2>&1 && demo=ok
    local filter=()
    [ -z "$short" ] || filter=(-R "'$short_tests'")
    inside "$root" bash -c "cd /dtrain && ctest --preset cpu -j 2 ${filter[*]}" >"$logs/tests.log" 2>&1 || true
    local all
    failed=$(count '\([0-9]*\) tests failed out of' "$logs/tests.log")
    all=$(count 'tests failed out of \([0-9]*\)' "$logs/tests.log")
    skipped=$(grep -c '(Skipped)$' "$logs/tests.log" || true)
    passed=$((${all:-0} - ${failed:-0} - skipped))
  else
    grep -E 'error|Error' "$logs/build.log" | head -n 5 || true
  fi
  rows+=("$name|$build|$demo|$passed|${failed:-no result}|$skipped")
  [ "$build $demo ${failed:-1}" = "ok ok 0" ] || bad=1
}

bad= rows=()
for platform in "${platforms[@]}"; do run_platform "$platform"; done

printf '\n%-10s %-8s %-8s %8s %8s %8s\n' platform build demo passed failed skipped
for row in "${rows[@]}"; do
  IFS='|' read -r name build demo passed failed skipped <<<"$row"
  printf '%-10s %-8s %-8s %8s %8s %8s\n' "$name" "$build" "$demo" "$passed" "$failed" "$skipped"
done
[ -z "$bad" ]
