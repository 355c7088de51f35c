// record_parsers.h - parsers for one record of CSV, TSV or JSON lines in a buffer.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_RECORD_PARSERS_H_
#define DTRAIN_DATA_INTERNAL_RECORD_PARSERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/data/delimited_reader.h"

namespace dtrain::internal {

// The available bytes, starting at the beginning of a record.
struct RecordWindow {
  char* begin = nullptr;
  char* end = nullptr;
  bool at_end = false;  // true if the file ends at `end`
};

struct RawField {
  char* begin = nullptr;
  char* end = nullptr;
  bool escaped = false;  // CSV: has doubled quotes
};

struct RawRecord {
  std::vector<RawField> fields;
  RowProblem problem = RowProblem::kNone;
  int32_t column = -1;  // column of the problem
  const char* detail = nullptr;
  char* next = nullptr;  // start of the next record
  bool blank = false;
  bool quoted = false;  // true if the record is incomplete and ends inside quotes

  void Clear() {
    fields.clear();
    problem = RowProblem::kNone;
    column = -1;
    detail = nullptr;
    blank = quoted = false;
  }
};

// Return false if the window ends before the record does; the buffer is then unchanged.
bool ParseCsvRecord(const RecordWindow& window, char delimiter, RawRecord& record);
bool ParseTsvRecord(const RecordWindow& window, char delimiter, RawRecord& record);

// The text of a field. The first call replaces doubled quotes by single ones, in place.
std::string_view Unescape(RawField& field);

// Parses one object. The fields are those of `keys`, in their order, decoded in place; begin is
// null if a key is absent. Strict RFC 8259, except that invalid UTF-8 is allowed. If a key occurs
// several times, the last one counts.
bool ParseJsonRecord(const RecordWindow& window, const std::vector<std::string>& keys,
                     RawRecord& record);

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_RECORD_PARSERS_H_
