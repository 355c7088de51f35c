// record_parsers.h - cut one record of CSV, TSV or JSON lines out of a buffer.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_RECORD_PARSERS_H_
#define DTRAIN_DATA_INTERNAL_RECORD_PARSERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/data/delimited_reader.h"

namespace dtrain::internal {

// The bytes at hand, from the beginning of a record on.
struct RecordWindow {
  char* begin = nullptr;
  char* end = nullptr;
  bool at_end = false;  // the file ends at `end`
};

struct RawField {
  char* begin = nullptr;
  char* end = nullptr;
  bool escaped = false;  // CSV: holds doubled quotes
};

struct RawRecord {
  std::vector<RawField> fields;
  RowProblem problem = RowProblem::kNone;
  int32_t column = -1;  // of the problem
  const char* detail = nullptr;
  char* next = nullptr;  // where the next record begins
  bool blank = false;
  bool quoted = false;  // where the record is incomplete: inside quotes

  void Clear() {
    fields.clear();
    problem = RowProblem::kNone;
    column = -1;
    detail = nullptr;
    blank = quoted = false;
  }
};

// False when the window ends before the record does; the buffer is not changed.
bool ParseCsvRecord(const RecordWindow& window, char delimiter, RawRecord& record);
bool ParseTsvRecord(const RecordWindow& window, char delimiter, RawRecord& record);

// The text of a field; doubled quotes become one, in place, at the first call.
std::string_view Unescape(RawField& field);

// The fields are those of `keys`, in their order, decoded in place; begin is null where absent.
// Strict RFC 8259 but for bytes that are not UTF-8; of equal keys the last counts.
bool ParseJsonRecord(const RecordWindow& window, const std::vector<std::string>& keys,
                     RawRecord& record);

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_RECORD_PARSERS_H_
