# pack.sh - sourced by bundle.sh and make_wheel.sh: programs with the libraries they need, to run elsewhere.
# SPDX-License-Identifier: Apache-2.0

# What the other machine has itself: the C library, CUDA and its driver. libdtrain is installed already.
foreign_libraries='ld-linux|/lib(c|m|pthread|dl|rt|resolv|util)\.so|/libcuda|/libcublas|/libnv|/libdtrain'

# libraries_of FILE...: the paths of the libraries that programs and libraries load.
libraries_of() { ldd "$@" | awk '$3 ~ /^\// {print $3}' | sort -u | grep -vE "$foreign_libraries"; }

# copy_licences FOLDER FILE...: those of the Debian packages that the files are from.
copy_licences() {
  local folder=$1 file path package
  shift
  mkdir -p "$folder"
  for file in "$@"; do
    path=$(realpath "$file")
    # Packages name /lib what is /usr/lib.
    package=$(dpkg-query -S "*${path#/usr}" | head -n 1 | cut -d: -f1) || fail "no package has $path"
    cp -L "/usr/share/doc/$package/copyright" "$folder/$package" ||
      fail "the licence of $package is not installed"
  done
}

# set_rpath RPATH FILE...: where they look for libraries before anywhere else.
set_rpath() {
  local rpath=$1 file
  shift
  for file in "$@"; do
    [ -L "$file" ] || patchelf --force-rpath --set-rpath "$rpath" "$file"
  done
}

# strip_libraries FOLDER: all below it.
strip_libraries() {
  find "$1" -name '*.so*' -type f -exec chmod u+w {} + -exec strip --strip-unneeded {} +
}
