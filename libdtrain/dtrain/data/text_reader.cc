// text_reader.cc - finds lines in a buffer that grows up to the longest line allowed.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/text_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/byte_source.h"
#include "dtrain/data/internal/pair_source.h"

namespace dtrain {
namespace {

constexpr int64_t kFirstBufferBytes = 256 << 10;

LineProblem FindProblem(std::string_view text) {
  if (std::memchr(text.data(), 0, text.size()) != nullptr) return LineProblem::kNulByte;
  return IsValidUtf8(text) ? LineProblem::kNone : LineProblem::kInvalidUtf8;
}

}  // namespace

std::string_view DescribeLineProblem(LineProblem problem) {
  switch (problem) {
    case LineProblem::kNone:
      return "no problem";
    case LineProblem::kInvalidUtf8:
      return "invalid UTF-8; re-encode the file, for example with iconv -t UTF-8";
    case LineProblem::kNulByte:
      return "a NUL byte; the file is binary, UTF-16 or damaged: give UTF-8 text";
    case LineProblem::kTooLong:
      return "the line is too long; is this text with one sentence per line?";
  }
  return "unknown problem";
}

struct TextReader::State {
  std::string path;
  TextReaderOptions options;
  std::unique_ptr<internal::ByteSource> source;
  std::vector<char> buffer;
  int64_t begin = 0;  // start of the unread bytes in buffer
  int64_t end = 0;
  int64_t scanned = 0;  // there is no newline in [begin, scanned)
  bool at_end = false;
  bool in_long_line = false;  // a part of this line was already read
  int64_t line_number = 0;
  bool had_byte_order_mark = false;
  std::string replaced;                // the line, where bytes of it were replaced
  int64_t invalid_lines = 0;           // that did not fail
  std::vector<int64_t> first_invalid;  // numbers of the first ones

  // Appends bytes to the unread ones, after making room for them.
  Status Fill() {
    if (begin > 0) {
      std::memmove(buffer.data(), buffer.data() + begin, static_cast<size_t>(end - begin));
      end -= begin;
      scanned -= begin;
      begin = 0;
    }
    if (end == static_cast<int64_t>(buffer.size())) buffer.resize(buffer.size() * 2);
    DT_ASSIGN_OR_RETURN(const int64_t n, source->Read(buffer.data() + end,
                                                      static_cast<int64_t>(buffer.size()) - end));
    end += n;
    at_end = n == 0;
    return OkStatus();
  }

  // Skips the rest of a line that is too long, including its newline.
  Status SkipLine() {
    for (;;) {
      const char* const from = buffer.data() + scanned;
      const void* newline = std::memchr(from, '\n', static_cast<size_t>(end - scanned));
      if (newline != nullptr) {
        begin = scanned = static_cast<const char*>(newline) - buffer.data() + 1;
        return OkStatus();
      }
      begin = scanned = end;
      if (at_end) return OkStatus();
      DT_RETURN_IF_ERROR(Fill());
    }
  }

  // Finds the next line, without its newline. Returns false at the end of the file. For a line
  // longer than the limit, *too_long is set. Its rest, which may be endless, is skipped only by the
  // next call.
  StatusOr<bool> FindLine(std::string_view* text, bool* too_long) {
    *too_long = false;
    if (in_long_line) DT_RETURN_IF_ERROR(SkipLine());
    in_long_line = false;
    for (;;) {
      const char* const from = buffer.data() + scanned;
      const void* newline = std::memchr(from, '\n', static_cast<size_t>(end - scanned));
      int64_t line_end = 0;
      if (newline != nullptr) {
        line_end = static_cast<const char*>(newline) - buffer.data();
      } else if (at_end && begin < end) {
        line_end = end;
      } else if (at_end) {
        return false;
      } else if (end - begin > options.max_line_bytes + 1) {  // + 1 for a carriage return
        begin = scanned = end;
        in_long_line = true;
        *too_long = true;
        return true;
      } else {
        scanned = end;
        DT_RETURN_IF_ERROR(Fill());
        continue;
      }
      *text = {buffer.data() + begin, static_cast<size_t>(line_end - begin)};
      begin = scanned = std::min(line_end + 1, end);
      if (!text->empty() && text->back() == '\r') text->remove_suffix(1);
      *too_long = static_cast<int64_t>(text->size()) > options.max_line_bytes;
      return true;
    }
  }

  // Makes an invalid line one that can be used, as the options say.
  void Mend(TextLine& line) {
    constexpr size_t kNamed = 5;
    if (first_invalid.size() < kNamed) first_invalid.push_back(line.number);
    ++invalid_lines;
    replaced = MendInvalidUtf8(line.text, options.invalid);
    line.text = replaced;
    line.problem = LineProblem::kNone;
  }

