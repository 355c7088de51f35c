#!/usr/bin/env bash
# make_bundle.sh - packs programs, kernel tests and the libraries they need into a folder that runs elsewhere.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/make_bundle.sh [OUT]        builds into build/bundle, writes OUT/ and OUT.tar.gz
#                                     (OUT: build/dtrain-bundle)
#
# The other machine needs glibc of this one's version or later, a GPU's driver and, for matrix
# products, CUDA's cuBLASLt: of the toolkit or of Python's nvidia packages. There:
#   tar xzf dtrain-bundle.tar.gz && dtrain-bundle/run gpu_check.sh
#   dtrain-bundle/run mpirun -n 2 nmt_train --version
set -euo pipefail
source "$(dirname "$0")/setup.sh"

most_mib=60
out=${1:-build/dtrain-bundle}
case $out in /*) ;; *) out=$PWD/$out ;; esac
build=build/bundle
install_packages "${build_packages[@]}" patchelf

# One libdtrain for all programs: its kernels are most of their size.
cmake --preset cuda -B $build -DBUILD_SHARED_LIBS=ON >/dev/null
mapfile -t kernel_tests < <(ctest --test-dir $build -N -L kernel | sed -n 's|^ *Test *#[0-9]*: ||p')
[ ${#kernel_tests[@]} -gt 0 ] || { echo "make_bundle.sh: $build has no kernel tests" >&2; exit 1; }
mapfile -t test_programs < <(printf '%s\n' "${kernel_tests[@]}" | sed 's|/cuda$||; s|/|_|g' | sort -u)
programs=(nmt_train dtrain kernel_bench op_bench dtrain_step_bench)
cmake --build $build --target nmt_train dtrain_tool kernel_bench op_bench dtrain_step_bench \
  "${test_programs[@]}"

rm -rf "$out" "$out.tar.gz"
mkdir -p "$out"/{bin,lib/fallback,etc,share/dtrain,tests}
for program in "${programs[@]}"; do cp $build/bin/"$program" "$out/bin/"; done
for program in "${test_programs[@]}"; do cp $build/tests/"$program" "$out/tests/"; done
cp -P $build/libdtrain/libdtrain.so.*.*.* "$out/lib/$(basename $build/libdtrain/libdtrain.so.*.*.*)"
ln -s "$(basename $build/libdtrain/libdtrain.so.*.*.*)" \
  "$out/lib/$(patchelf --print-soname $build/libdtrain/libdtrain.so)"
printf '%s\n' "${kernel_tests[@]}" >"$out/tests/kernel_tests.txt"
cp -r tests/golden "$out/tests/"
mkdir -p "$out/share/dtrain/nmt_train"
cp -r examples/nmt_train/{configs,data} "$out/share/dtrain/nmt_train/"
cp tools/gpu_check.sh "$out/bin/"
mkdir -p "$out/share/dtrain/bench"
cp tools/bench/peer_torch.py tools/bench/peer_model.py "$out/share/dtrain/bench/"
{ git describe --always --dirty 2>/dev/null || echo "of no commit"; } >"$out/share/dtrain/commit"

# ---- Open MPI: mpirun, its plugins and its texts, at the places below its prefix where it looks ----
mpi_plugins=lib/$(gcc -print-multiarch)/openmpi/lib/openmpi3
pmix_plugins=/usr/lib/$(gcc -print-multiarch)/pmix2/lib/pmix
mkdir -p "$out/$mpi_plugins" "$out/lib/pmix"
cp -L "$(command -v mpirun)" "$out/bin/mpirun"
cp -L "$(command -v orted)" "$out/bin/orted"
cp -r /usr/share/openmpi "$out/share/"
rm -f "$out"/share/openmpi/*wrapper-data*
# Without the transports of special networks and other people's schedulers: they drag in more
# libraries than all the rest.
unwanted='ucx|_ofi|psm|openib|memheap|spml|scoll|sshmem|flux|monitoring|jsm|slurm|gridengine|romio|atomic_|dbg'
for plugin in /usr/"$mpi_plugins"/mca_*.so; do
  [[ $(basename "$plugin") =~ $unwanted ]] || cp "$plugin" "$out/$mpi_plugins/"
done
cp "$pmix_plugins"/*.so "$out/lib/pmix/"
rm -f "$out"/lib/pmix/*slurm*

# ---- the libraries all of these need, but for the system's own and CUDA's ----
system='ld-linux|/lib(c|m|pthread|dl|rt|resolv|util)\.so|/libcuda|/libcublas|/libnv|/libdtrain'
LD_LIBRARY_PATH=$build/libdtrain ldd "${programs[@]/#/$out/bin/}" "$out"/bin/{mpirun,orted} \
  "$out"/tests/*_test "$out"/lib/libdtrain.so.*.*.* "$out/$mpi_plugins"/*.so "$out"/lib/pmix/*.so |
  awk '$3 ~ /^\// {print $3}' | sort -u | grep -vE "$system" |
  while read -r library; do cp -L "$library" "$out/lib/"; done
# The C++ library: of the machine where it has one, because other programs' plugins may need a later
# one than ours.
mv "$out"/lib/libstdc++.so.6 "$out"/lib/libgcc_s.so.1 "$out/lib/fallback/"

set_rpath() {
  local rpath=$1 file
  shift
  for file in "$@"; do
    [ -L "$file" ] || patchelf --force-rpath --set-rpath "$rpath" "$file"
  done
}
strip --strip-unneeded "${programs[@]/#/$out/bin/}" "$out"/tests/*_test
find "$out/lib" -name '*.so*' -type f -exec chmod u+w {} + -exec strip --strip-unneeded {} +
set_rpath '$ORIGIN/../lib' "${programs[@]/#/$out/bin/}" "$out"/bin/{mpirun,orted} "$out"/tests/*_test
set_rpath '$ORIGIN/..' "$out"/lib/pmix/*.so
set_rpath '$ORIGIN' "$out"/lib/*.so*
set_rpath '$ORIGIN/../../../..' "$out/$mpi_plugins"/*.so

cat >"$out/env.sh" <<'END'
# env.sh - source it: paths of this bundle, wherever it lies, and of this machine's CUDA libraries.
# SPDX-License-Identifier: Apache-2.0
bundle=$(cd "$(dirname "${BASH_SOURCE:-$0}")" && pwd)
export PATH=$bundle/bin:$PATH DTRAIN_TESTS_DIR=$bundle/tests
# Open MPI looks for its plugins and texts below these; it needs no special network and, on one
# machine, no ssh.
export OPAL_PREFIX=$bundle OPAL_SYSCONFDIR=$bundle/etc OPAL_DATADIR=$bundle/share
export PMIX_INSTALL_PREFIX=$bundle PMIX_LIBDIR=$bundle/lib PMIX_PKGLIBDIR=$bundle/lib/pmix
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_osc=^ucx OMPI_MCA_plm_rsh_agent=ssh:rsh:sh
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# cuBLASLt, in the toolkit or in Python's packages; the driver where containers mount it.
for file in /usr/local/cuda/lib64/libcublasLt.so.1? /usr/local/cuda/targets/*/lib/libcublasLt.so.1? \
  /usr/local/nvidia/lib64/libcuda.so.1 \
  $(python3 -c 'import sys; print(*(p + "/nvidia/c*/lib/libcublasLt.so.1?" for p in sys.path))' \
    2>/dev/null); do
  if [ -e "$file" ]; then
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$file")
  fi
done
# The C++ library, where the machine has none or one that is too old.
if ! "$bundle/bin/nmt_train" --version >/dev/null 2>&1; then
  LD_LIBRARY_PATH=$bundle/lib/fallback${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export LD_LIBRARY_PATH
END
cat >"$out/run" <<'END'
#!/bin/sh
# run - runs a program of this bundle: run nmt_train ..., run mpirun -n 2 ..., run gpu_check.sh.
# SPDX-License-Identifier: Apache-2.0
bundle=$(cd "$(dirname "$0")" && pwd)
BASH_SOURCE=$bundle/env.sh
. "$bundle/env.sh"
exec "$@"
END
chmod +x "$out/run"

tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")"
bytes=$(stat -c %s "$out.tar.gz")
echo "$out.tar.gz: $((bytes >> 20)) MiB, unpacked $(du -sm "$out" | cut -f1) MiB," \
  "${#kernel_tests[@]} kernel tests"
[ "$bytes" -le $((most_mib << 20)) ] || {
  echo "make_bundle.sh: that is more than $most_mib MiB" >&2
  exit 1
}
