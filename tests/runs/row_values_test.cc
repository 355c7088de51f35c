// row_values_test.cc - values per row come back from their file, and damage is an error.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/row_values.h"

#include <filesystem>
#include <string>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

RowValues Example() {
  RowValues values{.step = 1200, .rows = {0, 4, 8}};
  values.AddRatio("nll", {2.5F, 3.0F, 1.25F}, {10.0F, 12.0F, 4.0F});
  values.columns.push_back({.name = std::string(kPredictionColumn),
                            .width = 2,
                            .values = {.1F, .9F, .2F, .8F, .7F, .3F}});
  return values;
}

TEST_CASE("values per row come back from their file") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.File("metrics"));
  const std::string path = RowValuesPath(folder.path(), "last");
  CHECK(path == folder.File("metrics/rows-last.safetensors"));
  REQUIRE(WriteRowValues(path, Example()).ok());
  const StatusOr<RowValues> read = ReadRowValues(path);
  REQUIRE(read.ok());
  CHECK(read->step == 1200);
  CHECK(read->rows == Example().rows);
  for (const RowValues::Column& column : Example().columns) {
    INFO(column.name);
    REQUIRE(read->Find(column.name) != nullptr);
    CHECK(read->Find(column.name)->width == column.width);
    CHECK(read->Find(column.name)->values == column.values);
  }
  CHECK(read->Find("bleu") == nullptr);
}

TEST_CASE("a file that is missing or cut is an error, a column of another length is not found") {
  const TemporaryFolder folder;
  const std::string path = folder.File("rows");
  CHECK_FALSE(ReadRowValues(path).ok());
  REQUIRE(WriteRowValues(path, Example()).ok());
  WriteTestFile(path, ReadTestFile(path).substr(0, 300));
  CHECK(ReadRowValues(path).status().code() == ExitCode::kStorage);
  RowValues values = Example();
  values.rows.push_back(12);
  CHECK(values.Find("nll.sum") == nullptr);
}

}  // namespace
}  // namespace dtrain
