// config_print.cc - prints the effective configuration as textproto or JSON.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "dtrain/base/internal/json_text.h"
#include "dtrain/config/config.h"
#include "dtrain/rules.pb.h"

namespace dtrain {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

// Calls number(value) or text(value) with the value of a singular field; enums are passed by name.
template <typename Visitor>
auto VisitScalar(const Message& message, const FieldDescriptor& field, Visitor visit) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return visit(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return visit(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return visit(reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return visit(reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return visit(reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return visit(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return visit(reflection.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return visit(reflection.GetEnum(message, &field)->name());
    default:
      return visit(reflection.GetString(message, &field));
  }
}

// True if a field has the same value in both messages.
bool IsEqual(const Message& message, const Message& defaults, const FieldDescriptor& field) {
  return VisitScalar(message, field, [&](const auto& value) {
    return VisitScalar(defaults, field, [&](const auto& other) {
      if constexpr (std::is_same_v<decltype(value), decltype(other)>) return value == other;
      return false;
    });
  });
}

const proto::Rules& RulesOf(const FieldDescriptor& field) {
  return field.options().GetExtension(proto::rules);
}

// Writes the default into a field that is not set.
void SetDefault(const FieldDescriptor& field, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, field.default_value_float());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, field.default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, field.default_value_bool());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnum(&message, &field, field.default_value_enum());
    default:
      return reflection.SetString(&message, &field, field.default_value_string());
  }
}

void FillDefaults(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_repeated()) {
      const int items = field.message_type() != nullptr ? reflection.FieldSize(message, &field) : 0;
      for (int k = 0; k < items; ++k) {
        FillDefaults(*reflection.MutableRepeatedMessage(&message, &field, k));
      }
      continue;
    }
    if (field.message_type() != nullptr) {
      FillDefaults(*reflection.MutableMessage(&message, &field));
    } else if (!reflection.HasField(message, &field) && !RulesOf(field).unset_differs()) {
      SetDefault(field, message);
    }
  }
}

void ClearDefaults(const Message& defaults, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    if (field->message_type() != nullptr) {
      Message& section = *reflection.MutableMessage(&message, field);
      ClearDefaults(reflection.GetMessage(defaults, field), section);
      if (section.ByteSizeLong() == 0) reflection.ClearField(&message, field);
    } else if (IsEqual(message, defaults, *field) && !RulesOf(*field).unset_differs() &&
               !RulesOf(*field).has_zero_with()) {
      reflection.ClearField(&message, field);
    }
  }
}

// Converts a float to the double with the same shortest decimal: 0.1f as a double would print
// 0.10000000149011612.
double Shortest(float value) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double shortest = 0;
  std::from_chars(digits, end, shortest);
  return shortest;
}

Json ToJson(const Message& message) {
  Json json = Json::object();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    Json& slot = json[field.name()];
    if (field.is_repeated()) {
      slot = Json::array();
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        if (field.message_type() != nullptr) {
          slot.push_back(ToJson(reflection.GetRepeatedMessage(message, &field, k)));
          continue;
        }
        std::string text;
        google::protobuf::TextFormat::PrintFieldValueToString(message, &field, k, &text);
        slot.push_back(field.cpp_type() == FieldDescriptor::CPPTYPE_STRING
                           ? Json(reflection.GetRepeatedString(message, &field, k))
                           : internal::ParseJson<Json>(text));
      }
    } else if (field.message_type() != nullptr) {
      slot = ToJson(reflection.GetMessage(message, &field));
    } else {
      slot = VisitScalar(message, field, [](const auto& value) -> Json {
        if constexpr (std::is_same_v<decltype(value), const float&>) return Shortest(value);
        return value;
      });
    }
  }
  return json;
}

}  // namespace

std::string PrintConfig(const Message& config, ConfigFormat format, const Message* defaults) {
  const std::unique_ptr<Message> fresh(config.New());
  const std::unique_ptr<Message> copy(config.New());
  copy->CopyFrom(config);
  if (format == ConfigFormat::kMinimal) {
    ClearDefaults(defaults == nullptr ? *fresh : *defaults, *copy);
  } else {
    FillDefaults(*copy);
  }
  if (format == ConfigFormat::kJson) {
    return internal::JsonText(ToJson(*copy), 2) + "\n";
  }
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  printer.PrintToString(*copy, &text);
  return text;
}

}  // namespace dtrain
