// tmx_reader.cc - cuts an XML stream into tags and text, and takes the units of a TMX out of it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/byte_source.h"
#include "dtrain/data/internal/pair_source.h"
#include "dtrain/data/text_reader.h"

namespace dtrain::internal {
namespace {

// A piece of an XML file: text between tags, or one tag.
struct XmlToken {
  enum class Kind { kText, kCharacterData, kStart, kEnd, kEmpty, kOther, kFileEnd };
  Kind kind = Kind::kFileEnd;
  std::string name = {};          // of a tag
  std::string_view content = {};  // the text; of a tag what stands behind its name
  int64_t line = 0;
};

class XmlStream {
 public:
  XmlStream(std::string path, std::unique_ptr<ByteSource> source, int64_t max_token_bytes)
      : path_(std::move(path)), source_(std::move(source)), limit_(max_token_bytes) {}

  Status ReadStart() {
    DT_RETURN_IF_ERROR(Fill());
    const std::string_view start = std::string_view(buffer_).substr(0, 3);
    if (start == "\xEF\xBB\xBF") begin_ = 3;
    if (start.substr(0, 2) == "\xFF\xFE" || start.substr(0, 2) == "\xFE\xFF") {
      return DataError(path_ + ": is UTF-16; convert it with iconv -f UTF-16 -t UTF-8");
    }
    return OkStatus();
  }

  // The content of the token is valid until the next call.
  StatusOr<XmlToken> Next() {
    line_ += std::count(buffer_.begin() + static_cast<int64_t>(line_counted_),
                        buffer_.begin() + static_cast<int64_t>(begin_), '\n');
    line_counted_ = begin_;
    DT_ASSIGN_OR_RETURN(const bool more, Has(1));
    XmlToken token{.line = line_};
    if (!more) return token;
    if (buffer_[begin_] != '<') {
      DT_ASSIGN_OR_RETURN(const size_t end, Find("<", /*may_end=*/true));
      token.kind = XmlToken::Kind::kText;
      token.content = Take(end);
      return token;
    }
    DT_RETURN_IF_ERROR(Has(9).status());
    const std::string_view rest = std::string_view(buffer_).substr(begin_);
    if (rest.starts_with("<!--")) return Delimited(token, 4, "-->", XmlToken::Kind::kOther);
    if (rest.starts_with("<![CDATA[")) {
      return Delimited(token, 9, "]]>", XmlToken::Kind::kCharacterData);
    }
    if (rest.starts_with("<?")) return Delimited(token, 2, "?>", XmlToken::Kind::kOther);
    if (rest.starts_with("<!")) return Delimited(token, 2, ">", XmlToken::Kind::kOther);
    return Tag(token);
  }

  Status Error(int64_t line, std::string_view what) const {
    return DataError(absl::StrFormat("%s:%d: %s", path_, line, ToAbsl(what)));
  }
  const std::string& path() const { return path_; }

 private:
  Status Fill() {
    if (begin_ > 0) {
      line_ += std::count(buffer_.begin() + static_cast<int64_t>(line_counted_),
                          buffer_.begin() + static_cast<int64_t>(begin_), '\n');
      buffer_.erase(0, begin_);
      begin_ = line_counted_ = 0;
    }
    constexpr size_t kBlock = 256 << 10;
    const size_t size = buffer_.size();
    buffer_.resize(size + kBlock);
    DT_ASSIGN_OR_RETURN(const int64_t count, source_->Read(buffer_.data() + size, kBlock));
    buffer_.resize(size + static_cast<size_t>(count));
    at_end_ = count == 0;
    return OkStatus();
  }

  StatusOr<bool> Has(size_t count) {
    while (buffer_.size() - begin_ < count && !at_end_) DT_RETURN_IF_ERROR(Fill());
    return buffer_.size() - begin_ >= count;
  }

  // Bytes from the current place to `mark`; all that is left where the file may end before it.
  StatusOr<size_t> Find(std::string_view mark, bool may_end) {
    size_t from = 0;
    for (;;) {
      const size_t found = buffer_.find(mark, begin_ + from);
      if (found != std::string::npos) return found - begin_;
      const size_t left = buffer_.size() - begin_;
      if (at_end_ && may_end) return left;
      if (at_end_) return Error(line_, "a tag is not closed before the end of the file");
      if (static_cast<int64_t>(left) > limit_) {
        return Error(line_, "no XML: a tag or text has no end");
      }
      from = left - std::min(left, mark.size() - 1);
      DT_RETURN_IF_ERROR(Fill());
    }
  }

  std::string_view Take(size_t bytes) {
    const std::string_view taken = std::string_view(buffer_).substr(begin_, bytes);
    begin_ += bytes;
    return taken;
  }

