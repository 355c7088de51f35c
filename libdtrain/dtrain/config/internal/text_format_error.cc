// text_format_error.cc - translates protobuf's parse errors, which name message types, to our keys.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/internal/text_format_error.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <regex>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/config/config.h"
#include "dtrain/config/internal/config_fields.h"
#include "dtrain/config/synonyms.h"

namespace dtrain::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Keeps only the first error, because later ones result from it.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = 0;  // line and column count from 0; line is -1 if the error is not in the text
  int column_ = 0;
  std::string message_;
};

std::string_view LineOf(std::string_view text, int line) {
  size_t begin = 0;
  for (; line > 0 && begin != std::string_view::npos; --line) {
    const size_t end = text.find('\n', begin);
    begin = end == std::string_view::npos ? end : end + 1;
  }
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Finds the dotted key of the section with the type `type`; "" for the whole configuration.
bool FindSection(const Descriptor& root, const std::string& type, const std::string& prefix,
                 std::string& key) {
  if (root.full_name() == type) {
    key = prefix;
    return true;
  }
  for (int i = 0; i < root.field_count(); ++i) {
    const FieldDescriptor& field = *root.field(i);
    if (field.message_type() == nullptr) continue;
    const std::string inner = prefix.empty() ? field.name() : prefix + "." + field.name();
    if (FindSection(*field.message_type(), type, inner, key)) return true;
  }
  return false;
}

// The field with this name, if fields of only one enum type have it.
const FieldDescriptor* FindEnumField(const Descriptor& root, const std::string& name) {
  for (int i = 0; i < root.field_count(); ++i) {
    const FieldDescriptor& field = *root.field(i);
    if (field.enum_type() != nullptr && field.name() == name) return &field;
    if (field.message_type() != nullptr) {
      if (const FieldDescriptor* found = FindEnumField(*field.message_type(), name)) return found;
    }
  }
  return nullptr;
}

// The name before the colon that precedes the error; "" if there is none.
std::string FieldBefore(std::string_view line, int column) {
  const std::string before(line.substr(0, static_cast<size_t>(std::max(column, 0))));
  static const std::regex pattern(R"(([A-Za-z_][A-Za-z_0-9]*)\s*:\s*\[?[^:]*$)");
  std::smatch match;
  return std::regex_search(before, match, pattern) ? match[1].str() : "";
}

// A description of the problem, and its column (from 0).
struct Diagnosis {
  std::string what;
  int column = 0;
};

// Adds what to write to messages that name a token of protobuf's grammar.
std::string WithAdvice(const std::string& message) {
  if (message == "Expected identifier, got: ") return "the file ends, and a } is missing";
  if (message.starts_with("Interpreting non ascii codepoint") ||
      message.starts_with("Expected \"{\", found")) {
    return Shorten(message) + " Settings are written: trainer { max_steps: 100 }";
  }
  return Shorten(message);
}

Diagnosis Diagnose(const FirstError& error, std::string_view line, const Descriptor& root) {
  static const std::regex unknown_field(
      R"re(Message type "([^"]*)" has no field named "([^"]*)"\.)re");
  static const std::regex unknown_enum(
      R"re(Unknown enumeration value of "([^"]*)" for field "([^"]*)"\.)re");
  const std::string& message = error.message();
  std::smatch match;
  if (std::regex_search(message, match, unknown_field)) {
    std::string section;
    FindSection(root, match[1], "", section);
    const std::string key = section.empty() ? match[2].str() : section + "." + match[2].str();
    // The parser reports the position of the token after the name.
    const size_t place = line.rfind(match[2].str(), static_cast<size_t>(error.column()));
    return {absl::StrFormat("unknown field \"%s\"%s%s", Shorten(match[2].str()),
                            section.empty() ? "" : " in " + section,
                            DidYouMeanKey(key, ConfigKeys(root))),
            place == std::string_view::npos ? error.column() : static_cast<int>(place)};
  }
  if (std::regex_search(message, match, unknown_enum)) {
    const std::string value = match[1];
    const size_t place = line.rfind(value, static_cast<size_t>(error.column()));
    const int column = place == std::string_view::npos ? error.column() : static_cast<int>(place);
    if (const FieldDescriptor* field = FindEnumField(root, match[2])) {
      return {field->name() + " " + UnknownEnumValue(*field->enum_type(), value), column};
    }
    return {message, column};
  }
  const std::string field = FieldBefore(line, error.column());
  return {(field.empty() ? "" : "field " + field + ": ") + WithAdvice(message), error.column()};
}

}  // namespace

Status ParseTextFormat(std::string_view text, const std::string& name, Message& message) {
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  // Some editors write a byte order mark at the start.
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(std::string(text), &message)) return OkStatus();
  const std::string_view line = LineOf(text, error.line());
  const Diagnosis diagnosis = Diagnose(error, line, *message.GetDescriptor());
  if (error.line() < 0) return UsageError(absl::StrFormat("%s: %s", name, diagnosis.what));
  return UsageError(absl::StrFormat("%s:%d:%d: %s", name, error.line() + 1, diagnosis.column + 1,
                                    diagnosis.what));
}

}  // namespace dtrain::internal
