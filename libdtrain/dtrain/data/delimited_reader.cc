// delimited_reader.cc - fills buffers that end with a whole record, and selects the wanted fields.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/delimited_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/byte_source.h"
#include "dtrain/data/internal/record_parsers.h"

namespace dtrain {
namespace {

using internal::RawField;
using internal::RawRecord;
using internal::RecordWindow;

constexpr size_t kStartBytes = 64 << 10;
constexpr int32_t kAbsent = INT32_MIN;  // a wanted column that the file lacks

bool HasInvalidBytes(std::string_view text) {
  return std::memchr(text.data(), 0, text.size()) != nullptr || !IsValidUtf8(text);
}

// The column number, if the name is a number.
std::optional<int32_t> ColumnNumber(std::string_view name) {
  int32_t number = 0;
  const auto result = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = result.ec == std::errc() && result.ptr == name.data() + name.size();
  if (!is_number || number == kAbsent) return std::nullopt;
  return number;
}

StatusOr<RecordFormat> FormatOfName(const std::string& path) {
  const std::string lower = absl::AsciiStrToLower(path);
  std::string_view name = lower;
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  }
  const auto ends_with_any = [&](std::initializer_list<std::string_view> ends) {
    return std::any_of(ends.begin(), ends.end(),
                       [&](std::string_view e) { return name.ends_with(e); });
  };
  if (ends_with_any({".csv"})) return RecordFormat::kCsv;
  if (ends_with_any({".tsv", ".txt", ".tab"})) return RecordFormat::kTsv;
  if (ends_with_any({".jsonl", ".ndjson", ".json"})) return RecordFormat::kJsonl;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return DataError(path + ": is a folder, not a table; name the files in it");
  }
  if (ends_with_any({".xlsx", ".xls", ".ods"})) {
    return DataError(path + ": is a spreadsheet; save it as CSV");
  }
  return DataError(path + ": the file name does not tell the format; name it .csv, .tsv or .jsonl");
}

}  // namespace

std::string_view RowProblemName(RowProblem problem) {
  switch (problem) {
    case RowProblem::kNone:
      return "no problem";
    case RowProblem::kStrayQuote:
      return "stray quote";
    case RowProblem::kUnclosedQuote:
      return "unclosed quote";
    case RowProblem::kWrongFields:
      return "wrong number of fields";
    case RowProblem::kTooLong:
      return "too long";
    case RowProblem::kInvalidUtf8:
      return "invalid UTF-8";
    case RowProblem::kNulByte:
      return "NUL byte";
    case RowProblem::kBadJson:
      return "bad JSON";
    case RowProblem::kMissingKey:
      return "missing key";
    case RowProblem::kNotText:
      return "not a text";
  }
  return "unknown problem";
}

struct DelimitedReader::State {
  std::string path;
  DelimitedOptions options;
  std::unique_ptr<internal::ByteSource> source;
  std::vector<std::string> header;
  std::vector<std::string> keys;   // JSON: names of the wanted columns
  std::vector<int32_t> selection;  // for each wanted column its field in a row; negative numbers
                                   // count from the row's end
  int32_t fields_per_row = 0;      // in the header or the first row; 0 if not known yet
  std::string start;               // the file's first bytes, read but not parsed yet
  std::vector<char> carry;         // bytes that were read but not parsed yet
  bool source_ended = false;
  bool skipping_line = false;  // skipping the rest of a line that is too long
  int64_t line = 1;            // line of the next record
  int64_t row = 0;
  int64_t blanks = 0;  // number of blank lines just before the next record
  RawRecord record;
  std::deque<std::string>* mended = nullptr;  // of the block that is filled

  bool is_json() const { return options.format == RecordFormat::kJsonl; }

  // Appends bytes until the buffer holds `size` bytes or the source ends.
  Status Fill(std::vector<char>& buffer, int64_t size) {
    auto used = static_cast<int64_t>(buffer.size());
    if (used >= size || source_ended) return OkStatus();
    buffer.resize(static_cast<size_t>(size));
    while (used < size) {
      int64_t n = std::min(size - used, static_cast<int64_t>(start.size()));
      if (n > 0) {
        std::copy(start.begin(), start.begin() + n, buffer.begin() + used);
        start.erase(start.begin(), start.begin() + n);
      } else {
        DT_ASSIGN_OR_RETURN(n, source->Read(buffer.data() + used, size - used));
      }
      if (n == 0) {
        source_ended = true;
        break;
      }
      used += n;
    }
    buffer.resize(static_cast<size_t>(used));
    return OkStatus();
  }

