// flag_set.cc - parses flags by the types of their variables.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/flag_set.h"

#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "dtrain/config/internal/config_fields.h"
#include "dtrain/config/nearest_name.h"
#include "dtrain/config/synonyms.h"

namespace dtrain {
namespace {

// Stores the text in the variable. Returns false if it does not have the variable's type.
bool ParseValue(const std::string& text, bool* value) {
  *value = text == "true" || text == "1";
  return *value || text == "false" || text == "0";
}
template <typename Number>
bool ParseFlagNumber(const std::string& text, Number* value) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || next != end) return false;
  *value = number;
  return true;
}
bool ParseValue(const std::string& text, int64_t* value) { return ParseFlagNumber(text, value); }
bool ParseValue(const std::string& text, double* value) {
  return ParseFlagNumber(text, value) && std::isfinite(*value);
}
template <typename Number>
bool ParseValue(const std::string& text, std::optional<Number>* value) {
  return ParseValue(text, &value->emplace());
}
bool ParseValue(const std::string& text, std::string* value) {
  *value = text;
  return true;
}
bool ParseValue(const std::string& text, std::vector<std::string>* value) {
  value->push_back(text);
  return true;
}

std::string_view TypeName(const FlagSet::Target& target) {
  constexpr std::string_view kNames[] = {
      "true or false", "a whole number", "a number", "a whole number", "a number", "text", "text"};
  static_assert(std::size(kNames) == std::variant_size_v<FlagSet::Target>);
  return kNames[target.index()];
}

std::string TextOf(bool value) { return value ? "true" : "false"; }
std::string TextOf(int64_t value) { return std::to_string(value); }
std::string TextOf(double value) { return absl::StrFormat("%g", value); }
template <typename Number>
std::string TextOf(const std::optional<Number>& value) {
  return value ? TextOf(*value) : "";
}
std::string TextOf(const std::string& value) { return value; }
std::string TextOf(const std::vector<std::string>&) { return ""; }

}  // namespace

void FlagSet::Add(std::string_view name, std::string_view help, Target target) {
  const std::string text = std::visit([](const auto* value) { return TextOf(*value); }, target);
  flags_.push_back(
      {std::string(name), std::string(help), target, text, std::holds_alternative<bool*>(target)});
}

void FlagSet::AddSwitch(std::string_view name, std::string_view help,
                        std::vector<std::string>* target) {
  Add(name, help, target);
  flags_.back().is_switch = true;
}

const FlagSet::Flag* FlagSet::Find(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

bool FlagSet::is_given(std::string_view name) const { return given_.contains(name); }

Status FlagSet::Unknown(const std::string& argument) const {
  const std::string typed = argument.substr(0, argument.find('='));
  const std::string name = typed.substr(typed.starts_with("--") ? 2 : 1);
  std::vector<std::string> names = {"help"};
  for (const Flag& flag : flags_) names.push_back(flag.name);
  std::vector<std::string> meant = KeysCalled(name, names);
  if (meant.empty()) meant = NearestNames(name, names);
  if (meant.empty() && name == "run_dir") {
    return UsageError(internal::Shorten(typed) +
                      ": unknown flag; give the run directory alone, without a flag (see --help)");
  }
  return UsageError(absl::StrFormat("%s: unknown flag%s (see --help)", internal::Shorten(typed),
                                    DidYouMeanOneOf(meant, "--")));
}

StatusOr<std::vector<std::string>> FlagSet::Parse(int argc, char** argv) {
  std::vector<std::string> positional;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") {
      positional.insert(positional.end(), argv + i + 1, argv + argc);
      break;
    }
    // "-" alone is a file: standard input or output.
    if (argument.size() < 2 || argument[0] != '-') {
      positional.push_back(argument);
      continue;
    }
    if (argument == "--help" || argument == "-h") {
      help_wanted_ = true;
      continue;
    }
    const std::string text = argument.substr(argument[1] == '-' ? 2 : 1);
    const size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    const Flag* flag = Find(name);
    const bool negated = flag == nullptr && equals == std::string::npos && name.starts_with("no");
    if (negated) flag = Find(name.substr(2));
    if (flag == nullptr) return Unknown(argument);
    if (negated && !flag->is_switch) return Unknown(argument);
    given_.insert(flag->name);
    if (flag->is_switch && equals == std::string::npos) {
      value = negated ? "false" : "true";
    } else if (equals == std::string::npos) {
      if (i + 1 == argc) {
        return UsageError(absl::StrFormat("--%s needs a value, %s", name, TypeName(flag->target)));
      }
      value = argv[++i];
    }
    if (!std::visit([&](auto* target) { return ParseValue(value, target); }, flag->target)) {
      return UsageError(absl::StrFormat("--%s is %s, not \"%s\"", name, TypeName(flag->target),
                                        internal::Shorten(value)));
    }
  }
  return positional;
}

Status FlagSet::ParseAll(int argc, char** argv) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> positional, Parse(argc, argv));
  if (positional.empty()) return OkStatus();
  return UsageError(absl::StrFormat("unexpected argument \"%s\" (see --help)",
                                    internal::Shorten(positional.front())));
}

std::string FlagSet::Help() const {
  std::string text = absl::StrFormat("%s\n\nUsage: %s\n", summary_, usage_);
  if (!flags_.empty()) text += "\n";
  for (const Flag& flag : flags_) {
    const std::string form = flag.name.size() == 1
                                 ? absl::StrFormat("-%s %s", flag.name, flag.default_text)
                                 : absl::StrFormat("--%s=%s", flag.name, flag.default_text);
    text += absl::StrFormat("  %-28s %s\n", form, flag.help);
  }
  return text;
}

}  // namespace dtrain
