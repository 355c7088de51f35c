// delimited_fuzz.h - what holds for any bytes read as a table, of whatever format.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_FUZZ_DELIMITED_FUZZ_H_
#define DTRAIN_TESTS_FUZZ_DELIMITED_FUZZ_H_

#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/delimited_reader.h"
#include "fuzz/fuzz_file.h"

namespace dtrain {

struct FuzzRow {
  int64_t row, line;
  RowProblem problem;
  std::string description;
  std::vector<std::optional<std::string>> fields;
  bool operator==(const FuzzRow&) const = default;
};

// Nothing where the file is refused, or its compression is damaged somewhere.
inline std::optional<std::vector<FuzzRow>> ReadFuzzRows(const std::string& path,
                                                        const DelimitedOptions& options) {
  StatusOr<DelimitedReader> reader = DelimitedReader::Open(path, options);
  if (!reader.ok()) {
    DT_CHECK(reader.status().code() == ExitCode::kData) << reader.status().message();
    return std::nullopt;
  }
  std::vector<FuzzRow> rows;
  for (RecordBlock block;;) {
    const StatusOr<bool> more = reader->NextBlock(block);
    if (!more.ok()) return std::nullopt;
    if (!*more) return rows;
    DT_CHECK(block.size() > 0) << "an empty block";
    for (int64_t i = 0; i < block.size(); ++i) {
      const RowInfo& info = block.row(i);
      FuzzRow row{info.row, info.line, info.problem, reader->DescribeProblem(info), {}};
      for (size_t c = 0; c < options.columns.size(); ++c) {
        const std::string_view field = block.field(i, static_cast<int64_t>(c));
        row.fields.emplace_back();
        if (field.data() == nullptr) continue;
        DT_CHECK(info.problem == RowProblem::kNone) << "fields of a broken row";
        DT_CHECK(IsValidUtf8(field)) << "not UTF-8";
        DT_CHECK(field.find('\0') == std::string_view::npos) << "a NUL";
        row.fields.back() = field;
      }
      DT_CHECK_EQ(info.row, static_cast<int64_t>(rows.size()) + 1);
      DT_CHECK(rows.empty() || info.line > rows.back().line) << info.line;
      rows.push_back(std::move(row));
    }
  }
}

// Reads twice: what comes out must not depend on where blocks end.
inline std::optional<std::vector<FuzzRow>> FuzzTable(const uint8_t* data, size_t size,
                                                     DelimitedOptions options) {
  const FuzzFile file(data, size);
  options.max_record_bytes = 300;
  options.block_bytes = 4096;
  const auto rows = ReadFuzzRows(file.path(), options);
  options.block_bytes = 13;
  DT_CHECK(rows == ReadFuzzRows(file.path(), options)) << "rows depend on the size of blocks";
  return rows;
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_FUZZ_DELIMITED_FUZZ_H_