  bool Parse(const RecordWindow& window) {
    switch (options.format) {
      case RecordFormat::kJsonl:
        return ParseJsonRecord(window, keys, record);
      case RecordFormat::kTsv:
        return ParseTsvRecord(window, options.delimiter, record);
      default:
        return ParseCsvRecord(window, options.delimiter, record);
    }
  }

  // Parses the record at p into `record`. Returns false if more bytes are needed. Whether a record
  // is too long depends only on the record, not on where a buffer ends.
  bool ParseAt(char* p, char* end) {
    const int64_t limit = options.max_record_bytes + 1;
    RecordWindow window{p, end, source_ended};
    if (end - p > limit) window = {p, p + limit, false};
    if (Parse(window)) return true;
    if (window.end - p < limit) return false;
    const bool quoted = record.quoted;
    record.Clear();
    record.problem = quoted ? RowProblem::kUnclosedQuote : RowProblem::kTooLong;
    auto* const newline =
        static_cast<char*>(std::memchr(p, '\n', static_cast<size_t>(window.end - p)));
    skipping_line = newline == nullptr;
    record.next = newline == nullptr ? window.end : newline + 1;
    return true;
  }

  // Parses records of [p, end) into `block`, up to `max_rows`. Returns the start of the unparsed
  // rest.
  char* ParseRows(char* p, char* end, int64_t max_rows, RecordBlock& block) {
    while (p < end && block.size() < max_rows) {
      if (skipping_line) {
        auto* const newline =
            static_cast<char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
        if (newline == nullptr) return end;
        skipping_line = false;
        p = newline + 1;
        continue;
      }
      if (!ParseAt(p, end)) break;
      if (blanks > 0 && !record.blank && HasOneColumn()) {
        AddBlankLines(p, max_rows, block);
        if (block.size() == max_rows) {  // the record will be parsed again for the next block
          skipping_line = false;
          break;
        }
      }
      // Only CSV records contain newlines. They are counted before AddRow(), which moves text in
      // place and leaves parts of it behind.
      int64_t lines = 1;
      if (options.format == RecordFormat::kCsv) {
        lines = std::count(p, record.next, '\n') + (skipping_line ? 1 : 0);
      }
      blanks = record.blank ? blanks + 1 : 0;
      if (!record.blank) AddRow(block);
      line += lines;
      p = record.next;
    }
    return p;
  }

  // Decided by the header, or else by the first row, which may be `record`.
  bool HasOneColumn() const {
    if (is_json()) return false;
    if (fields_per_row > 0) return fields_per_row == 1;
    return !options.header && record.problem == RowProblem::kNone && record.fields.size() == 1;
  }

  // Adds the blank lines before p as rows with an empty field. Those that do not fit remain for the
  // next block.
  void AddBlankLines(char* p, int64_t max_rows, RecordBlock& block) {
    RawRecord empty;
    empty.fields.push_back({p, p});
    std::swap(record, empty);
    line -= blanks;
    for (; blanks > 0 && block.size() < max_rows; --blanks) {
      AddRow(block);
      ++line;
    }
    line += blanks;
    std::swap(record, empty);
  }

  void AddRow(RecordBlock& block) {
    RowInfo info{.row = ++row,
                 .line = line,
                 .problem = record.problem,
                 .column = record.column,
                 .fields = static_cast<int32_t>(record.fields.size()),
                 .detail = record.detail};
    const size_t first = block.fields_.size();
    block.fields_.resize(first + selection.size());
    if (info.problem == RowProblem::kNone) CheckFieldCount(info);
    for (size_t c = 0; c < selection.size() && info.problem == RowProblem::kNone; ++c) {
      TakeField(c, info, block.fields_[first + c]);
    }
    if (info.problem != RowProblem::kNone) {
      std::fill(block.fields_.begin() + static_cast<int64_t>(first), block.fields_.end(),
                std::string_view());
    }
    block.rows_.push_back(info);
  }

  void CheckFieldCount(RowInfo& info) {
    if (fields_per_row == 0) fields_per_row = info.fields;
    if (options.format != RecordFormat::kCsv || info.fields == fields_per_row) return;
    info.problem = RowProblem::kWrongFields;
    info.column = info.fields < fields_per_row ? info.fields : -1;
  }

  void TakeField(size_t c, RowInfo& info, std::string_view& out) {
    int32_t index = selection[c];
    if (index == kAbsent) return;
    if (index < 0) index += info.fields;
    if (index < 0 || index >= info.fields) {
      info.problem = RowProblem::kWrongFields;
      info.column = selection[c];
      return;
    }
    RawField& field = record.fields[static_cast<size_t>(index)];
    if (field.begin == nullptr) {
      if (!options.columns[c].required) return;
      info.problem = RowProblem::kMissingKey;
      info.column = index;
      return;
    }
    out = internal::Unescape(field);
    if (options.invalid != InvalidText::kFail && HasInvalidBytes(out)) {
      out = mended->emplace_back(MendInvalidUtf8(out, options.invalid));
      info.mended = true;
      return;
    }
    if (std::memchr(out.data(), 0, out.size()) != nullptr) info.problem = RowProblem::kNulByte;
    if (!IsValidUtf8(out)) info.problem = RowProblem::kInvalidUtf8;
    if (info.problem != RowProblem::kNone) info.column = index;
  }

