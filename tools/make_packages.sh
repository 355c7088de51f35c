#!/usr/bin/env bash
# make_packages.sh - builds the Debian packages of this release: the programs, the library, its headers.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/make_packages.sh [OPTION...]     installs what is missing, writes build/deb/packages/*.deb
#   apt-get install ./build/deb/packages/{dtrain,libdtrain[0-9]}*.deb
#
# Options go to cmake: -DDTRAIN_CUDA=ON, or -DDTRAIN_PACKAGE_MAINTAINER='Jane Doe <jane@doe.org>', whom the
# packages then name.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '5,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=tools/setup.sh
source "$(dirname "$0")/setup.sh"
install_packages "${build_packages[@]}"

# Those of an earlier version would be installed beside these.
rm -f build/deb/packages/*.deb
configure_preset deb "$@"
cmake --build --preset deb
ls -lh build/deb/packages/*.deb