  Status ReadByteOrderMark() {
    // A completed line is treated as text. So the reader does not wait for more input from a person
    // who types.
    while (end < 3 && !at_end &&
           std::memchr(buffer.data(), '\n', static_cast<size_t>(end)) == nullptr) {
      DT_RETURN_IF_ERROR(Fill());
    }
    const std::string_view start(buffer.data(), static_cast<size_t>(std::min<int64_t>(end, 3)));
    if (start == "\xEF\xBB\xBF") {
      begin = scanned = 3;
      had_byte_order_mark = true;
    } else if (start.substr(0, 2) == "\xFF\xFE" || start.substr(0, 2) == "\xFE\xFF") {
      return DataError(path + ": is UTF-16; convert it with iconv -f UTF-16 -t UTF-8");
    }
    return OkStatus();
  }
};

TextReader::TextReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TextReader::TextReader(TextReader&&) noexcept = default;
TextReader& TextReader::operator=(TextReader&&) noexcept = default;
TextReader::~TextReader() = default;

const std::string& TextReader::path() const { return state_->path; }

StatusOr<TextReader> TextReader::Open(const std::string& path, TextReaderOptions options) {
  return Read(path, internal::OpenByteSource(path), options);
}

StatusOr<TextReader> TextReader::OpenInput(const std::string& path, TextReaderOptions options) {
  if (path != "-") return Open(path, options);
  return Read("the standard input", internal::StandardInput(), options);
}

StatusOr<TextReader> TextReader::Read(const std::string& path,
                                      StatusOr<std::unique_ptr<internal::ByteSource>> source,
                                      const TextReaderOptions& options) {
  DT_CHECK_GT(options.max_line_bytes, 0);
  DT_RETURN_IF_ERROR(source.status());
  auto state = std::make_unique<State>();
  state->path = path;
  state->options = options;
  state->source = *std::move(source);
  state->buffer.resize(static_cast<size_t>(kFirstBufferBytes));
  DT_RETURN_IF_ERROR(state->ReadByteOrderMark());
  return TextReader(std::move(state));
}

StatusOr<bool> TextReader::Next(TextLine& line) {
  State& s = *state_;
  line = {};
  bool too_long = false;
  DT_ASSIGN_OR_RETURN(const bool more, s.FindLine(&line.text, &too_long));
  if (!more) return false;
  line.number = ++s.line_number;
  if (too_long) {
    line.text = {};
    line.problem = LineProblem::kTooLong;
  } else {
    line.problem = FindProblem(line.text);
  }
  if (line.problem == LineProblem::kNone || s.options.report_problems) return true;
  if (!too_long && s.options.invalid != InvalidText::kFail) {
    s.Mend(line);
    return true;
  }
  std::string message =
      absl::StrFormat("%s:%d: %s", s.path, line.number, DescribeLineProblem(line.problem));
  if (too_long) message += absl::StrFormat(" (limit %d bytes)", s.options.max_line_bytes);
  return DataError(message);
}

StatusOr<int64_t> TextReader::CountToEnd() {
  std::string_view text;
  bool too_long = false;
  for (;;) {
    DT_ASSIGN_OR_RETURN(const bool more, state_->FindLine(&text, &too_long));
    if (!more) return state_->line_number;
    ++state_->line_number;
  }
}

Status TextReader::NextLines(int64_t count, std::vector<std::string>& lines) {
  // How long more lines are waited for before those that are there are handed out.
  constexpr int kPauseMilliseconds = 20;
  lines.clear();
  TextLine line;
  while (static_cast<int64_t>(lines.size()) < count) {
    DT_ASSIGN_OR_RETURN(const bool more, Next(line));
    if (!more) break;
    lines.emplace_back(line.text);
    if (InputPauses(kPauseMilliseconds)) break;
  }
  return OkStatus();
}

bool TextReader::InputPauses(int milliseconds) {
  State& s = *state_;
  while (!s.at_end && !s.in_long_line && s.end - s.begin <= s.options.max_line_bytes) {
    const auto unread = static_cast<size_t>(s.end - s.scanned);
    if (std::memchr(s.buffer.data() + s.scanned, '\n', unread) != nullptr) return false;
    s.scanned = s.end;
    if (s.source->WouldWait(milliseconds)) return true;
    if (!s.Fill().ok()) return false;  // Next() meets the same error and returns it
  }
  return false;
}

bool TextReader::had_byte_order_mark() const { return state_->had_byte_order_mark; }

std::string TextReader::DescribeInvalid() const {
  const State& s = *state_;
  if (s.invalid_lines == 0) return "";
  std::string numbers;
  for (const int64_t number : s.first_invalid) {
    numbers += absl::StrFormat("%s%d", numbers.empty() ? "" : ", ", number);
  }
  const bool all_named = s.invalid_lines == static_cast<int64_t>(s.first_invalid.size());
  return absl::StrFormat(
      "%s: %d line%s not UTF-8 or hold%s NUL bytes, %s (line%s %s%s)", s.path, s.invalid_lines,
      s.invalid_lines == 1 ? " is" : "s are", s.invalid_lines == 1 ? "s" : "",
      s.options.invalid == InvalidText::kSkip ? "and count as empty"
                                              : "where U+FFFD replaces the bad bytes",
      s.invalid_lines == 1 ? "" : "s", numbers, all_named ? "" : ", ...");
}

StatusOr<ParallelTextReader> ParallelTextReader::Open(const std::string& source_path,
                                                      const std::string& target_path,
                                                      TextReaderOptions options) {
  DT_ASSIGN_OR_RETURN(TextReader source, TextReader::Open(source_path, options));
  DT_ASSIGN_OR_RETURN(TextReader target, TextReader::Open(target_path, options));
  ParallelTextReader reader;
  reader.path_ = source.path();
  reader.source_ = std::make_unique<TextReader>(std::move(source));
  reader.target_ = std::make_unique<TextReader>(std::move(target));
  return reader;
}

StatusOr<ParallelTextReader> ParallelTextReader::OpenTsv(const std::string& path,
                                                         TextReaderOptions options) {
  DT_ASSIGN_OR_RETURN(TextReader source, TextReader::Open(path, options));
  ParallelTextReader reader;
  reader.path_ = source.path();
  reader.source_ = std::make_unique<TextReader>(std::move(source));
  return reader;
}

StatusOr<ParallelTextReader> ParallelTextReader::OpenLanguages(const std::string& path,
                                                               PairFormat format,
                                                               const std::string& source_language,
                                                               const std::string& target_language,
                                                               TextReaderOptions options) {
  DT_CHECK(format != PairFormat::kTsv) << "lines have no languages";
  const auto open = format == PairFormat::kTmx ? internal::OpenTmx : internal::OpenJsonPairs;
  ParallelTextReader reader;
  reader.path_ = path;
  DT_ASSIGN_OR_RETURN(reader.pairs_,
                      open(path, source_language, target_language, options.max_line_bytes));
  return reader;
}

ParallelTextReader::ParallelTextReader() = default;
ParallelTextReader::ParallelTextReader(ParallelTextReader&&) noexcept = default;
ParallelTextReader& ParallelTextReader::operator=(ParallelTextReader&&) noexcept = default;
ParallelTextReader::~ParallelTextReader() = default;

int64_t ParallelTextReader::incomplete_entries() const {
  return pairs_ == nullptr ? 0 : pairs_->incomplete();
}

StatusOr<bool> ParallelTextReader::Next(TextPair& pair) {
  pair = {};
  if (pairs_ != nullptr) {
    internal::FoundPair found;
    DT_ASSIGN_OR_RETURN(const bool more, pairs_->Next(found));
    if (!more) return false;
    found_source_ = std::move(found.source);
    found_target_ = std::move(found.target);
    pair = {.source = found_source_, .target = found_target_, .number = found.number};
    return true;
  }
  if (target_ == nullptr) return NextOfTsv(pair);
  TextLine source;
  TextLine target;
  DT_ASSIGN_OR_RETURN(const bool more_source, source_->Next(source));
  DT_ASSIGN_OR_RETURN(const bool more_target, target_->Next(target));
  if (more_source != more_target) {
    return UnequalCounts(!more_source, more_source ? source.number - 1 : target.number - 1);
  }
  if (!more_source) return false;
  pair.source = source.text;
  pair.target = target.text;
  pair.number = source.number;
  pair.problem_in_target = source.problem == LineProblem::kNone;
  pair.problem = pair.problem_in_target ? target.problem : source.problem;
  return true;
}

StatusOr<bool> ParallelTextReader::NextOfTsv(TextPair& pair) {
  pair = {};
  TextLine line;
  DT_ASSIGN_OR_RETURN(const bool more, source_->Next(line));
  if (!more) return false;
  pair.number = line.number;
  pair.problem = line.problem;
  const size_t tab = line.text.find('\t');
  if (tab == std::string_view::npos) {
    if (line.problem != LineProblem::kNone) return true;
    return DataError(absl::StrFormat(
        "%s:%d: no tab; each line must be the source, a tab and the target (for two separate files "
        "give both paths)%s",
        path_, line.number,
        line.text.starts_with("<") ? "; a translation memory is given as data.train_tmx" : ""));
  }
  pair.source = line.text.substr(0, tab);
  const std::string_view rest = line.text.substr(tab + 1);
  const size_t next_tab = rest.find('\t');
  pair.target = rest.substr(0, next_tab);
  if (next_tab != std::string_view::npos) ++lines_with_more_columns_;
  return true;
}

Status ParallelTextReader::UnequalCounts(bool source_ended, int64_t common) {
  DT_ASSIGN_OR_RETURN(const int64_t longer,
                      source_ended ? target_->CountToEnd() : source_->CountToEnd());
  return DataError(absl::StrFormat(
      "%s has %d lines but %s has %d; the files must be aligned line by line", path_,
      source_ended ? common : longer, target_->path(), source_ended ? longer : common));
}

std::string ParallelTextReader::Locate(int64_t number, bool target) const {
  return absl::StrFormat("%s:%d", target && target_ != nullptr ? target_->path() : path_, number);
}

}  // namespace dtrain
