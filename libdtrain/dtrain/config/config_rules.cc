// config_rules.cc - checks values against the rules of their fields, and settles defaults.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/check.h"
#include "dtrain/base/period.h"
#include "dtrain/base/utf8.h"
#include "dtrain/config/config.h"
#include "dtrain/config/internal/config_fields.h"
#include "dtrain/rules.pb.h"

namespace dtrain {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The value of a singular number field; nullopt for other types.
std::optional<double> NumberOf(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return static_cast<double>(reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    default:
      return std::nullopt;
  }
}

Status CheckNumber(const proto::Rules& rules, const std::string& key, double value) {
  std::string wanted;
  bool bad = false;
  const auto limit = [&](bool present, bool holds, std::string_view words, double bound) {
    if (!present) return;
    bad = bad || !holds;  // NaN satisfies no rule
    wanted += absl::StrFormat("%s%s %.9g", wanted.empty() ? "" : " and ", words, bound);
  };
  // Bounds are doubles but most values are floats, so 0.1f must count as equal to 0.1.
  const auto as_float = [](double bound) { return static_cast<double>(static_cast<float>(bound)); };
  limit(rules.has_min(), value >= rules.min() || value == as_float(rules.min()), "at least",
        rules.min());
  limit(rules.has_above(), value > rules.above(), "above", rules.above());
  limit(rules.has_max(), value <= rules.max() || value == as_float(rules.max()), "at most",
        rules.max());
  limit(rules.has_below(), value < rules.below(), "below", rules.below());
  if (!bad) return OkStatus();
  return UsageError(absl::StrFormat("%s is %.9g; it must be %s", key, value, wanted));
}

Status CheckText(const proto::Rules& rules, const std::string& key, const std::string& value) {
  if (rules.period()) return Annotate(ParsePeriod(value).status(), key);
  if (rules.duration()) return Annotate(ParseDuration(value).status(), key);
  if (rules.path_unless_size() > 0 && value.empty()) {
    return UsageError(absl::StrFormat("%s is empty; it must be %s or a path", key,
                                      absl::StrJoin(rules.path_unless(), ", ")));
  }
  return OkStatus();
}

// Paths may have any bytes. Other text is printed, exported and compared as UTF-8.
Status CheckEncoding(const FieldDescriptor& field, const std::string& key,
                     const std::string& value) {
  if (internal::IsPath(field) || IsValidUtf8(value)) return OkStatus();
  return UsageError(key + " is not UTF-8");
}

Status CheckList(const Message& message, const FieldDescriptor& field, const std::string& key) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return OkStatus();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const std::string value = reflection.GetRepeatedString(message, &field, i);
    DT_RETURN_IF_ERROR(CheckEncoding(field, key, value));
    if (internal::IsPath(field) && value.empty()) {
      return UsageError(absl::StrFormat("%s: item %d is empty", key, i + 1));
    }
  }
  return OkStatus();
}

Status CheckMessage(const Message& message, const std::string& prefix);

Status CheckSections(const Message& message, const FieldDescriptor& field, const std::string& key) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    DT_RETURN_IF_ERROR(CheckMessage(reflection.GetRepeatedMessage(message, &field, i),
                                    absl::StrFormat("%s, item %d: ", key, i + 1)));
  }
  return OkStatus();
}

Status CheckMessage(const Message& message, const std::string& prefix) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const std::string key = prefix + field.name();
    if (field.is_repeated()) {
      DT_RETURN_IF_ERROR(field.message_type() != nullptr ? CheckSections(message, field, key)
                                                         : CheckList(message, field, key));
      continue;
    }
    if (field.message_type() != nullptr) {
      DT_RETURN_IF_ERROR(CheckMessage(reflection.GetMessage(message, &field), key + "."));
      continue;
    }
    const proto::Rules& rules = field.options().GetExtension(proto::rules);
    if (const std::optional<double> number = NumberOf(message, field)) {
      DT_RETURN_IF_ERROR(CheckNumber(rules, key, *number));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const std::string value = reflection.GetString(message, &field);
      DT_RETURN_IF_ERROR(CheckEncoding(field, key, value));
      DT_RETURN_IF_ERROR(CheckText(rules, key, value));
    }
  }
  return OkStatus();
}

}  // namespace

void SettleDefaults(Message& config) {
  const Reflection& reflection = *config.GetReflection();
  for (int i = 0; i < config.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *config.GetDescriptor()->field(i);
    if (field.is_repeated()) continue;
    if (field.message_type() != nullptr) {
      // A section that does not exist has no fields set.
      if (!reflection.HasField(config, &field)) continue;
      SettleDefaults(*reflection.MutableMessage(&config, &field));
      continue;
    }
    const std::string& other = field.options().GetExtension(proto::rules).zero_with();
    if (other.empty() || reflection.HasField(config, &field)) continue;
    const FieldDescriptor* const set = config.GetDescriptor()->FindFieldByName(other);
    DT_CHECK(set != nullptr) << field.full_name() << ": zero_with names no field of its section";
    if (!reflection.HasField(config, set) || reflection.GetInt64(config, set) <= 0) continue;
    reflection.SetInt64(&config, &field, 0);
  }
}

Status CheckRules(const Message& config) { return CheckMessage(config, ""); }

}  // namespace dtrain
