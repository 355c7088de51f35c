#!/usr/bin/env bash
# consumer_test.sh - installs dtrain, builds the examples against it and trains with them.
# SPDX-License-Identifier: Apache-2.0
#
#   consumer_test.sh CMAKE BUILD_DIR EXAMPLES_DIR CXX_COMPILER MPIRUN [FLAG...]
set -euo pipefail
cmake=$1 build=$2 examples=$3 compiler=$4
mpirun=("${@:5}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$folder/prefix/bin/dtrain" version

# Nothing but the public headers is installed, and they need no header of another library.
count=$(find "$folder/prefix/include" -name '*.h' | wc -l)
[ "$count" -le 44 ] || { echo "$count headers are installed"; exit 1; }
for header in $(cd "$folder/prefix/include" && find . -name '*.h'); do
  echo "#include \"${header#./}\""
done >"$folder/all.cc"
"$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -I"$folder/prefix/include" "$folder/all.cc"

# Only the project and the prefix: nothing of the source tree must be needed.
for project in collectives custom_trainer; do
  cp -r "$examples/$project" "$folder/project-$project"
  "$cmake" -S "$folder/project-$project" -B "$folder/$project" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$folder/prefix"
  "$cmake" --build "$folder/$project"
done

# The loss of two classes starts at ln 2 = 0.69; a model that learns is near 0 at the end.
check() {
  local last=$1
  echo "$last"
  [[ $last =~ ^update\ 200:\ loss\ ([0-9.]+),\ accuracy ]] || { echo "unexpected last line"; exit 1; }
  awk -v loss="${BASH_REMATCH[1]}" 'BEGIN { exit !(loss < 0.2) }' ||
    { echo "the loss did not fall"; exit 1; }
}
cd "$folder"
trainer=$folder/custom_trainer/custom_trainer
check "$("$trainer" one 200 | tail -n 1)"
check "$("${mpirun[@]}" -n 2 "$trainer" sentiment 200 | tail -n 1)"
[ -f "$folder/sentiment/last/COMPLETE" ] || { echo "no checkpoint"; exit 1; }
"${mpirun[@]}" -n 2 "$folder/collectives/collectives" | grep 'of 101 rows'

# The build folder is no package, and says what is.
if "$cmake" -S "$folder/project-custom_trainer" -B "$folder/uninstalled" -Ddtrain_DIR="$build" \
    >"$folder/log" 2>&1; then
  echo "the build folder was taken for an installation"; exit 1
fi
tr -s ' \n' ' ' <"$folder/log" | grep -q "is dtrain's build folder: cmake --install it" ||
  { cat "$folder/log"; exit 1; }

# A project that takes dtrain in keeps its own build type, and so none.
mkdir "$folder/outer"
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(outer LANGUAGES C CXX)' \
  "add_subdirectory(\"$examples/..\" dtrain)" 'message(STATUS "type <${CMAKE_BUILD_TYPE}>")' \
  >"$folder/outer/CMakeLists.txt"
"$cmake" -S "$folder/outer" -B "$folder/outer/build" -DCMAKE_CXX_COMPILER="$compiler" \
  -DDTRAIN_CUDA=OFF >"$folder/log" || { cat "$folder/log"; exit 1; }
grep -q 'type <>' "$folder/log" || { cat "$folder/log"; exit 1; }

# A minor version that is not there is refused.
sed -i 's/dtrain 0\.1/dtrain 0.2/' "$folder/project-custom_trainer/CMakeLists.txt"
if "$cmake" -S "$folder/project-custom_trainer" -B "$folder/other" -DCMAKE_PREFIX_PATH="$folder/prefix" \
    >"$folder/log" 2>&1; then
  echo "version 0.2 was accepted"; exit 1
fi
grep -q 'requested version "0.2"' "$folder/log" || { cat "$folder/log"; exit 1; }
