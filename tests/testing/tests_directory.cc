// tests_directory.cc - the one file of the tests that knows where the sources are.
// SPDX-License-Identifier: Apache-2.0
#include "testing/tests_directory.h"

#include <cstdlib>

#include "testing/catch.h"

namespace dtrain::testing {
namespace {

std::string Directory(const char* variable, const char* in_the_sources) {
  const char* const moved = std::getenv(variable);
  return moved != nullptr ? moved : std::string(DTRAIN_SOURCE_DIR) + in_the_sources;
}

}  // namespace

std::string GoldenPath(const std::string& name) {
  return Directory("DTRAIN_TESTS_DIR", "/tests") + "/golden/" + name;
}

std::string PresetsDirectory(const std::string& program) {
  return Directory("DTRAIN_EXAMPLES_DIR", "/examples") + "/" + program + "/configs";
}

std::optional<std::filesystem::path> SharedPath(const std::string& name) {
  std::filesystem::path path = Directory("DTRAIN_SHARED_DIR", "/../shared") + "/" + name;
  if (std::filesystem::exists(path)) return path;
  WARN("skipped: no " << path.string());
  return std::nullopt;
}

}  // namespace dtrain::testing