  StatusOr<XmlToken> Delimited(XmlToken token, size_t open, std::string_view close,
                               XmlToken::Kind kind) {
    begin_ += open;
    DT_ASSIGN_OR_RETURN(const size_t end, Find(close, /*may_end=*/false));
    token.kind = kind;
    token.content = Take(end);
    begin_ += close.size();
    return token;
  }

  // The tag ends at the first ">" outside of quotes.
  StatusOr<XmlToken> Tag(XmlToken token) {
    begin_ += 1;
    size_t end = 0;
    char quote = '\0';
    for (;; ++end) {
      if (begin_ + end == buffer_.size()) {
        DT_ASSIGN_OR_RETURN(const bool more, Has(end + 1));
        if (!more || static_cast<int64_t>(end) > limit_) {
          return Error(token.line, "a tag is not closed");
        }
      }
      const char c = buffer_[begin_ + end];
      if (quote != '\0') {
        if (c == quote) quote = '\0';
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '>') {
        break;
      }
    }
    std::string_view tag = Take(end);
    begin_ += 1;
    token.kind = XmlToken::Kind::kStart;
    if (tag.starts_with('/')) {
      token.kind = XmlToken::Kind::kEnd;
      tag.remove_prefix(1);
    } else if (tag.ends_with('/')) {
      token.kind = XmlToken::Kind::kEmpty;
      tag.remove_suffix(1);
    }
    const size_t name_end = std::min(tag.find_first_of(" \t\r\n"), tag.size());
    token.name = tag.substr(0, name_end);
    token.content = tag.substr(name_end);
    return token;
  }

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  int64_t limit_;
  std::string buffer_;
  size_t begin_ = 0;         // of the next token
  size_t line_counted_ = 0;  // line ends before here are in line_
  int64_t line_ = 1;
  bool at_end_ = false;
};

// The value of an attribute; "" where the tag has none of that name.
std::string_view Attribute(std::string_view attributes, std::string_view name) {
  size_t at = 0;
  while ((at = attributes.find(name, at)) != std::string_view::npos) {
    const bool begins =
        at > 0 && std::string_view(" \t\r\n").find(attributes[at - 1]) != std::string_view::npos;
    at += name.size();
    size_t p = attributes.find_first_not_of(" \t\r\n", at);
    if (!begins || p == std::string_view::npos || attributes[p] != '=') continue;
    p = attributes.find_first_not_of(" \t\r\n", p + 1);
    if (p == std::string_view::npos || (attributes[p] != '"' && attributes[p] != '\'')) return "";
    const size_t end = attributes.find(attributes[p], p + 1);
    return end == std::string_view::npos ? "" : attributes.substr(p + 1, end - p - 1);
  }
  return "";
}

// &amp; &#228; &#xE4; and so on; what is none of them stays.
std::string DecodeEntities(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    const size_t ampersand = std::min(text.find('&'), text.size());
    decoded += text.substr(0, ampersand);
    text.remove_prefix(ampersand);
    if (text.empty()) break;
    const size_t end = text.find(';');
    const std::string_view name = text.substr(1, end == std::string_view::npos ? 0 : end - 1);
    uint32_t code_point = 0;
    if (name.starts_with('#')) {
      const bool is_hex = name.starts_with("#x") || name.starts_with("#X");
      const std::string_view digits = name.substr(is_hex ? 2 : 1);
      const auto [next, error] = std::from_chars(digits.data(), digits.data() + digits.size(),
                                                 code_point, is_hex ? 16 : 10);
      if (error != std::errc() || next != digits.data() + digits.size()) code_point = 0;
    } else if (name == "amp") {
      code_point = '&';
    } else if (name == "lt") {
      code_point = '<';
    } else if (name == "gt") {
      code_point = '>';
    } else if (name == "quot") {
      code_point = '"';
    } else if (name == "apos") {
      code_point = '\'';
    }
    const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    if (code_point == 0 || code_point > 0x10FFFF || is_surrogate) {
      decoded += '&';
      text.remove_prefix(1);
      continue;
    }
    AppendUtf8(code_point, decoded);
    text.remove_prefix(end + 1);
  }
  return decoded;
}

class TmxPairs final : public PairSource {
 public:
  TmxPairs(XmlStream stream, std::string source, std::string target)
      : stream_(std::move(stream)), source_(std::move(source)), target_(std::move(target)) {}