  // Fills a block with at most `max_rows` rows.
  StatusOr<bool> NextRows(int64_t max_rows, RecordBlock& block) {
    block.rows_.clear();
    block.fields_.clear();
    block.mended_.clear();
    mended = &block.mended_;
    block.columns_ = static_cast<int64_t>(selection.size());
    block.buffer_.assign(carry.begin(), carry.end());
    carry.clear();
    int64_t wanted = std::max(options.block_bytes, static_cast<int64_t>(block.buffer_.size()));
    for (;;) {
      DT_RETURN_IF_ERROR(Fill(block.buffer_, wanted));
      char* const begin = block.buffer_.data();
      char* const end = begin + block.buffer_.size();
      char* const rest = ParseRows(begin, end, max_rows, block);
      if (block.size() > 0) {
        carry.assign(rest, end);
        return true;
      }
      // The rest is blank lines, a line to skip, or part of a record.
      block.buffer_.erase(block.buffer_.begin(), block.buffer_.begin() + (rest - begin));
      if (source_ended && block.buffer_.empty()) return false;
      const auto left = static_cast<int64_t>(block.buffer_.size());
      wanted = std::max(options.block_bytes, 2 * left);
    }
  }

  // Looks at the first bytes: what they are does not depend on the size of blocks.
  Status ReadStart() {
    start.resize(kStartBytes);
    size_t read = 0;
    bool is_whole = false;
    while (read < start.size() && !is_whole) {
      DT_ASSIGN_OR_RETURN(const int64_t n, source->Read(start.data() + read,
                                                        static_cast<int64_t>(start.size() - read)));
      read += static_cast<size_t>(n);
      is_whole = n == 0;
    }
    start.resize(read);
    if (start.starts_with("\xEF\xBB\xBF")) {
      start.erase(0, 3);
    } else if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) {
      return DataError(path + ": is UTF-16; convert it with iconv -f UTF-16 -t UTF-8");
    }
    if (start.empty()) return DataError(path + ": is empty");
    const size_t carriage_return = start.find('\r');
    const bool has_lone_return =
        start.find('\n') == std::string::npos && carriage_return + 1 < start.size();
    if (carriage_return != std::string::npos && has_lone_return) {
      return DataError(path +
                       ": its lines end with a lone carriage return, as on old Macs; convert it "
                       "with tr '\\r' '\\n'");
    }
    return OkStatus();
  }

  // Reads the first record as the names of the columns.
  Status ReadHeader() {
    RecordBlock block;
    DT_ASSIGN_OR_RETURN(const bool more, NextRows(1, block));
    if (!more) return DataError(path + ": is empty: it has not even a header");
    const RowInfo info = block.row(0);
    if (info.problem != RowProblem::kNone) {
      return DataError(absl::StrFormat("%s:%d: the header is broken: %s", path, info.line,
                                       ToAbsl(RowProblemName(info.problem))));
    }
    // `record` still points into the block.
    for (RawField& field : record.fields) {
      header.emplace_back(internal::Unescape(field));
      if (!IsValidUtf8(header.back())) {
        return DataError(path + ": the header is not UTF-8; re-encode the file with iconv");
      }
    }
    row = 0;
    return OkStatus();
  }

  Status Select() {
    for (const WantedColumn& column : options.columns) {
      int32_t index = kAbsent;
      if (is_json()) {
        index = static_cast<int32_t>(keys.size());
        keys.push_back(column.name);
      } else {
        const auto found = std::find(header.begin(), header.end(), column.name);
        if (found != header.end()) {
          if (std::find(found + 1, header.end(), column.name) != header.end()) {
            return DataError(absl::StrFormat("%s: two columns are named \"%s\"; give its number",
                                             path, Printable(column.name)));
          }
          index = static_cast<int32_t>(found - header.begin());
        } else if (const auto number = ColumnNumber(column.name); number && IsInHeader(*number)) {
          index = *number;
        } else if (column.required) {
          return DataError(absl::StrFormat("%s: no column \"%s\"; %s", path, Printable(column.name),
                                           DescribeColumns()));
        }
      }
      selection.push_back(index);
    }
    return OkStatus();
  }

  bool IsInHeader(int32_t number) const {
    const auto count = static_cast<int32_t>(header.size());
    return header.empty() || (number < count && number >= -count);
  }
  std::string DescribeColumns() const {
    if (header.empty()) return "without a header columns are numbers from 0";
    std::string text = "the file has: " + PrintableList(header);
    if (options.format == RecordFormat::kCsv && header.size() == 1 &&
        header[0].find(';') != std::string::npos) {
      text += "; its fields are separated by ';': save it with commas or tabs";
    }
    return text;
  }

  std::string ColumnName(int32_t index) const {
    const std::vector<std::string>& names = is_json() ? keys : header;
    if (index < 0 && !names.empty()) index += static_cast<int32_t>(names.size());
    if (index >= 0 && index < static_cast<int32_t>(names.size())) {
      return absl::StrFormat("\"%s\"", Printable(names[static_cast<size_t>(index)]));
    }
    return std::to_string(index);
  }
  std::string Describe(const RowInfo& info) const;
};

