# setup.sh - sourced by the scripts here: finds the project, installs what Debian lacks, builds a preset.
# SPDX-License-Identifier: Apache-2.0

project_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$project_dir"

# What building and testing need, all from Debian 12's archive.
build_packages=(g++ cmake ninja-build ccache pkg-config git ca-certificates
  libopenmpi-dev openmpi-bin libprotobuf-dev protobuf-compiler libabsl-dev libdnnl-dev
  nlohmann-json3-dev libisal-dev libzstd-dev zlib1g-dev libutf8proc-dev catch2)
# openssh-server and iproute2: two hosts on one machine (tests/testing/two_hosts.sh). On a machine of your
# own the tests that need them are skipped, because the package starts an ssh server.
# slurmctld and slurmd: a Slurm cluster of these hosts (slurm_cluster.sh). The packages start munged, where
# packages may start anything; Slurm's own daemons want a configuration first.
# mpich: one build runs under both families of MPI libraries (comm/mpi_communicator_test).
check_packages=(clang-format-14 clang-22 clang-tidy-22 doxygen python3 sentencepiece iproute2 openssh-server
  slurmctld slurmd mpich)

# Installs those of the given packages that are missing, as root or through sudo.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "Installing: ${missing[*]}"
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# configure_preset PRESET [OPTION...]: shows of cmake's output what it found, or all where it fails.
configure_preset() {
  local log
  log=$(mktemp)
  cmake --preset "$@" >"$log" 2>&1 || {
    cat "$log"
    return 1
  }
  grep -- '-- dtrain' "$log" || true
  rm -f "$log"
}

# Configures and builds a preset: options for cmake's configure step (-D...), then those of its build
# step from --target on.
build_preset() {
  local preset=$1 configure=()
  shift
  while [ $# -gt 0 ] && [ "$1" != --target ]; do
    configure+=("$1")
    shift
  done
  configure_preset "$preset" "${configure[@]}"
  cmake --build "build/$preset" "$@"
}

# The presets compile most files alike: with paths below the project taken as relative ones, ccache
# compiles these once.
export CCACHE_BASEDIR=$project_dir

# mpirun refuses to run as root without these two; containers have no other user.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
