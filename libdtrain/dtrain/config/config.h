// config.h - loads and checks a configuration: textproto files, then key.path=value.
// SPDX-License-Identifier: Apache-2.0
//
//   proto::NmtConfig config;
//   DT_RETURN_IF_ERROR(LoadConfig({.files = {"base.textproto"},
//                                  .overrides = {"trainer.max_steps=100"}}, config));
//   const int heads = config.model().num_heads();  // the .proto's default if not set
//
// Later sources override earlier ones, and a later list replaces an earlier one. Nothing unknown is
// ignored. All errors are UsageErrors (exit code 2) that name file:line:column or the argument, the
// field, its allowed values and the value found.
//
// Fields marked as paths (proto/dtrain/rules.proto) become absolute. In a file they are relative to
// that file, on the command line to the working directory.
#ifndef DTRAIN_CONFIG_CONFIG_H_
#define DTRAIN_CONFIG_CONFIG_H_

#include <span>
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
  std::vector<std::string> files;      // textproto files, merged in this order
  std::vector<std::string> overrides;  // key.path=value or key.path+=value, applied in this order
};

// Merges files and overrides, then calls SettleDefaults() and CheckRules().
Status LoadConfig(const ConfigSources& sources, google::protobuf::Message& config);

// Merges one textproto file.
Status MergeConfigFile(const std::string& path, google::protobuf::Message& config);

// Merges textproto from memory. `name` is used in messages; relative paths are relative to
// `directory`.
Status MergeConfigText(std::string_view text, const std::string& name, const std::string& directory,
                       google::protobuf::Message& config);

// Applies one "key.path=value". Strings need no quotes, enums are given by name, lists are
// separated by commas, and `+=` appends to a list. Sections of a list are textproto in braces:
// "data.sources+={tsv: \"a.tsv\" weight: 2}".
Status ApplyOverride(std::string_view assignment, google::protobuf::Message& config);

// Sets fields to 0 if they are not set and rules.proto's zero_with says so. For example, a run with
// trainer.max_steps does not end at the default of trainer.max_epochs. This also holds for a run
// started with a printed configuration.
void SettleDefaults(google::protobuf::Message& config);

// Checks the ranges, periods and durations that rules.proto defines for the fields.
Status CheckRules(const google::protobuf::Message& config);

enum class ConfigFormat {
  kFull,     // textproto with every field, except those that rules.proto's unset_differs leaves
             // unset
  kMinimal,  // textproto with the fields that differ from their defaults
  kJson      // JSON with every field
};

// The configuration as text. kFull and kMinimal can be loaded again and give an equal
// configuration, if loading starts with `defaults`; null means the defaults of the .proto files.
std::string PrintConfig(const google::protobuf::Message& config, ConfigFormat format,
                        const google::protobuf::Message* defaults = nullptr);

// Describes every field of the section `key` with its default, range, unit and comment. "" is
// everything, "model" one section, "model.dropout" a single field. A field that is set in
// `defaults` has that value as its default. Everything begins with a section [most_used], of the
// fields with these keys, unless there are none. Returns UsageError if there is no such key.
StatusOr<std::string> DescribeConfig(const google::protobuf::Message& defaults,
                                     std::string_view key,
                                     std::span<const std::string_view> most_used = {});

// The default of the field `key`, or its value in `defaults`, as text: "8000", "[]", "\"\"". The
// field must exist.
std::string DefaultText(const google::protobuf::Message& defaults, std::string_view key);

// Dotted names of all fields that can be set, without sections.
std::vector<std::string> ConfigKeys(const google::protobuf::Descriptor& type);

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_CONFIG_H_
