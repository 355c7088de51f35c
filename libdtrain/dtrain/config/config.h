// config.h - a program's configuration: textproto files, then key.path=value, all of it checked.
// SPDX-License-Identifier: Apache-2.0
//
//   proto::NmtConfig config;
//   DT_RETURN_IF_ERROR(LoadConfig({.files = {"base.textproto"},
//                                  .overrides = {"trainer.max_steps=100"}}, config));
//   const int heads = config.model().num_heads();  // the default of the .proto where nobody set it
//
// Later sources win over earlier ones; a list given later replaces the one before. Nothing unknown
// is ever ignored. All failures are UsageError (exit code 2) and name file:line:column or the
// argument, the field, what it may be and what was found.
//
// Fields marked as paths (proto/dtrain/rules.proto) come out absolute: in a file they are relative
// to that file, on the command line to the working directory.
#ifndef DTRAIN_CONFIG_CONFIG_H_
#define DTRAIN_CONFIG_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace dtrain {

struct ConfigSources {
  std::vector<std::string> files;      // textproto, merged in this order
  std::vector<std::string> overrides;  // key.path=value, key.path+=value, applied in this order
};

// All of it: files, overrides, SettleDefaults(), then CheckRules().
Status LoadConfig(const ConfigSources& sources, google::protobuf::Message& config);

// Merges one textproto file.
Status MergeConfigFile(const std::string& path, google::protobuf::Message& config);

// The same from memory. `name` stands in messages; relative paths are below `directory`.
Status MergeConfigText(std::string_view text, const std::string& name, const std::string& directory,
                       google::protobuf::Message& config);

// Applies one "key.path=value". Strings need no quotes; enums go by name; a list takes values
// between commas and `+=` appends to it.
Status ApplyOverride(std::string_view assignment, google::protobuf::Message& config);

// Sets to 0 what is not set where rules.proto's zero_with says so: a run that is given
// trainer.max_steps does not end at the default of trainer.max_epochs, nor one that is started with
// the configuration as it was printed.
void SettleDefaults(google::protobuf::Message& config);

// Checks the ranges, periods and durations that rules.proto states beside the fields.
Status CheckRules(const google::protobuf::Message& config);

enum class ConfigFormat {
  kFull,     // textproto, every field but those that rules.proto's unset_differs leaves unset
  kMinimal,  // textproto, fields that differ from their defaults
  kJson      // every field
};

// The configuration as text. kFull and kMinimal load back to an equal configuration, where
// `defaults` is what the program begins with; null: the defaults of the .proto files.
std::string PrintConfig(const google::protobuf::Message& config, ConfigFormat format,
                        const google::protobuf::Message* defaults = nullptr);

// Every field of the section `key` ("" is all, "model" one, "model.dropout" a single field) with
// its default, range, unit and comment. Where `defaults` has a field set, that is the default.
// UsageError where there is no such key.
StatusOr<std::string> DescribeConfig(const google::protobuf::Message& defaults,
                                     std::string_view key);

// The default of the field `key`, or what `defaults` has there, as text: "8000", "[]", "\"\"".
// There must be such a field.
std::string DefaultText(const google::protobuf::Message& defaults, std::string_view key);

// Dotted names of all fields that can be set, sections left out.
std::vector<std::string> ConfigKeys(const google::protobuf::Descriptor& type);

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_CONFIG_H_
