#!/usr/bin/env bash
# consumer_test.sh - installs dtrain, builds a project against it and trains with the result.
# SPDX-License-Identifier: Apache-2.0
#
#   consumer_test.sh CMAKE BUILD_DIR PROJECT_DIR MPIEXEC CXX_COMPILER
set -euo pipefail
cmake=$1 build=$2 project=$3 mpiexec=$4 compiler=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$folder/prefix/bin/dtrain" version

# Only the project and the prefix: nothing of the source tree must be needed.
cp -r "$project" "$folder/project"
"$cmake" -S "$folder/project" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$folder/prefix"
"$cmake" --build "$folder/build"

# The loss of two classes starts at ln 2 = 0.69; a model that learns is near 0 at the end.
check() {
  local last=$1
  echo "$last"
  [[ $last =~ ^step\ 200:\ loss\ ([0-9.]+)$ ]] || { echo "unexpected last line"; exit 1; }
  awk -v loss="${BASH_REMATCH[1]}" 'BEGIN { exit !(loss < 0.2) }' ||
    { echo "the loss did not fall"; exit 1; }
}
cd "$folder"
check "$("$folder/build/custom_trainer" | tail -n 1)"
check "$("$mpiexec" --oversubscribe -n 2 "$folder/build/custom_trainer" | tail -n 1)"
[ -f "$folder/sentiment/last/COMPLETE" ] || { echo "no checkpoint"; exit 1; }

# A minor version that is not there is refused.
sed -i 's/dtrain 0\.1/dtrain 0.2/' "$folder/project/CMakeLists.txt"
if "$cmake" -S "$folder/project" -B "$folder/other" -DCMAKE_PREFIX_PATH="$folder/prefix" \
    >"$folder/log" 2>&1; then
  echo "version 0.2 was accepted"; exit 1
fi
grep -q 'requested version "0.2"' "$folder/log" || { cat "$folder/log"; exit 1; }
