#!/usr/bin/env bash
# test.sh - installs what is missing, builds, and runs every test that needs no GPU.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/test.sh                 the tests of the release build
#   tools/test.sh --sanitizers    before them, the unit tests under ASan+UBSan and TSan
set -euo pipefail
source "$(dirname "$0")/setup.sh"
install_packages "${build_packages[@]}" sentencepiece

if [ "${1:-}" = --sanitizers ]; then
  for preset in tsan asan; do
    build_preset "$preset"
    ctest --preset "$preset" -LE 'mpi|slow' -j 2 --quiet ||
      { ctest --preset "$preset" -LE 'mpi|slow' --rerun-failed --output-on-failure; exit 1; }
    echo "$preset: unit tests passed"
  done
fi

build_preset cpu -DDTRAIN_WERROR=ON
ctest --preset cpu -j 2
