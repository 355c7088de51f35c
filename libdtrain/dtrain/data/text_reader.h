// text_reader.h - streams lines of UTF-8 text from one file or two aligned files.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(TextReader reader, TextReader::Open("news.en.gz"));
//   TextLine line;
//   for (;;) {
//     DT_ASSIGN_OR_RETURN(const bool more, reader.Next(line));
//     if (!more) break;
//     Use(line.text);
//   }
//
// Files may be plain, gzip or Zstandard, which is detected from their first bytes, not from their
// names. A byte order mark at the start and a carriage return at the end of a line are removed. The
// last line may lack a newline. Memory use is bounded.
#ifndef DTRAIN_DATA_TEXT_READER_H_
#define DTRAIN_DATA_TEXT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/utf8.h"

namespace dtrain {

namespace internal {
class ByteSource;
class PairSource;
}  // namespace internal

// The problem of a line.
enum class LineProblem { kNone, kInvalidUtf8, kNulByte, kTooLong };

// For example "invalid UTF-8; re-encode the file, for example with iconv -t UTF-8".
std::string_view DescribeLineProblem(LineProblem problem);

struct TextLine {
  std::string_view text;  // valid until the next call of Next(); empty if the line is too long
  int64_t number = 0;     // counted from 1
  LineProblem problem = LineProblem::kNone;
};

struct TextReaderOptions {
  int64_t max_line_bytes = 1 << 20;  // longer lines are problems; this also limits the memory used
  // false: a line with a problem is a DataError "path:line: ...". true: the line is returned with
  // its problem, and the caller decides.
  bool report_problems = false;
  // Without report_problems, lines that are not UTF-8 or hold NUL bytes. Those that do not fail are
  // counted, see DescribeInvalid().
  InvalidText invalid = InvalidText::kFail;
};

class TextReader {
 public:
  // Returns DataError if the file is missing, unreadable, a directory, or UTF-16.
  static StatusOr<TextReader> Open(const std::string& path, TextReaderOptions options = {});
  // Like Open(), but "-" is the standard input from its current position, which can be used once
  // per process.
  static StatusOr<TextReader> OpenInput(const std::string& path, TextReaderOptions options = {});
  TextReader(TextReader&&) noexcept;
  TextReader& operator=(TextReader&&) noexcept;
  ~TextReader();

  // Reads one line. Returns false at the end of the file, and DataError for damaged compression.
  StatusOr<bool> Next(TextLine& line);
  // Reads up to `count` lines; fewer at the end of the file, and where the input pauses: whoever
  // types, or writes to a pipe line by line, waits for an answer to each line.
  Status NextLines(int64_t count, std::vector<std::string>& lines);
  // Reads to the end and returns the number of lines of the whole file.
  StatusOr<int64_t> CountToEnd();
  // True where no whole line is there yet and none comes within `milliseconds`: whoever writes to a
  // pipe or types at a terminal pauses.
  bool InputPauses(int milliseconds);

  const std::string& path() const;
  // Whether the file began with a byte order mark, which is no part of the first line.
  bool had_byte_order_mark() const;
  // Names the invalid lines so far that did not fail, and their number; "" where there are none.
  std::string DescribeInvalid() const;

 private:
  struct State;
  explicit TextReader(std::unique_ptr<State> state);
  static StatusOr<TextReader> Read(const std::string& path,
                                   StatusOr<std::unique_ptr<internal::ByteSource>> source,
                                   const TextReaderOptions& options);
  std::unique_ptr<State> state_;
};

// A pair of aligned lines. The views are valid until the next call of Next().
struct TextPair {
  std::string_view source;
  std::string_view target;
  int64_t number = 0;
  LineProblem problem = LineProblem::kNone;  // of the source or, if it has none, of the target
  bool problem_in_target = false;
};

// How one file holds both sides of sentence pairs.
enum class PairFormat {
  kTsv,       // lines "source<tab>target"
  kTmx,       // a translation memory, by languages
  kJsonLines  // objects with a text for each of two languages
};

// Reads two files aligned line by line, or one file with both sides.
class ParallelTextReader {
 public:
  ParallelTextReader(ParallelTextReader&&) noexcept;
  ParallelTextReader& operator=(ParallelTextReader&&) noexcept;
  ~ParallelTextReader();

  static StatusOr<ParallelTextReader> Open(const std::string& source_path,
                                           const std::string& target_path,
                                           TextReaderOptions options = {});
  // Opens a file of lines "source<tab>target". Further columns are ignored and counted. A line
  // without a tab is a DataError.
  static StatusOr<ParallelTextReader> OpenTsv(const std::string& path,
                                              TextReaderOptions options = {});

  // Opens a file of kTmx or kJsonLines. Languages are codes such as "en"
  // (data/internal/pair_source.h). Entries without both languages are left out and counted.
  static StatusOr<ParallelTextReader> OpenLanguages(const std::string& path, PairFormat format,
                                                    const std::string& source_language,
                                                    const std::string& target_language,
                                                    TextReaderOptions options = {});

  // Reads one pair. Returns false at the end, and DataError with both counts if one file has more
  // lines.
  StatusOr<bool> Next(TextPair& pair);

  // Number of TSV lines read with more than two columns.
  int64_t lines_with_more_columns() const { return lines_with_more_columns_; }

  // Number of entries of kTmx and kJsonLines read so far that lacked one of the languages.
  int64_t incomplete_entries() const;

  // "path:line" of one side of a pair, for messages.
  std::string Locate(int64_t number, bool target) const;

 private:
  ParallelTextReader();
  StatusOr<bool> NextOfTsv(TextPair& pair);
  Status UnequalCounts(bool source_ended, int64_t common);

  std::string path_;                    // of the source, or of the file with both sides
  std::unique_ptr<TextReader> source_;  // null if pairs_ reads both sides
  std::unique_ptr<TextReader> target_;  // null if source_ is a TSV, or if pairs_ reads both sides
  std::unique_ptr<internal::PairSource> pairs_;
  std::string found_source_, found_target_;  // the texts of the last pair of pairs_
  int64_t lines_with_more_columns_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_TEXT_READER_H_
