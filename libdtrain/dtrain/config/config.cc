// config.cc - reads files with protobuf's text format, and overrides by reflection.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/config.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_format.h"
#include "dtrain/config/internal/config_fields.h"
#include "dtrain/config/internal/text_format_error.h"
#include "dtrain/config/synonyms.h"

namespace dtrain {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void CollectKeys(const Descriptor& type, const std::string& prefix,
                 std::vector<std::string>& keys) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.message_type() != nullptr && !field.is_repeated()) {
      CollectKeys(*field.message_type(), prefix + field.name() + ".", keys);
    } else {
      keys.push_back(prefix + field.name());
    }
  }
}

// A list in a later file replaces the earlier one; MergeFrom() alone would append.
void ClearReplacedLists(const Message& later, Message& config) {
  std::vector<const FieldDescriptor*> fields;
  later.GetReflection()->ListFields(later, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) {
      config.GetReflection()->ClearField(&config, field);
    } else if (field->message_type() != nullptr) {
      ClearReplacedLists(later.GetReflection()->GetMessage(later, field),
                         *config.GetReflection()->MutableMessage(&config, field));
    }
  }
}

void ResolvePaths(const std::filesystem::path& directory, Message& config) {
  const Reflection& reflection = *config.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(config, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() != nullptr) {
      const int items = field->is_repeated() ? reflection.FieldSize(config, field) : 0;
      for (int i = 0; i < items; ++i) {
        ResolvePaths(directory, *reflection.MutableRepeatedMessage(&config, field, i));
      }
      if (!field->is_repeated())
        ResolvePaths(directory, *reflection.MutableMessage(&config, field));
    } else if (internal::IsPath(*field)) {
      if (!field->is_repeated()) {
        reflection.SetString(
            &config, field,
            internal::ResolvePath(*field, directory, reflection.GetString(config, field)));
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(config, field); ++i) {
        const std::string value = reflection.GetRepeatedString(config, field, i);
        reflection.SetRepeatedString(&config, field, i,
                                     internal::ResolvePath(*field, directory, value));
      }
    }
  }
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  constexpr size_t kMaxBytes = 16 << 20;
  std::string text;
  bool ok = file != nullptr;
  if (ok) {
    char buffer[1 << 16];
    size_t count = sizeof(buffer);
    while (count == sizeof(buffer)) {  // less is the end of the file, or an error
      count = std::fread(buffer, 1, sizeof(buffer), file.get());
      text.append(buffer, count);
      if (text.size() > kMaxBytes) {
        return UsageError(path + ": is longer than 16 MiB, which no configuration is");
      }
    }
    ok = std::ferror(file.get()) == 0;
  }
  if (!ok) {
    const std::string reason = std::strerror(errno);
    std::error_code error;
    std::string hint;
    if (std::filesystem::exists(path + ".textproto", error)) {
      hint = "; did you mean " + path + ".textproto?";
    } else if (path.find_first_of("/.") == std::string::npos) {
      hint = "; presets are files, like examples/nmt_train/configs/tiny.textproto";
    }
    return UsageError(absl::StrFormat("%s: cannot read the configuration: %s%s",
                                      internal::Shorten(path), reason, hint));
  }
  return text;
}

// The parts of one "key=value".
struct Assignment {
  std::string_view text = {};  // the whole text, for messages
  std::string_view key = {};
  std::string_view value = {};
  bool append = false;
};

Status OverrideError(const Assignment& assignment, std::string_view why) {
  return UsageError(absl::StrFormat("%s: %s", internal::Shorten(assignment.text), why));
}

// Why a word is no assignment, and what was perhaps meant.
Status NoAssignment(const Assignment& assignment, const Descriptor& type) {
  const std::string word(assignment.text);
  const std::vector<std::string> keys = ConfigKeys(type);
  std::string hint;
  std::error_code error;
  if (std::find(keys.begin(), keys.end(), word) != keys.end() || word.starts_with('=')) {
    hint = "; write key=value as one word, without spaces";
  } else if (std::filesystem::exists(word + "/STATUS", error)) {
    hint = "; a run is given by --run_dir=" + internal::Shorten(word);
  } else if (std::filesystem::exists(word, error)) {
    hint = word.ends_with(".textproto")
               ? "; a configuration is given by --config=" + internal::Shorten(word)
               : "; a file is given by the key it is for: --help_config data lists them";
  }
  return OverrideError(assignment, "an argument is either a --flag or key.path=value" + hint);
}

StatusOr<Assignment> SplitAssignment(std::string_view text, const Descriptor& type) {
  Assignment assignment{.text = text};
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return NoAssignment(assignment, type);
  assignment.key = text.substr(0, equals);
  assignment.value = text.substr(equals + 1);
  assignment.append = assignment.key.back() == '+';
  if (assignment.append) assignment.key.remove_suffix(1);
  return assignment;
}

// The field that a key names and its message, which is created if necessary.
struct Target {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
};

