#!/usr/bin/env bash
# bundle.sh - packs programs, tests and the libraries they need into a folder that runs elsewhere.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/bundle.sh [--preset cuda|cpu] [--tests REGEX] [OUT]
# writes OUT/ and OUT.tar.xz (build/dtrain-bundle), with all tests or those whose names match.
#
# The other machine needs glibc of this one's version or later and, for the CUDA device, a GPU's driver
# and CUDA's cuBLASLt: of the toolkit or of Python's nvidia packages. There:
#   tar xJf dtrain-bundle.tar.xz && dtrain-bundle/run_tests.sh
#   dtrain-bundle/run gpu_check.sh
#   dtrain-bundle/run mpirun -n 2 nmt_train --version
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
most_mib=60
preset=cuda out=build/dtrain-bundle pattern=.
# Tests that start programs at their place in the build, and those of the executor that stands in for a
# GPU there, which finds names of kernels in symbols.
not_movable='^(launch/main|tools/dtrain_tool|device/host_executor|device/race_detector)_test'

fail() { echo "bundle.sh: $1" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=${2:?--preset takes cuda or cpu}; shift ;;
    --tests) pattern=${2:?--tests takes a regular expression}; shift ;;
    -h | --help) sed -n '5,13s/^# \{0,1\}//p' "$here/bundle.sh"; exit 0 ;;
    -*) fail "unknown argument $1" ;;
    *) out=$1 ;;
  esac
  shift
done
out=$(realpath -m "$out")
# It is emptied at the end: only what an earlier call made, or nothing.
[ ! -e "$out" ] || [ -e "$out/share/dtrain/commit" ] || [ -z "$(ls -A "$out" 2>/dev/null)" ] ||
  fail "$out is there and is no bundle: give another folder"
# shellcheck source=tools/setup.sh
source "$here/setup.sh"
# shellcheck source=tools/pack.sh
source "$here/pack.sh"
install_packages "${build_packages[@]}" patchelf python3 xz-utils

# ---- build and install: one libdtrain for all programs, as its kernels are most of their size ----
build=build/bundle-$preset
configure_preset "$preset" -B "$build" -DBUILD_SHARED_LIBS=ON -DDTRAIN_TESTS=ON -DCMAKE_INSTALL_LIBDIR=lib
movable=(--test-dir "$build" -L 'unit|kernel|mpi' -R "$pattern" -E "$not_movable")
mapfile -t test_programs < <(tools/list_tests.py --programs "${movable[@]}")
[ ${#test_programs[@]} -gt 0 ] || fail "$build has no tests"
test_programs+=(comm_job_end_program)  # of comm_job_end_test
benches=(op_bench dtrain_step_bench)
[ "$preset" = cpu ] || benches+=(kernel_bench)
cmake --build "$build" --target nmt_train bert_classify bert_pretrain bert_squad bert_tag lm_train dtrain_tool "${benches[@]}" "${test_programs[@]}"

rm -rf "$out" "$out.tar.xz"
mkdir -p "$out"/{etc,lib/fallback,tests,share/dtrain/bench}
cmake --install "$build" --prefix "$out" >/dev/null
rm -r "$out/include" "$out/lib/cmake"
cp "${benches[@]/#/$build/bin/}" tools/{gpu_check.sh,lab.py} "$out/bin/"
cp "${test_programs[@]/#/$build/tests/}" "$out/tests/"
tools/list_tests.py "${movable[@]}" >"$out/tests/tests.txt"
mkdir "$out/tests/golden"
cp -r tests/golden/*.{json,safetensors} tests/golden/pretrained "$out/tests/golden/"
for program in nmt_train bert_classify; do
  cp -r examples/$program/data "$out/share/dtrain/$program/"
done
cp tools/bench/peer_*.py "$out/share/dtrain/bench/"
cp tools/bundle/{env.sh,run,run_tests.sh} LICENSE "$out/"
{ git describe --always --dirty 2>/dev/null || echo "of no commit"; } >"$out/share/dtrain/commit"
programs=("$out"/bin/{nmt_train,bert_classify,bert_pretrain,bert_squad,bert_tag,lm_train,dtrain} "${benches[@]/#/$out/bin/}")
tests=("${test_programs[@]/#/$out/tests/}")

# ---- Open MPI: mpirun, its plugins and its texts, at the places below its prefix where it looks ----
multiarch=$(gcc -print-multiarch)
mpi_plugins=lib/$multiarch/openmpi/lib/openmpi3
mkdir -p "$out/$mpi_plugins" "$out/lib/pmix"
mpi_programs=("$(command -v mpirun)" "$(command -v orted)")
cp -L "${mpi_programs[0]}" "$out/bin/mpirun"
cp -L "${mpi_programs[1]}" "$out/bin/orted"
cp -r /usr/share/openmpi "$out/share/"
rm -f "$out"/share/openmpi/*wrapper-data*
# Without the transports of special networks and other people's schedulers: they drag in more
# libraries than all the rest.
unwanted='ucx|_ofi|psm|openib|memheap|spml|scoll|sshmem|flux|monitoring|jsm|slurm|gridengine|romio|atomic_|dbg'
for plugin in /usr/"$mpi_plugins"/mca_*.so; do
  [[ $(basename "$plugin") =~ $unwanted ]] || cp "$plugin" "$out/$mpi_plugins/"
done
cp /usr/lib/"$multiarch"/pmix2/lib/pmix/*.so "$out/lib/pmix/"
rm -f "$out"/lib/pmix/*slurm*

# ---- the libraries all of these need, but for the system's own and CUDA's; and their licences ----
# Programs are not linked with the MPI library: they open it.
mpi_library=$(ldconfig -p | awk '$1 == "libmpi.so.40" {print $NF; exit}')
mapfile -t libraries < <(LD_LIBRARY_PATH=$out/lib libraries_of "${programs[@]}" "${tests[@]}" \
  "$out"/bin/{mpirun,orted} "$out/lib/libdtrain.so" "$mpi_library" "$out/$mpi_plugins"/*.so "$out"/lib/pmix/*.so)
libraries+=("$mpi_library")
cp -L "${libraries[@]}" "$out/lib/"
# The C++ library: of the machine where it has one, because other programs' plugins may need a later
# one than ours.
mv "$out"/lib/libstdc++.so.6 "$out"/lib/libgcc_s.so.1 "$out/lib/fallback/"
copy_licences "$out/licenses" "${libraries[@]}" "${mpi_programs[@]}"
strip --strip-unneeded "${programs[@]}" "${tests[@]}"
strip_libraries "$out/lib"
# shellcheck disable=SC2016  # $ORIGIN is the loader's
{
  set_rpath '$ORIGIN/../lib' "${programs[@]}" "${tests[@]}" "$out"/bin/{mpirun,orted}
  set_rpath '$ORIGIN/..' "$out"/lib/pmix/*.so
  set_rpath '$ORIGIN' "$out"/lib/*.so*
  set_rpath '$ORIGIN/../../../..' "$out/$mpi_plugins"/*.so
}

tar -C "$(dirname "$out")" -I 'xz -T0' -cf "$out.tar.xz" "$(basename "$out")"
bytes=$(stat -c %s "$out.tar.xz")
echo "$out.tar.xz: $((bytes >> 20)) MiB, unpacked $(du -sm "$out" | cut -f1) MiB," \
  "$(wc -l <"$out/tests/tests.txt") tests"
[ "$bytes" -le $((most_mib << 20)) ] || fail "that is more than $most_mib MiB"
