// tests_directory.h - where tests find their files: in the sources, or where variables say.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_TESTS_DIRECTORY_H_
#define DTRAIN_TESTS_TESTING_TESTS_DIRECTORY_H_

#include <filesystem>
#include <optional>
#include <string>

namespace dtrain::testing {

// A file or folder below tests/golden/; of DTRAIN_TESTS_DIR where tests/ was moved to.
std::string GoldenPath(const std::string& name);

// The folder with the presets of a program, as examples/nmt_train/configs; below
// DTRAIN_EXAMPLES_DIR where examples/ was moved to.
std::string PresetsDirectory(const std::string& program);

// Data that are not part of the project: below DTRAIN_SHARED_DIR, or shared/ beside the sources.
// Where there is no such file or folder: nothing, and Catch2 warns that the test is skipped.
std::optional<std::filesystem::path> SharedPath(const std::string& name);

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_TESTS_DIRECTORY_H_