std::string DelimitedReader::State::Describe(const RowInfo& info) const {
  switch (info.problem) {
    case RowProblem::kStrayQuote:
      return "text after a closing quote; write a quote inside a quoted field twice";
    case RowProblem::kUnclosedQuote:
      return absl::StrFormat("a quote is not closed within %d bytes; is one missing?",
                             options.max_record_bytes);
    case RowProblem::kWrongFields:
      return options.format == RecordFormat::kCsv && info.fields != fields_per_row
                 ? absl::StrFormat("%d fields where %s %d", info.fields,
                                   header.empty() ? "the first row has" : "the header has",
                                   fields_per_row)
                 : absl::StrFormat("only %d fields; is a delimiter missing?", info.fields);
    case RowProblem::kTooLong:
      return absl::StrFormat("longer than %d bytes; is this the right format?",
                             options.max_record_bytes);
    case RowProblem::kInvalidUtf8:
      return "invalid UTF-8; re-encode the file, for example with iconv -t UTF-8";
    case RowProblem::kNulByte:
      return "a NUL byte; the file is binary, UTF-16 or damaged: give UTF-8 text";
    case RowProblem::kBadJson:
      return std::string("not valid JSON: ") + info.detail;
    case RowProblem::kMissingKey:
      return "has no such key, or its value is null";
    case RowProblem::kNotText:
      return "an object or array instead of text or a number";
    case RowProblem::kNone:
      break;
  }
  return "no problem";
}

DelimitedReader::DelimitedReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DelimitedReader::DelimitedReader(DelimitedReader&&) noexcept = default;
DelimitedReader& DelimitedReader::operator=(DelimitedReader&&) noexcept = default;
DelimitedReader::~DelimitedReader() = default;

const std::string& DelimitedReader::path() const { return state_->path; }
const std::vector<std::string>& DelimitedReader::header() const { return state_->header; }

StatusOr<DelimitedReader> DelimitedReader::Open(const std::string& path,
                                                const DelimitedOptions& options) {
  DT_CHECK_GT(options.max_record_bytes, 0);
  DT_CHECK_GT(options.block_bytes, 0);
  auto state = std::make_unique<State>();
  state->path = path;
  state->options = options;
  RecordFormat& format = state->options.format;
  if (format == RecordFormat::kAuto) {
    DT_ASSIGN_OR_RETURN(format, FormatOfName(path));
  }
  if (state->options.delimiter == '\0') {
    state->options.delimiter = format == RecordFormat::kCsv ? ',' : '\t';
  }
  DT_ASSIGN_OR_RETURN(state->source, internal::OpenByteSource(path));
  DT_RETURN_IF_ERROR(state->ReadStart());
  if (options.header && format != RecordFormat::kJsonl) {
    DT_RETURN_IF_ERROR(state->ReadHeader());
  }
  DT_RETURN_IF_ERROR(state->Select());
  return DelimitedReader(std::move(state));
}

StatusOr<bool> DelimitedReader::NextBlock(RecordBlock& block) {
  // Limits the rows of blank lines to the largest number of rows that a block can have.
  return state_->NextRows(std::max<int64_t>(state_->options.block_bytes / 2, 1), block);
}

std::string DelimitedReader::Locate(const RowInfo& row, int64_t c) const {
  std::string place = absl::StrFormat("%s:%d: row %d", state_->path, row.line, row.row);
  if (c >= 0) {
    place += ", column " + state_->ColumnName(state_->selection[static_cast<size_t>(c)]);
  }
  return place;
}

std::string DelimitedReader::DescribeProblem(const RowInfo& row) const {
  std::string text = Locate(row);
  if (row.column != -1) text += ", column " + state_->ColumnName(row.column);
  return text + ": " + state_->Describe(row);
}

}  // namespace dtrain
