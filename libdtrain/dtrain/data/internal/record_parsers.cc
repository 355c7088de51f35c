// record_parsers.cc - jumps from quote to quote in CSV, and from tab to tab in TSV.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/record_parsers.h"

#include <cstring>

namespace dtrain::internal {
namespace {

char* Find(char* begin, char* end, char wanted) {
  return static_cast<char*>(std::memchr(begin, wanted, static_cast<size_t>(end - begin)));
}

// Scans the fields of one CSV record. Next() returns how the field ended.
class CsvScanner {
 public:
  enum class End { kDelimiter, kRecord, kIncomplete };

  CsvScanner(const RecordWindow& window, char delimiter, RawRecord& record)
      : end_(window.end), at_end_(window.at_end), delimiter_(delimiter), record_(record) {}

  End Next(char*& p) {
    if (p < end_ && *p == '"') return Quoted(p);
    return Plain(p);
  }

 private:
  End Plain(char*& p) {
    char* const begin = p;
    while (p < end_ && *p != delimiter_ && *p != '\n') ++p;
    if (p == end_ && !at_end_) return End::kIncomplete;
    char* field_end = p;
    const bool ends_line = p == end_ || *p == '\n';
    if (ends_line && field_end > begin && field_end[-1] == '\r') --field_end;
    record_.fields.push_back({begin, field_end});
    return Close(p);
  }

  End Quoted(char*& p) {
    const auto column = static_cast<int32_t>(record_.fields.size());
    RawField field{p + 1, nullptr};
    for (char* from = p + 1;;) {
      char* const quote = Find(from, end_, '"');
      if (quote == nullptr || (quote + 1 == end_ && !at_end_)) {
        if (!at_end_) {
          record_.quoted = quote == nullptr;
          return End::kIncomplete;
        }
        SetProblem(RowProblem::kUnclosedQuote, column);
        p = end_;
        return End::kRecord;
      }
      if (quote + 1 < end_ && quote[1] == '"') {
        field.escaped = true;
        from = quote + 2;
        continue;
      }
      field.end = quote;
      p = quote + 1;
      break;
    }
    record_.fields.push_back(field);
    char* const behind = p;
    while (p < end_ && *p != delimiter_ && *p != '\n') ++p;
    if (p == end_ && !at_end_) return End::kIncomplete;
    const bool ends_line = p == end_ || *p == '\n';
    const bool is_return = ends_line && behind + 1 == p && *behind == '\r';
    if (p != behind && !is_return) SetProblem(RowProblem::kStrayQuote, column);
    return Close(p);
  }

  End Close(char*& p) {
    const bool is_delimiter = p < end_ && *p == delimiter_;
    if (p < end_) ++p;
    return is_delimiter ? End::kDelimiter : End::kRecord;
  }

  void SetProblem(RowProblem problem, int32_t column) {
    if (record_.problem != RowProblem::kNone) return;
    record_.problem = problem;
    record_.column = column;
  }

  char* const end_;
  const bool at_end_;
  const char delimiter_;
  RawRecord& record_;
};

}  // namespace

bool ParseCsvRecord(const RecordWindow& window, char delimiter, RawRecord& record) {
  record.Clear();
  CsvScanner scanner(window, delimiter, record);
  char* p = window.begin;
  CsvScanner::End end{};
  do {
    end = scanner.Next(p);
    if (end == CsvScanner::End::kIncomplete) return false;
  } while (end == CsvScanner::End::kDelimiter);
  record.next = p;
  if (record.problem == RowProblem::kUnclosedQuote) {
    char* const newline = Find(window.begin, window.end, '\n');
    record.next = newline == nullptr ? window.end : newline + 1;
  }
  // A quoted first field begins after its quote, so it is not blank.
  record.blank = record.fields.size() == 1 && record.fields[0].begin == window.begin &&
                 record.fields[0].end == window.begin;
  return true;
}

std::string_view Unescape(RawField& field) {
  if (field.escaped) {
    char* out = field.begin;
    for (const char* p = field.begin; p < field.end; ++p) {
      *out++ = *p;
      if (*p == '"') ++p;  // the second of two quotes
    }
    field.end = out;
    field.escaped = false;
  }
  return {field.begin, static_cast<size_t>(field.end - field.begin)};
}

bool ParseTsvRecord(const RecordWindow& window, char delimiter, RawRecord& record) {
  record.Clear();
  char* const newline = Find(window.begin, window.end, '\n');
  if (newline == nullptr && !window.at_end) return false;
  record.next = newline == nullptr ? window.end : newline + 1;
  char* line_end = newline == nullptr ? window.end : newline;
  if (line_end > window.begin && line_end[-1] == '\r') --line_end;
  record.blank = line_end == window.begin;
  for (char* p = window.begin;;) {
    char* const tab = Find(p, line_end, delimiter);
    record.fields.push_back({p, tab == nullptr ? line_end : tab});
    if (tab == nullptr) return true;
    p = tab + 1;
  }
}

}  // namespace dtrain::internal
