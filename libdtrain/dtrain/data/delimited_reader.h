// delimited_reader.h - streams the wanted columns of CSV, TSV and JSON-lines files, in blocks.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(DelimitedReader reader,
//                       DelimitedReader::Open("train.csv", {.columns = {{"comment_text"}}}));
//   for (RecordBlock block;;) {
//     DT_ASSIGN_OR_RETURN(const bool more, reader.NextBlock(block));
//     if (!more) break;
//     for (int64_t i = 0; i < block.size(); ++i) Use(block.field(i, 0));
//   }
//
// Files may be plain, gzip or Zstandard, told apart by their first bytes. A byte order mark at the
// start is taken off, a last record without a newline counts, and a line ends with "\n" or "\r\n"
// (a "\r" elsewhere is text). Blank lines are passed over, but in CSV and TSV of one column (by the
// header, or else the first record), where they are empty fields unless nothing follows. By format:
//
//   CSV    RFC 4180: a field in quotes may hold delimiters, newlines, and quotes doubled. A quote
//          inside a field that does not begin with one is text. Every record has as many fields as
//          the header, or the first record. After text behind a closing quote (kStrayQuote) reading
//          goes on behind the record. A quote that is never closed, or not within max_record_bytes
//          (kUnclosedQuote), costs one line: reading goes on with the next.
//   TSV    as GLUE's: quotes are text, nothing is escaped. A record may have more fields than the
//          header; one that lacks a wanted field is kWrongFields.
//   JSONL  an object a line. Strings, numbers, true and false count as text, null as absent.
#ifndef DTRAIN_DATA_DELIMITED_READER_H_
#define DTRAIN_DATA_DELIMITED_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

enum class RecordFormat {
  kAuto,  // by name: .csv; .tsv, .txt, .tab; .jsonl, .ndjson, .json; before .gz or .zst
  kCsv,
  kTsv,
  kJsonl
};

// A column is wanted by its name in the header, or else by its 0-based number ("3"; "-1" is the
// last of each row). JSON knows names only.
struct WantedColumn {
  std::string name;
  bool required = true;  // false: the file may lack it, all its fields are absent then
};

struct DelimitedOptions {
  RecordFormat format = RecordFormat::kAuto;
  char delimiter = '\0';  // 0: a comma in CSV, a tab in TSV
  bool header = true;     // the first record holds names; JSON has none
  std::vector<WantedColumn> columns;
  int64_t max_record_bytes = 8 << 20;  // longer ones are problems; also bounds the memory used
  int64_t block_bytes = 4 << 20;
};

enum class RowProblem : uint8_t {
  kNone,
  kStrayQuote,     // CSV: text between a closing quote and the delimiter
  kUnclosedQuote,  // CSV
  kWrongFields,    // too few, or in CSV too many
  kTooLong,
  kInvalidUtf8,
  kNulByte,
  kBadJson,
  kMissingKey,  // JSON: a required one
  kNotText      // JSON: an object or array where text is wanted
};

struct RowInfo {
  int64_t row = 0;   // from 1, header and lines that are passed over not counted
  int64_t line = 0;  // where it begins, from 1
  RowProblem problem = RowProblem::kNone;
  int32_t column = -1;           // of the problem, 0-based in the file; -1: of the row
  int32_t fields = 0;            // found in the row
  const char* detail = nullptr;  // of kBadJson
};

// Rows, and the bytes they lie in: can go to another thread while the reader fills the next one.
class RecordBlock {
 public:
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  const RowInfo& row(int64_t i) const { return rows_[static_cast<size_t>(i)]; }
  // Field of the wanted column c, valid UTF-8 without NUL; data() is null where it is absent, or
  // the row has a problem.
  std::string_view field(int64_t i, int64_t c) const {
    return fields_[static_cast<size_t>(i * columns_ + c)];
  }

 private:
  friend class DelimitedReader;
  std::vector<char> buffer_;
  std::vector<RowInfo> rows_;
  std::vector<std::string_view> fields_;  // [rows, columns]
  int64_t columns_ = 0;
};

class DelimitedReader {
 public:
  // Reads the header. DataError when the file is missing, unreadable, empty or UTF-16, of a format
  // that its name does not tell, or lacks a required column (the message lists what it has).
  static StatusOr<DelimitedReader> Open(const std::string& path, const DelimitedOptions& options);
  DelimitedReader(DelimitedReader&&) noexcept;
  DelimitedReader& operator=(DelimitedReader&&) noexcept;
  ~DelimitedReader();

  // Fills `block` with the next rows, those with problems included; false at the end. DataError for
  // damaged compression.
  StatusOr<bool> NextBlock(RecordBlock& block);

  const std::string& path() const;
  // Names of the file's columns; none without a header, and for JSON.
  const std::vector<std::string>& header() const;

  // "path:12: row 7", with ", column "label"" for the wanted column c >= 0.
  std::string Locate(const RowInfo& row, int64_t c = -1) const;
  // The row's place, column and problem, and what to do about it.
  std::string DescribeProblem(const RowInfo& row) const;

 private:
  struct State;
  explicit DelimitedReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A name for counting: "stray quote", "unclosed quote", "wrong number of fields" ...
std::string_view RowProblemName(RowProblem problem);

}  // namespace dtrain

#endif  // DTRAIN_DATA_DELIMITED_READER_H_
