#!/usr/bin/env bash
# test.sh - installs what is missing, builds, and runs every test that needs no GPU.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/test.sh                 the tests of the release build
#   tools/test.sh --sanitizers    before them, unit tests under ASan+UBSan and TSan, kernels under ASan, fuzzers
set -euo pipefail
case ${1:-} in
  '' | --sanitizers) [ $# -le 1 ] || { echo "test.sh: unknown argument $2" >&2; exit 2; } ;;
  -h | --help) sed -n '2p;5,6p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "test.sh: unknown argument $1 (see --help)" >&2; exit 2 ;;
esac
source "$(dirname "$0")/setup.sh"
install_packages "${build_packages[@]}" python3 sentencepiece

if [ "${1:-}" = --sanitizers ]; then
  # TSan sees ranks as threads; the OpenMP runtime is not built for it, so it runs what needs none: the
  # tests that the preset names.
  configure_preset tsan -DDTRAIN_EXAMPLES=OFF -DDTRAIN_TOOLS=OFF
  mapfile -t tsan_tests < <(tools/list_tests.py --programs --preset tsan)
  cmake --build --preset tsan --target "${tsan_tests[@]}"
  ctest --preset tsan
  build_preset asan -DDTRAIN_EXAMPLES=OFF -DDTRAIN_TOOLS=OFF
  ctest --preset asan -j 2
  # What CUDA kernels access. Without the tests whose streams run late: there memory may have a new owner,
  # as the host sees it, before the old one's work is done.
  configure_preset host-executor-asan
  mapfile -t kernel_tests < <(tools/list_tests.py --programs --preset host-executor-asan)
  cmake --build --preset host-executor-asan --target "${kernel_tests[@]}"
  ctest --preset host-executor-asan -j 2
  # Parsers of files from elsewhere: their fuzzers name the sources they link, which else nobody would miss.
  install_packages clang-16 libclang-rt-16-dev libomp-16-dev
  configure_preset fuzz
  cmake --build build/fuzz --target fuzzers
  ctest --test-dir build/fuzz -L fuzz -j 2
fi

# In CI warnings are errors.
werror=${CI:+-DDTRAIN_WERROR=ON}
# The CUDA kernels, run on this machine's processor by the host executor. Only the tests of kernels are built.
configure_preset host-executor $werror
mapfile -t kernel_tests < <(tools/list_tests.py --programs --preset host-executor)
cmake --build --preset host-executor --target "${kernel_tests[@]}"
ctest --preset host-executor -j 2
# And compiled for every architecture, where nvcc is at hand: no spill, no more registers or shared
# memory than tests/device/kernel_resources.tsv says.
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  build_preset cuda -DDTRAIN_TESTS=OFF $werror
  tools/check_kernels.py
else
  echo "CUDA kernels are not compiled: there is no nvcc here"
fi
# Last, because its summary is the one to read: the same build as the demo's.
build_preset cpu -DDTRAIN_TESTS=ON $werror
ctest --preset cpu -j 2
