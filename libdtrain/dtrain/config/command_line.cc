// command_line.cc - all flags in one table.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/command_line.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "dtrain/config/internal/config_fields.h"
#include "dtrain/config/nearest_name.h"
#include "dtrain/config/synonyms.h"

namespace dtrain {
namespace {

struct Flag {
  std::string_view name;
  std::string_view value;  // the value's form; "" if it takes none, in [] if it is optional
  std::string_view key;    // the key it is a short form of, or ""
  std::string_view help;
};

constexpr std::array<Flag, 13> kFlags = {{
    {"config", "FILE,...", "", "textproto files, later ones win"},
    {"run_dir", "DIR", "run.run_dir", "where the run is kept"},
    {"init", "RUN", "model.init", "begin with the weights of another run, or of pretrained files"},
    {"resume", "auto|never|PATH", "run.resume", "continue from a checkpoint (default auto)"},
    {"max_steps", "N", "trainer.max_steps", "stop after N updates"},
    {"max_time", "TIME", "trainer.max_time", "stop after 90s, 12m, 2h"},
    {"threads", "N", "run.threads", "compute threads per rank"},
    {"device", "auto|cpu|cuda", "run.device", "what computes"},
    {"progress", "auto|bar|plain|none", "run.progress", "what the terminal shows"},
    {"print_config", "[full|minimal|json]", "", "print the effective configuration and exit"},
    {"help", "", "", "print this and exit"},
    {"help_config", "[KEY]", "", "explain all keys, a section or one key, and exit"},
    {"version", "", "", "print the version and exit"},
}};

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

bool IsKey(std::string_view key, const std::vector<std::string>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

constexpr std::string_view kPretrained = "model.pretrained";

// Returns false for a flag whose key the program does not have.
bool IsFlagOf(const Flag& flag, const std::vector<std::string>& keys) {
  return flag.name != "init" || IsKey(flag.key, keys) || IsKey(kPretrained, keys);
}

// Returns the keys that `name` may mean: its whole path, its last part, or another program's name.
std::vector<std::string> KeysMeantBy(std::string_view name, const std::vector<std::string>& keys) {
  if (IsKey(name, keys)) return {std::string(name)};
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '-', '_');
  std::vector<std::string> meant;
  for (const std::string& key : keys) {
    if (key.substr(key.rfind('.') + 1) == plain) meant.push_back(key);
  }
  if (meant.empty()) meant = KeysCalled(name, keys);
  constexpr size_t kShown = 4;
  if (meant.size() > kShown) meant.resize(kShown);
  return meant;
}

// Shows the flag with as many dashes as were typed.
Status UnknownFlag(std::string_view dashes, std::string_view name, std::string_view value,
                   const std::vector<std::string>& keys) {
  const std::string flag = absl::StrFormat("%s%s: unknown flag", dashes, internal::Shorten(name));
  // Users of other programs write configuration keys as flags.
  const std::vector<std::string> meant = KeysMeantBy(name, keys);
  if (!meant.empty()) {
    std::string text;
    for (const std::string& key : meant) {
      if (!text.empty()) text += " or ";
      text += key;
      if (key.find('=') == std::string::npos) {
        absl::StrAppendFormat(&text, "=%s", value.empty() ? "VALUE" : internal::Shorten(value));
      }
    }
    return UsageError(flag + "; it is a key of the configuration, which has no dashes: " + text);
  }
  std::vector<std::string> names;
  for (const Flag& known : kFlags) {
    if (IsFlagOf(known, keys)) names.emplace_back(known.name);
  }
  std::string suggestion = DidYouMean(name, names, "--");
  if (suggestion.empty()) suggestion = DidYouMeanKey(name, keys);
  return UsageError(flag + suggestion + " (see --help)");
}

Status SetFormat(const std::string& value, CommandLine& line) {
  if (value.empty() || value == "full") {
    line.format = ConfigFormat::kFull;
  } else if (value == "minimal") {
    line.format = ConfigFormat::kMinimal;
  } else if (value == "json") {
    line.format = ConfigFormat::kJson;
  } else {
    return UsageError(absl::StrFormat("--print_config is one of full, minimal, json, not \"%s\"",
                                      internal::Shorten(value)));
  }
  return OkStatus();
}

Status ApplyFlag(const Flag& flag, const std::string& value, const std::vector<std::string>& keys,
                 CommandLine& line) {
  if (!flag.key.empty()) {
    // A BERT can also begin with pretrained files, so that its key has another name.
    const bool is_pretrained = flag.name == "init" && !IsKey(flag.key, keys);
    line.sources.overrides.push_back(
        absl::StrFormat("%s=%s", is_pretrained ? kPretrained : flag.key, value));
  } else if (flag.name == "config") {
    if (value.empty()) return UsageError("--config needs a file, but its name is empty");
    for (const std::string& file : internal::SplitList(value)) line.sources.files.push_back(file);
  } else if (flag.name == "print_config") {
    line.action = Action::kPrintConfig;
    return SetFormat(value, line);
  } else if (flag.name == "help_config") {
    line.action = Action::kHelpConfig;
    line.section = value;
  } else {
    line.action = flag.name == "version" ? Action::kVersion : Action::kHelp;
  }
  return OkStatus();
}

// True for an argument that is neither a flag nor key=value.
bool IsWord(const std::string& argument) {
  return !argument.empty() && argument[0] != '-' && argument.find('=') == std::string::npos;
}

}  // namespace

StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& keys) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-h") {
      line.action = Action::kHelp;
      continue;
    }
    if (argument.empty() || argument[0] != '-') {
      line.sources.overrides.push_back(argument);
      continue;
    }
    const std::string dashes = argument.starts_with("--") ? "--" : "-";
    const std::string text = argument.substr(dashes.size());
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    const Flag* const flag = FindFlag(name);
    if (flag == nullptr || !IsFlagOf(*flag, keys)) return UnknownFlag(dashes, name, value, keys);
    if (flag->value.empty() && equals != std::string::npos) {
      return UsageError(absl::StrFormat("--%s takes no value", name));
    }
    const bool needs_value = !flag->value.empty() && flag->value[0] != '[';
    if (needs_value && equals == std::string::npos) {
      if (i + 1 == arguments.size()) {
        return UsageError(absl::StrFormat("--%s needs a value: --%s=%s", name, name, flag->value));
      }
      value = arguments[++i];
    }
    // "--help_config trainer": a separate word has no other meaning.
    const bool may_have_value = !flag->value.empty() && !needs_value && equals == std::string::npos;
    if (may_have_value && i + 1 < arguments.size() && IsWord(arguments[i + 1])) {
      value = arguments[++i];
    }
    DT_RETURN_IF_ERROR(ApplyFlag(*flag, value, keys, line));
  }
  return line;
}

