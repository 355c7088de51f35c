// config_fields.h - one field of a configuration: its type in words, its value from text.
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

// At most about 80 bytes of a text from outside, for messages; control characters are shown as '?'.
std::string Shorten(std::string_view text);

// "whole number (int32)", "number", "true or false", "text", or the names of an enum.
std::string TypeInWords(const google::protobuf::FieldDescriptor& field);
// "relu, gelu_erf, gelu_tanh"
std::string EnumNames(const google::protobuf::EnumDescriptor& type);
// `is not one of relu, gelu_erf: "gelu"; did you mean gelu_erf?` without the field's name.
std::string UnknownEnumValue(const google::protobuf::EnumDescriptor& type, std::string_view value);

bool IsPath(const google::protobuf::FieldDescriptor& field);
// `value` as an absolute, normal path below `directory`, unless empty or a word that is no path.
std::string ResolvePath(const google::protobuf::FieldDescriptor& field,
                        const std::filesystem::path& directory, const std::string& value);

// Removes one pair of double quotes around the text.
std::string Unquote(std::string_view text);
// Items between commas, each unquoted; commas inside quotes belong to the item. "" is no item.
std::vector<std::string> SplitList(std::string_view text);

// Sets a scalar field, or appends to a list. The message of the error continues the field's name:
// `is a whole number (int32), not "eight"`.
Status SetField(const google::protobuf::FieldDescriptor& field, const std::string& value,
                const std::filesystem::path& directory, google::protobuf::Message& message);

}  // namespace dtrain::internal

#endif  // DTRAIN_CONFIG_INTERNAL_CONFIG_FIELDS_H_
