// delimited_reader.h - streams selected columns of CSV, TSV and JSON-lines files.
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
// Files may be plain, gzip or Zstandard, which is detected from their first bytes. A byte order
// mark is removed. The last record may lack a newline. A line ends with "\n" or "\r\n"; a "\r"
// elsewhere is text. Blank lines are skipped. The exception is CSV or TSV with one column (in the
// header, or else the first record): there a blank line is an empty field, unless nothing follows.
// The formats:
//
// CSV: RFC 4180. A quoted field may contain delimiters, newlines, and doubled quotes. A quote
//   inside a field that does not begin with one is text. Every record has as many fields as the
//   header, or as the first record. If text follows a closing quote (kStrayQuote), reading
//   continues after the record. If a quote is not closed within max_record_bytes (kUnclosedQuote),
//   reading continues with the next line.
// TSV: as in GLUE. Quotes are text, and nothing is escaped. A record may have more fields than the
//   header. A record without a wanted field is kWrongFields.
// JSONL: one object per line. Strings, numbers, true and false become text; null means absent.
#ifndef DTRAIN_DATA_DELIMITED_READER_H_
#define DTRAIN_DATA_DELIMITED_READER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/utf8.h"

namespace dtrain {

enum class RecordFormat {
  kAuto,  // by file name: .csv; .tsv, .txt, .tab; .jsonl, .ndjson, .json; each optionally followed
          // by .gz or .zst
  kCsv,
  kTsv,
  kJsonl
};

// A column is selected by its name in the header, or by its number from 0 ("3"; "-1" is the last of
// each row). JSON supports names only.
struct WantedColumn {
  std::string name;
  bool required = true;  // false: if the file lacks the column, all its fields are absent
};

struct DelimitedOptions {
  RecordFormat format = RecordFormat::kAuto;
  char delimiter = '\0';  // 0 means a comma in CSV and a tab in TSV
  bool header = true;     // the first record has the column names; ignored for JSON
  std::vector<WantedColumn> columns;
  int64_t max_record_bytes = 8 << 20;  // longer records are problems; this also limits the memory
                                       // used
  int64_t block_bytes = 4 << 20;
  // Fields that are not UTF-8 or hold NUL bytes; kFail: such a row has a problem. Otherwise the
  // field is mended, and RowInfo says so.
  InvalidText invalid = InvalidText::kFail;
};

enum class RowProblem : uint8_t {
  kNone,
  kStrayQuote,     // CSV: text between a closing quote and the delimiter
  kUnclosedQuote,  // CSV
  kWrongFields,    // too few fields or, in CSV, too many
  kTooLong,
  kInvalidUtf8,
  kNulByte,
  kBadJson,
  kMissingKey,  // JSON: a required key is missing
  kNotText      // JSON: an object or array instead of text
};

struct RowInfo {
  int64_t row = 0;   // number from 1, without the header and skipped lines
  int64_t line = 0;  // first line of the row, from 1
  RowProblem problem = RowProblem::kNone;
  int32_t column = -1;           // column of the problem in the file, from 0; -1 for the whole row
  int32_t fields = 0;            // number of fields in the row
  bool mended = false;           // true if a field held invalid bytes
  const char* detail = nullptr;  // only for kBadJson
};

// Rows and the memory they point into. A block can go to another thread while the reader fills the
// next one.
class RecordBlock {
 public:
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  const RowInfo& row(int64_t i) const { return rows_[static_cast<size_t>(i)]; }
  // The field of wanted column c: valid UTF-8 without NUL. data() is null if the field is absent or
  // the row has a problem.
  std::string_view field(int64_t i, int64_t c) const {
    return fields_[static_cast<size_t>(i * columns_ + c)];
  }

 private:
  friend class DelimitedReader;
  std::vector<char> buffer_;
  std::vector<RowInfo> rows_;
  std::vector<std::string_view> fields_;  // [rows, columns]
  std::deque<std::string> mended_;        // fields that held invalid bytes
  int64_t columns_ = 0;
};

class DelimitedReader {
 public:
  // Opens the file and reads its header. Returns DataError if the file is missing, unreadable,
  // empty or UTF-16, if its format is unknown, or if it lacks a required column (the message lists
  // its columns).
  static StatusOr<DelimitedReader> Open(const std::string& path, const DelimitedOptions& options);
  DelimitedReader(DelimitedReader&&) noexcept;
  DelimitedReader& operator=(DelimitedReader&&) noexcept;
  ~DelimitedReader();

  // Fills `block` with the next rows, including those with problems. Returns false at the end, and
  // DataError for damaged compression.
  StatusOr<bool> NextBlock(RecordBlock& block);

  const std::string& path() const;
  // Names of the file's columns; empty without a header and for JSON.
  const std::vector<std::string>& header() const;

  // For example "path:12: row 7", with ", column "label"" for wanted column c >= 0.
  std::string Locate(const RowInfo& row, int64_t c = -1) const;
  // Describes the row's place, column and problem, and what to do about it.
  std::string DescribeProblem(const RowInfo& row) const;

 private:
  struct State;
  explicit DelimitedReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A short name for counting, for example "stray quote" or "wrong number of fields".
std::string_view RowProblemName(RowProblem problem);

}  // namespace dtrain

#endif  // DTRAIN_DATA_DELIMITED_READER_H_
