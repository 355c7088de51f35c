#!/usr/bin/env bash
# test_platforms.sh - builds, trains and tests dtrain on other distributions and MPI libraries.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/test_platforms.sh                   every platform: build, demo on two ranks, all tests
#   tools/test_platforms.sh --short           builds and runs the trainer, the tool and a few tests only
#   tools/test_platforms.sh --limit=15m ...   ends a command in a root after this time; else it may take for ever
#   tools/test_platforms.sh debian13 mpich    only these of debian12, debian13, testing, ubuntu2204, ubuntu2404,
#                                             ubuntu2604, mpich, clang, aarch64 (64-bit ARM: built here, run by
#                                             an emulator)
#
# Each platform is a root folder that debootstrap makes, in DTRAIN_ROOTS (default: ~/.cache/dtrain/roots).
# Roots, build folders and ccache are kept: the second run is fast. Needs root and a Debian machine.
# Prints a table at its end; exit code 1 if anything in it failed, 77 if nothing ran: without root rights, or without
# an answer of the releases' mirror, no root can be made.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
source "$project_dir/tools/roots.sh"

known=(debian12 debian13 testing ubuntu2204 ubuntu2404 ubuntu2604 mpich clang aarch64)
# What --short runs: each room below the launch once, MPI with two ranks, and one whole program.
short_tests=({base/simd,base/file,ops/gemm,ops/attention,comm/network_choice,tokenizers/bpe,formats/safetensors}_test
  {optim/adam,train/resume,launch/run_training}_test comm/mpi_communicator_test/2)
short_filter="^($(IFS='|'; echo "${short_tests[*]}"))\$"

usage() { sed -n '5,15s/^# \{0,1\}//p' "$project_dir/tools/test_platforms.sh"; }
fail() { echo "test_platforms.sh: $1" >&2; exit 2; }

short=
platforms=()
while [ $# -gt 0 ]; do
  case $1 in
    --short) short=1 ;;
    --limit=*) time_limit=${1#*=} ;;
    -h | --help) usage; exit 0 ;;
    *)
      [[ " ${known[*]} " = *" $1 "* ]] || fail "there is no platform $1; known are: ${known[*]}"
      platforms+=("$1") ;;
  esac
  shift
done
[ ${#platforms[@]} -gt 0 ] || platforms=("${known[@]}")
need_roots

# What sets a platform apart: its release, its packages besides those of setup.sh, options of cmake.
describe() {
  local suite=bookworm
  preset=cpu arm=
  packages=("${build_packages[@]}") options=() mpirun='mpirun --oversubscribe'
  case $1 in
    debian12) ;;
    debian13) suite=trixie ;;
    testing) suite=forky ;;
    ubuntu2204) suite=jammy ;;
    ubuntu2404) suite=noble ;;
    ubuntu2604) suite=resolute ;;
    mpich)
      packages=("${packages[@]/libopenmpi-dev/libmpich-dev}")
      packages=("${packages[@]/openmpi-bin/mpich}") mpirun=mpirun ;;
    clang)
      packages+=(clang-16 libomp-16-dev)
      options=(-DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16) ;;
    aarch64)
      preset=aarch64 arm=1
      packages+=(g++-aarch64-linux-gnu qemu-user-static)
      options=(-DCMAKE_SYSROOT=/arm) ;;
  esac
  # The last two are for the tests with two hosts (tests/testing/two_hosts.sh).
  packages+=(python3 sentencepiece iproute2 openssh-server)
  choose_release "$suite"
}

# Makes the platform's root, and for ARM a folder of its libraries in there.
prepare() {
  make_root "$1" "${packages[@]}" || return
  [ -z "$arm" ] || DTRAIN_MIRROR=$mirror tools/arm_sysroot.sh "$1/arm" "$release"
}

# Like inside(), and the kernel starts programs for ARM by the emulator, which looks for libraries in /arm. The
# kernel is told so in a namespace of users, which it allows from Linux 6.7 on. The limit is explained in
# cmake/toolchains/aarch64-linux-gnu.cmake; the emulator has no process_vm_readv(), by which Open MPI copies.
inside_arm() {
  inside "$1" unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc bash -c '
    set -e
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    header="\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00"
    counts="\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff"
    printf %s ":arm64:M::$header:$counts:/usr/bin/qemu-aarch64-static:F" >/proc/sys/fs/binfmt_misc/register
    export QEMU_LD_PREFIX=/arm OMPI_MCA_btl_vader_single_copy_mechanism=none
    ulimit -v $((8 << 20))
    exec "$@"' _ "${@:2}"
}

