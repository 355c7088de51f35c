#!/usr/bin/env bash
# configure_test.sh - what cmake says of a compiler or a library that is too old, or is not there.
# SPDX-License-Identifier: Apache-2.0
#
#   configure_test.sh CMAKE SOURCE_DIR DNNL_INCLUDE_DIR
set -euo pipefail
cmake=$1 source=$2 dnnl=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# refuses NAME EXPECTED OPTION...: configuring ends with an error that has these words.
refuses() {
  local name=$1 expected=$2
  shift 2
  if "$cmake" -G Ninja -S "$source" -B "$folder/$name" -DDTRAIN_CUDA=OFF -DDTRAIN_TESTS=OFF "$@" >"$folder/$name.log" 2>&1; then
    echo "$name: configured, though it must not"
    exit 1
  fi
  # CMake breaks lines.
  tr -s ' \n' ' ' <"$folder/$name.log" | grep -qF -- "$expected" || {
    echo "$name: not said: $expected"
    cat "$folder/$name.log"
    exit 1
  }
}

mkdir -p "$folder/dnnl/oneapi/dnnl"
cp "$dnnl/oneapi/dnnl/dnnl.hpp" "$folder/dnnl/oneapi/dnnl/"
printf '#define DNNL_VERSION_MAJOR 1\n#define DNNL_VERSION_MINOR 8\n' >"$folder/dnnl/oneapi/dnnl/dnnl_version.h"
refuses dnnl "dtrain needs oneDNN 2.2 or later, and found 1.8. Its header is in $folder/dnnl." \
  "-DDNNL_INCLUDE_DIR=$folder/dnnl"

if command -v g++ >/dev/null; then
  # It says of itself that it is version 9.
  printf '#!/bin/sh\nexec g++ -U__GNUC__ -D__GNUC__=9 "$@"\n' >"$folder/g++-9"
  chmod +x "$folder/g++-9"
  refuses compiler "dtrain needs g++ 11 or later, and found 9." "-DCMAKE_CXX_COMPILER=$folder/g++-9"
fi

refuses missing "dtrain needs zlib. On Debian: apt-get install zlib1g-dev" -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON
