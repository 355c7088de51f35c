#!/usr/bin/env bash
# make_api_pages.sh - builds the pages of the C++ interface into build/api; a warning is an error.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/make_api_pages.sh && xdg-open build/api/index.html
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build
headers=$(python3 -c 'import sys; sys.path.insert(0, "tools"); import check_house
print(*("libdtrain/" + header for header in check_house.public_headers()))')
version=$(sed -n 's/^project(dtrain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
{
  cat docs/Doxyfile
  echo "INPUT = docs/api.md $headers"
  echo "PROJECT_NUMBER = $version"
} | doxygen -
echo "$(wc -w <<<"$headers") headers: build/api/index.html"
