// config_fields.h - one field of a configuration: its type in words, and its value from text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_CONFIG_INTERNAL_CONFIG_FIELDS_H_
#define DTRAIN_CONFIG_INTERNAL_CONFIG_FIELDS_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace google::protobuf {
class EnumDescriptor;
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace dtrain::internal {

// At most about 80 bytes of a foreign text, for messages, as Printable() shows it.
std::string Shorten(std::string_view text);

// Returns "a whole number (int32)", "a number (float)", "true or false", "text", or the names of an
// enum.
std::string TypeInWords(const google::protobuf::FieldDescriptor& field);
// For example "relu, gelu_erf, gelu_tanh".
std::string EnumNames(const google::protobuf::EnumDescriptor& type);
// For example `is not one of relu, gelu_erf: "gelu"; did you mean gelu_erf?`, without the field's
// name.
std::string UnknownEnumValue(const google::protobuf::EnumDescriptor& type, std::string_view value);

bool IsPath(const google::protobuf::FieldDescriptor& field);
// Makes `value` an absolute, normalised path below `directory`, unless it is empty or a special
// word that is not a path.
std::string ResolvePath(const google::protobuf::FieldDescriptor& field,
                        const std::filesystem::path& directory, const std::string& value);

// Removes one pair of double quotes around the text.
std::string Unquote(std::string_view text);
// Splits items at commas and unquotes each; commas inside quotes belong to the item. "" has no
// items.
std::vector<std::string> SplitList(std::string_view text);

// Sets a scalar field, or appends to a list. The error message continues the field's name: `is a
// whole number (int32), not "eight"`.
Status SetField(const google::protobuf::FieldDescriptor& field, const std::string& value,
                const std::filesystem::path& directory, google::protobuf::Message& message);

}  // namespace dtrain::internal

#endif  // DTRAIN_CONFIG_INTERNAL_CONFIG_FIELDS_H_