# Fails where there is no test of a name that --short lists: ctest would run the others and say that all passed.
check_short_tests() {
  local found test
  found=$(inside "$1" bash -c "cd /dtrain && tools/list_tests.py --preset $preset -R '$short_filter'") || return 1
  for test in "${short_tests[@]}"; do
    [[ $found = *" $test "* ]] || { echo "Error: --short lists $test, and there is no such test"; return 1; }
  done
}

# Configures and builds; goes on after an error, so that the log has them all.
build() {
  local root=$1 targets=
  inside "$root" bash -c "cd /dtrain && cmake --preset $preset -DDTRAIN_TESTS=ON -DDTRAIN_WERROR=ON ${options[*]}" ||
    return 1
  if [ -n "$short" ]; then
    check_short_tests "$root" || return 1
    targets="--target nmt_train dtrain_tool \$(tools/list_tests.py --programs --preset $preset -R '$short_filter')"
  fi
  inside "$root" bash -c "cd /dtrain && cmake --build build/$preset $targets -- -k 0" || return 1
  # What the demo trains with.
  [ -z "$arm" ] || inside "$root" bash -c "cd /dtrain && cmake --preset cpu -DDTRAIN_TESTS=OFF &&
    cmake --build build/cpu --target nmt_train dtrain_tool"
}

# Trains on two ranks and translates. For ARM, the model is trained on this machine, and both translate the same.
demo() {
  local time=1m sentences='Click the button.\nThe file could not be opened.\nThis option is not available.'
  [ -z "$short" ] || time=20s
  inside "$1" bash -c "cd /dtrain && export PATH=/dtrain/build/cpu/bin:\$PATH && rm -rf runs/platform &&
    $mpirun -n 2 nmt_train --config examples/nmt_train/configs/demo.textproto \
      run.run_dir=runs/platform trainer.max_time=$time &&
    printf '$sentences\n' | dtrain translate runs/platform | tee runs/lines" || return 1
  [ -z "$arm" ] || inside_arm "$1" bash -c "cd /dtrain && build/aarch64/bin/dtrain version &&
    printf '$sentences\n' | build/aarch64/bin/dtrain translate runs/platform | diff - runs/lines &&
    echo the same lines"
}

run_tests() {
  local filter=
  [ -z "$short" ] || filter="-R '$short_filter'"
  if [ -n "$arm" ]; then
    inside_arm "$1" bash -c "cd /dtrain && ctest --preset aarch64 -j 2 -L unit $filter"
  else
    inside "$1" bash -c "cd /dtrain && ctest --preset cpu -j 2 $filter"
  fi
}

count() { sed -n "s/.*$1.*/\1/p" "$2" | tail -n 1; }

# Builds and tests one platform; appends its row to the table.
run_platform() {
  local name=$1 root=$roots/$1 logs=$roots/logs/$1 cells=() passed=- failed=- skipped=- all status=0
  describe "$name"
  mkdir -p "$logs"
  echo "== $name ($release; logs in $logs)"
  local is_built=
  step "$logs/root.log" prepare "$root" || status=$?
  if [ $status = 0 ]; then
    ran=1
    cells+=("$took")
    copy_project "$root"
    if step "$logs/build.log" build "$root"; then is_built=1; else bad=1; fi
    cells+=("$took")
    [ -n "$is_built" ] || { grep -E 'error|Error' "$logs/build.log" | head -n 5 || true; }
  else
    cells+=("$took")
    tail -n 5 "$logs/root.log"
    [ $status = 77 ] || bad=1
  fi
  if [ -n "$is_built" ]; then
    step "$logs/demo.log" demo "$root" || { tail -n 5 "$logs/demo.log"; bad=1; }
    cells+=("$took")
    step "$logs/tests.log" run_tests "$root" || { sed -n '/tests FAILED:/,$p' "$logs/tests.log"; bad=1; }
    cells+=("$took")
    failed=$(count ', \([0-9]*\) tests failed out of' "$logs/tests.log")
    all=$(count 'tests failed out of \([0-9]*\)' "$logs/tests.log")
    skipped=$(grep -c '(Skipped)$' "$logs/tests.log" || true)
    passed=$((${all:-0} - ${failed:-0} - skipped))
  fi
  while [ ${#cells[@]} -lt 4 ]; do cells+=(-); done
  rows+=("$(printf '%-10s %-14s %-14s %-14s %-14s %7s %7s %7s' "$name" "${cells[@]}" "$passed" "${failed:--}" "$skipped")")
}

bad=''
ran=''
rows=()
for platform in "${platforms[@]}"; do run_platform "$platform"; done

printf '\n%-10s %-14s %-14s %-14s %-14s %7s %7s %7s\n' \
  platform root build demo tests passed failed skipped
printf '%s\n' "${rows[@]}"
[ -z "$bad" ] || exit 1
[ -n "$ran" ] || exit 77