  StatusOr<bool> Next(FoundPair& pair) override {
    for (;;) {
      DT_ASSIGN_OR_RETURN(const XmlToken token, stream_.Next());
      switch (token.kind) {
        case XmlToken::Kind::kFileEnd:
          return CheckEnd(token.line);
        case XmlToken::Kind::kText:
          if (TakesText()) segment_ += DecodeEntities(token.content);
          break;
        case XmlToken::Kind::kCharacterData:
          if (TakesText()) segment_ += token.content;
          break;
        case XmlToken::Kind::kStart:
          Open(token);
          break;
        case XmlToken::Kind::kEmpty:
          is_tmx_ = is_tmx_ || token.name == "tmx";
          break;
        case XmlToken::Kind::kOther:
          break;
        case XmlToken::Kind::kEnd: {
          if (token.name == "tu" && TakeUnit(pair)) {
            if (IsValidUtf8(pair.source) && IsValidUtf8(pair.target)) return true;
            return stream_.Error(pair.number, DescribeLineProblem(LineProblem::kInvalidUtf8));
          }
          Close(token);
          break;
        }
      }
    }
  }

  int64_t incomplete() const override { return incomplete_; }

 private:
  struct Variant {
    std::string language;
    std::string text;
  };

  bool TakesText() const { return in_segment_ && codes_ == 0; }
  static bool IsCode(std::string_view name) {
    return name == "bpt" || name == "ept" || name == "it" || name == "ph" || name == "ut";
  }

  void Open(const XmlToken& token) {
    if (token.name == "tmx") is_tmx_ = true;
    if (token.name == "tu") {
      variants_.clear();
      unit_line_ = token.line;
      in_unit_ = true;
    } else if (token.name == "tuv") {
      language_ = Attribute(token.content, "xml:lang");
      if (language_.empty()) language_ = Attribute(token.content, "lang");
    } else if (token.name == "seg") {
      in_segment_ = true;
      segment_.clear();
      codes_ = 0;
    } else if (IsCode(token.name)) {
      ++codes_;
    }
  }

  void Close(const XmlToken& token) {
    if (token.name == "seg") {
      in_segment_ = false;
      variants_.push_back({language_, JoinLines(segment_)});
    } else if (IsCode(token.name) && codes_ > 0) {
      --codes_;
    }
  }

  // The variant that fits a language best, the first of equals; null where none does.
  const Variant* Find(const std::string& wanted) const {
    const Variant* best = nullptr;
    int best_match = 0;
    for (const Variant& variant : variants_) {
      const int match = LanguageMatch(variant.language, wanted);
      if (match <= best_match) continue;
      best = &variant;
      best_match = match;
    }
    return best;
  }

  // At the end of a unit: whether it has both languages, which become the pair.
  bool TakeUnit(FoundPair& pair) {
    in_unit_ = false;
    constexpr size_t kListed = 20;
    for (const Variant& variant : variants_) {
      if (languages_.size() < kListed) languages_.insert(variant.language);
    }
    const Variant* const source = Find(source_);
    const Variant* const target = Find(target_);
    if (source == nullptr || target == nullptr) {
      ++incomplete_;
      return false;
    }
    pair = {.source = source->text, .target = target->text, .number = unit_line_};
    ++pairs_;
    return true;
  }

  StatusOr<bool> CheckEnd(int64_t line) const {
    if (!is_tmx_) {
      return DataError(stream_.path() + ": is no TMX file: it has no <tmx>");
    }
    if (in_unit_) return stream_.Error(line, "the file ends inside a <tu>; copy it again");
    if (pairs_ > 0 || incomplete_ == 0) return false;
    return DataError(absl::StrFormat(
        "%s: no unit has both %s and %s; the languages are: %s. Set data.source_language and "
        "data.target_language",
        stream_.path(), Printable(source_), Printable(target_),
        PrintableList({languages_.begin(), languages_.end()})));
  }

  XmlStream stream_;
  std::string source_, target_;
  bool is_tmx_ = false;
  bool in_unit_ = false;
  bool in_segment_ = false;
  int codes_ = 0;  // open tags whose content is no text
  int64_t unit_line_ = 0;
  std::string language_;  // of the variant that is read
  std::string segment_;
  std::vector<Variant> variants_;  // of the unit
  std::set<std::string> languages_;
  int64_t pairs_ = 0;
  int64_t incomplete_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<PairSource>> OpenTmx(const std::string& path,
                                              const std::string& source_language,
                                              const std::string& target_language,
                                              int64_t max_unit_bytes) {
  DT_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenByteSource(path));
  XmlStream stream(path, std::move(source), max_unit_bytes);
  DT_RETURN_IF_ERROR(stream.ReadStart());
  return std::make_unique<TmxPairs>(std::move(stream), source_language, target_language);
}

}  // namespace dtrain::internal
