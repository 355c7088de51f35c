// json_record.cc - parses JSON objects, one per line: decodes wanted strings, skips the rest.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>

#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/record_parsers.h"

namespace dtrain::internal {
namespace {

constexpr int kMaxDepth = 64;

class JsonScanner {
 public:
  JsonScanner(char* begin, char* end, const std::vector<std::string>& keys, RawRecord& record)
      : p_(begin), end_(end), keys_(keys), record_(record) {}

  // Returns false, with record.detail set, if the object is invalid.
  bool ParseObject() {
    SkipSpace();
    if (p_ < end_ && *p_ == '[') return Fail("an array; give one object per line");
    if (!Take('{')) return Fail("not an object");
    SkipSpace();
    if (Take('}')) return AtEnd();
    for (;;) {
      SkipSpace();
      RawField key;
      if (!ParseString(key)) return false;
      SkipSpace();
      if (!Take(':')) return Fail("no colon after a key");
      SkipSpace();
      if (!ParseMember({key.begin, static_cast<size_t>(key.end - key.begin)})) return false;
      SkipSpace();
      if (Take(',')) continue;
      if (Take('}')) return AtEnd();
      return Fail("no comma between two members, or no closing brace");
    }
  }

 private:
  bool Fail(const char* detail) {
    record_.detail = detail;
    return false;
  }
  void SkipSpace() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\r' || *p_ == '\n')) ++p_;
  }
  bool Take(char wanted) {
    if (p_ == end_ || *p_ != wanted) return false;
    ++p_;
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return p_ == end_ || Fail("text after the object");
  }

  bool ParseMember(std::string_view key) {
    const auto first = std::find(keys_.begin(), keys_.end(), key);
    if (first == keys_.end()) return SkipValue(0);
    RawField field;
    if (p_ < end_ && *p_ == '"') {
      if (!ParseString(field)) return false;
    } else {
      char* const begin = p_;
      const bool is_nested = p_ < end_ && (*p_ == '{' || *p_ == '[');
      if (!SkipValue(0)) return false;
      if (is_nested) {
        record_.problem = RowProblem::kNotText;
        record_.column = static_cast<int32_t>(first - keys_.begin());
      } else if (*begin != 'n') {
        field = {begin, p_};
      }
    }
    // A key may be wanted more than once.
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] == *first) record_.fields[i] = field;
    }
    return true;
  }

  bool SkipValue(int depth) {
    if (p_ == end_) return Fail("no value");
    RawField unused;
    switch (*p_) {
      case '"':
        return ParseString(unused);
      case '{':
      case '[':
        return SkipNested(depth);
      case 't':
        return TakeWord("true");
      case 'f':
        return TakeWord("false");
      case 'n':
        return TakeWord("null");
      default:
        return SkipNumber();
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxDepth.
  bool SkipNested(int depth) {
    if (depth == kMaxDepth) return Fail("values nested too deep");
    const bool is_object = *p_++ == '{';
    const char close = is_object ? '}' : ']';
    SkipSpace();
    if (Take(close)) return true;
    for (;;) {
      SkipSpace();
      if (is_object) {
        RawField key;
        if (!ParseString(key)) return false;
        SkipSpace();
        if (!Take(':')) return Fail("no colon after a key");
        SkipSpace();
      }
      if (!SkipValue(depth + 1)) return false;
      SkipSpace();
      if (Take(',')) continue;
      return Take(close) || Fail("no comma between two values, or no closing bracket");
    }
  }

  bool TakeWord(std::string_view word) {
    if (static_cast<size_t>(end_ - p_) < word.size() || std::string_view(p_, word.size()) != word) {
      return Fail("an unknown value");
    }
    p_ += word.size();
    return true;
  }

  bool SkipDigits() {
    char* const begin = p_;
    while (p_ < end_ && *p_ >= '0' && *p_ <= '9') ++p_;
    return p_ > begin;
  }
  bool SkipNumber() {
    Take('-');
    if (Take('0')) {
      if (p_ < end_ && *p_ >= '0' && *p_ <= '9') return Fail("a number with a leading 0");
    } else if (!SkipDigits()) {
      return Fail("an unknown value");
    }
    if (Take('.') && !SkipDigits()) return Fail("a number without digits after its point");
    if (p_ < end_ && (*p_ == 'e' || *p_ == 'E')) {
      ++p_;
      if (!Take('+')) Take('-');
      if (!SkipDigits()) return Fail("a number without digits in its exponent");
    }
    return true;
  }

  // Decodes the content in place: an escape is never shorter than the character it encodes.
  bool ParseString(RawField& field) {
    if (!Take('"')) return Fail("no quote where a string begins");
    char* const begin = p_;
    char* out = begin;
    for (;;) {
      char* const run = p_;
      while (p_ < end_ && *p_ != '"' && *p_ != '\\' && static_cast<unsigned char>(*p_) >= 0x20) {
        ++p_;
      }
      if (out != run) std::memmove(out, run, static_cast<size_t>(p_ - run));
      out += p_ - run;
      if (p_ == end_) return Fail("a string that does not end");
      if (*p_ == '"') break;
      if (*p_ != '\\') return Fail("a control character in a string; write it as \\n or \\u00XX");
      if (!Escape(out)) return false;
    }
    ++p_;
    field = {begin, out};
    return true;
  }

  bool Escape(char*& out) {
    if (end_ - p_ < 2) return Fail("a string that does not end");
    const char kind = p_[1];
    p_ += 2;
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const size_t i = kFrom.find(kind); i != std::string_view::npos) {
      *out++ = kTo[i];
      return true;
    }
    uint32_t code = 0;
    if (kind != 'u' || !Hex(code)) return Fail("an unknown escape in a string");
    if (code >= 0xDC00 && code < 0xE000) return Fail("half a surrogate pair in a string");
    if (code >= 0xD800 && code < 0xDC00) {
      uint32_t low = 0;
      if (end_ - p_ < 2 || p_[0] != '\\' || p_[1] != 'u') {
        return Fail("half a surrogate pair in a string");
      }
      p_ += 2;
      if (!Hex(low)) return Fail("an unknown escape in a string");
      if (low < 0xDC00 || low >= 0xE000) return Fail("half a surrogate pair in a string");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    decoded_.clear();
    AppendUtf8(code, decoded_);
    std::memcpy(out, decoded_.data(), decoded_.size());
    out += decoded_.size();
    return true;
  }

  bool Hex(uint32_t& code) {
    if (end_ - p_ < 4) return false;
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = *p_++;
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return false;
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return true;
  }

  char* p_;
  char* const end_;
  const std::vector<std::string>& keys_;
  RawRecord& record_;
  std::string decoded_;
};

}  // namespace

bool ParseJsonRecord(const RecordWindow& window, const std::vector<std::string>& keys,
                     RawRecord& record) {
  record.Clear();
  const auto size = static_cast<size_t>(window.end - window.begin);
  auto* const newline = static_cast<char*>(std::memchr(window.begin, '\n', size));
  if (newline == nullptr && !window.at_end) return false;
  record.next = newline == nullptr ? window.end : newline + 1;
  char* const line_end = newline == nullptr ? window.end : newline;
  record.blank = true;
  for (const char* p = window.begin; p < line_end && record.blank; ++p) {
    record.blank = *p == ' ' || *p == '\t' || *p == '\r';
  }
  if (record.blank) return true;
  record.fields.resize(keys.size());
  if (!JsonScanner(window.begin, line_end, keys, record).ParseObject()) {
    record.problem = RowProblem::kBadJson;
    record.column = -1;
  }
  return true;
}

}  // namespace dtrain::internal