std::string HelpText(std::string_view program, std::string_view summary,
                     const std::vector<std::string>& keys, const std::vector<CommandHelp>& commands,
                     std::string_view example) {
  std::string text = absl::StrFormat(
      "%s - %s\n\nUsage: [mpirun -n RANKS] %s%s [--config=FILE,...] [FLAGS] [key.path=value "
      "...]\n\n",
      program, summary, program, commands.empty() ? "" : " COMMAND");
  if (!example.empty()) absl::StrAppendFormat(&text, "Example: %s\n\n", example);
  for (const CommandHelp& command : commands) {
    text += absl::StrFormat("  %-36s %s\n", command.name, command.summary);
  }
  if (!commands.empty()) text += "\n";
  for (const Flag& flag : kFlags) {
    if (!IsFlagOf(flag, keys)) continue;
    std::string form = absl::StrFormat("--%s", flag.name);
    if (!flag.value.empty()) {
      form += flag.value[0] == '[' ? absl::StrFormat("[=%s", flag.value.substr(1))
                                   : absl::StrFormat("=%s", flag.value);
    }
    text += absl::StrFormat("  %-36s %s\n", form, flag.help);
  }
  text += "\nEvery key is explained by --help_config; key+=value appends to a list.\n";
  return text;
}

}  // namespace dtrain