StatusOr<Target> FindTarget(const Assignment& assignment, Message& config) {
  Target target{.message = &config};
  std::string_view rest = assignment.key;
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string name(rest.substr(0, dot));
    const FieldDescriptor* const field = target.message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) {
      return OverrideError(
          assignment,
          absl::StrFormat("unknown key \"%s\"%s", internal::Shorten(assignment.key),
                          DidYouMeanKey(assignment.key, ConfigKeys(*config.GetDescriptor()))));
    }
    if (dot == std::string_view::npos) {
      if (field->message_type() != nullptr && !field->is_repeated()) {
        return OverrideError(
            assignment,
            absl::StrFormat("%s is a section; set one of its fields, such as %s.%s", assignment.key,
                            assignment.key, field->message_type()->field(0)->name()));
      }
      target.field = field;
      return target;
    }
    if (field->message_type() == nullptr || field->is_repeated()) {
      const std::string_view key =
          assignment.key.substr(0, assignment.key.size() - rest.size() + dot);
      if (field->message_type() != nullptr) {
        return OverrideError(
            assignment,
            absl::StrFormat("%s is a list of sections; set all of it, '%s=[{...}, {...}]', or "
                            "append one, '%s+={...}'",
                            key, key, key));
      }
      return OverrideError(assignment, absl::StrFormat("%s is a value and has no field \"%s\"", key,
                                                       internal::Shorten(rest.substr(dot + 1))));
    }
    target.message = target.message->GetReflection()->MutableMessage(target.message, field);
    rest.remove_prefix(dot + 1);
  }
}

// Appends the sections of a text such as "{...}" or "[{...}, {...}]" to a list of sections.
Status AppendSections(const Assignment& assignment, const FieldDescriptor& field,
                      Message& message) {
  const std::unique_ptr<Message> parsed(message.New());
  if (assignment.value.find_first_not_of(' ') == std::string_view::npos) return OkStatus();
  const Status status = internal::ParseTextFormat(
      absl::StrFormat("%s: %s", field.name(), assignment.value), "", *parsed);
  if (!status.ok()) {
    // What stands there is no place of the user's text.
    const std::string_view text = status.message();
    const size_t place = text.find(": ");
    return OverrideError(
        assignment,
        absl::StrFormat("%s; sections are written '%s=[{name: \"text\" name: 2}, {...}]'",
                        text.substr(place == std::string_view::npos ? 0 : place + 2),
                        assignment.key));
  }
  ResolvePaths(std::filesystem::current_path(), *parsed);
  message.MergeFrom(*parsed);
  return OkStatus();
}

}  // namespace

std::vector<std::string> ConfigKeys(const Descriptor& type) {
  std::vector<std::string> keys;
  CollectKeys(type, "", keys);
  return keys;
}

Status MergeConfigText(std::string_view text, const std::string& name, const std::string& directory,
                       Message& config) {
  const std::unique_ptr<Message> parsed(config.New());
  DT_RETURN_IF_ERROR(internal::ParseTextFormat(text, name, *parsed));
  ResolvePaths(std::filesystem::absolute(directory.empty() ? "." : directory), *parsed);
  ClearReplacedLists(*parsed, config);
  config.MergeFrom(*parsed);
  return OkStatus();
}

Status MergeConfigFile(const std::string& path, Message& config) {
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  return MergeConfigText(text, path, std::filesystem::path(path).parent_path(), config);
}

Status ApplyOverride(std::string_view text, Message& config) {
  DT_ASSIGN_OR_RETURN(const Assignment assignment, SplitAssignment(text, *config.GetDescriptor()));
  // Works on a copy, because a failed assignment must not change the configuration.
  const std::unique_ptr<Message> changed(config.New());
  changed->CopyFrom(config);
  DT_ASSIGN_OR_RETURN(const Target target, FindTarget(assignment, *changed));
  const FieldDescriptor& field = *target.field;
  if (assignment.append && !field.is_repeated()) {
    return OverrideError(assignment, absl::StrFormat("%s is not a list; use =", assignment.key));
  }
  if (!assignment.append) target.message->GetReflection()->ClearField(target.message, &field);
  if (field.message_type() != nullptr) {
    DT_RETURN_IF_ERROR(AppendSections(assignment, field, *target.message));
    config.GetReflection()->Swap(&config, changed.get());
    return OkStatus();
  }
  const std::vector<std::string> values =
      field.is_repeated() ? internal::SplitList(assignment.value)
                          : std::vector<std::string>{internal::Unquote(assignment.value)};
  for (const std::string& value : values) {
    const Status status =
        internal::SetField(field, value, std::filesystem::current_path(), *target.message);
    if (!status.ok()) {
      return OverrideError(assignment, absl::StrFormat("%s %s", assignment.key, status.message()));
    }
  }
  config.GetReflection()->Swap(&config, changed.get());
  return OkStatus();
}

Status LoadConfig(const ConfigSources& sources, Message& config) {
  for (const std::string& file : sources.files) {
    if (file.empty()) return UsageError("--config is empty; give a file");
    DT_RETURN_IF_ERROR(MergeConfigFile(file, config));
  }
  for (const std::string& text : sources.overrides) {
    DT_RETURN_IF_ERROR(ApplyOverride(text, config));
  }
  SettleDefaults(config);
  return CheckRules(config);
}

}  // namespace dtrain
