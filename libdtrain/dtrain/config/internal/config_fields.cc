// config_fields.cc - parses values by the type of their field.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/internal/config_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"
#include "dtrain/base/printable.h"
#include "dtrain/config/nearest_name.h"
#include "dtrain/config/synonyms.h"
#include "dtrain/rules.pb.h"

namespace dtrain::internal {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

Status IllTyped(const FieldDescriptor& field, const std::string& value) {
  return UsageError(absl::StrFormat("is %s, not \"%s\"", TypeInWords(field), Shorten(value)));
}

template <typename T>
Status ParseNumber(const FieldDescriptor& field, const std::string& text, T& number) {
  const char* begin = text.data();
  const char* const end = begin + text.size();
  if (begin != end && *begin == '+') ++begin;
  const auto [next, error] = std::from_chars(begin, end, number);
  if (error == std::errc::result_out_of_range && next == end) {
    return UsageError(
        absl::StrFormat("is %s; %s is out of its range", TypeInWords(field), Shorten(text)));
  }
  if (error != std::errc() || next != end) return IllTyped(field, text);
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(number)) return IllTyped(field, text);
  }
  return OkStatus();
}

// Sets or appends with the two Reflection functions of a type.
template <typename T, typename Set, typename Add>
void Store(const FieldDescriptor& field, Message& message, const T& value, Set set, Add add) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    (reflection.*add)(&message, &field, value);
  } else {
    (reflection.*set)(&message, &field, value);
  }
}

template <typename T, typename Set, typename Add>
Status StoreNumber(const FieldDescriptor& field, const std::string& text, Message& message, Set set,
                   Add add) {
  T number{};
  DT_RETURN_IF_ERROR(ParseNumber(field, text, number));
  Store(field, message, number, set, add);
  return OkStatus();
}

Status StoreBool(const FieldDescriptor& field, const std::string& text, Message& message) {
  const bool yes = text == "true" || text == "1";
  if (!yes && text != "false" && text != "0") return IllTyped(field, text);
  Store(field, message, yes, &Reflection::SetBool, &Reflection::AddBool);
  return OkStatus();
}

Status StoreEnum(const FieldDescriptor& field, const std::string& text, Message& message) {
  const auto* const value = field.enum_type()->FindValueByName(text);
  if (value == nullptr) return UsageError(UnknownEnumValue(*field.enum_type(), text));
  Store(field, message, value, &Reflection::SetEnum, &Reflection::AddEnum);
  return OkStatus();
}

}  // namespace

std::string Shorten(std::string_view text) { return Printable(text); }

std::string EnumNames(const EnumDescriptor& type) {
  std::string names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (i > 0) names += ", ";
    names += type.value(i)->name();
  }
  return names;
}

std::string UnknownEnumValue(const EnumDescriptor& type, std::string_view value) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  const std::vector<std::string> called = KeysCalled(value, names);
  return absl::StrFormat("is one of %s, not \"%s\"%s", EnumNames(type), Shorten(value),
                         called.empty() ? DidYouMean(value, names) : DidYouMeanOneOf(called));
}

std::string TypeInWords(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrFormat("a whole number (%s)", field.type_name());
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrFormat("a whole number, not negative (%s)", field.type_name());
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrFormat("a number (%s)", field.type_name());
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "one of " + EnumNames(*field.enum_type());
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a section";
  }
  return "";
}

bool IsPath(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
         field.options().GetExtension(proto::rules).path();
}

std::string ResolvePath(const FieldDescriptor& field, const std::filesystem::path& directory,
                        const std::string& value) {
  if (value.empty()) return value;
  for (const std::string& word : field.options().GetExtension(proto::rules).path_unless()) {
    if (value == word) return value;
  }
  std::string path = (directory / value).lexically_normal().string();
  // A trailing slash has no meaning and would make parent_path() useless.
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string Unquote(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> items;
  if (text.empty() || text == "[]") return items;
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !quoted)) {
      items.push_back(Unquote(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '"') {
      quoted = !quoted;
    }
  }
  return items;
}

Status SetField(const FieldDescriptor& field, const std::string& value,
                const std::filesystem::path& directory, Message& message) {
  using R = Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return StoreNumber<int32_t>(field, value, message, &R::SetInt32, &R::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return StoreNumber<int64_t>(field, value, message, &R::SetInt64, &R::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return StoreNumber<uint32_t>(field, value, message, &R::SetUInt32, &R::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return StoreNumber<uint64_t>(field, value, message, &R::SetUInt64, &R::AddUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return StoreNumber<float>(field, value, message, &R::SetFloat, &R::AddFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return StoreNumber<double>(field, value, message, &R::SetDouble, &R::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return StoreBool(field, value, message);
    case FieldDescriptor::CPPTYPE_ENUM:
      return StoreEnum(field, value, message);
    case FieldDescriptor::CPPTYPE_STRING:
      Store(field, message, IsPath(field) ? ResolvePath(field, directory, value) : value,
            &R::SetString, &R::AddString);
      return OkStatus();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return UsageError("is a section");
}

}  // namespace dtrain::internal
