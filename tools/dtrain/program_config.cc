// program_config.cc - reads the sources as each program's and takes the one that read them all.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/program_config.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/config/nearest_name.h"
#include "dtrain/tasks/registry.h"

namespace dtrain {
namespace {

using google::protobuf::Message;

// The sources as the configuration of one program, and how far they were one.
struct Attempt {
  std::string program;
  std::unique_ptr<Message> config;
  Status status = OkStatus();
  size_t sources = 0;  // read before the first that is none
};

Attempt Try(const TaskProgram& program, const ConfigSources& sources) {
  Attempt attempt{.program = std::string(program.name), .config = program.new_config()};
  Status& status = attempt.status;
  if (!program.defaults.empty()) {
    status = MergeConfigText(program.defaults, "defaults", ".", *attempt.config);
  }
  const auto read = [&](const std::string& source, auto merge) {
    if (status.ok()) status = merge(source, *attempt.config);
    if (status.ok()) ++attempt.sources;
  };
  for (const std::string& file : sources.files) read(file, MergeConfigFile);
  for (const std::string& assignment : sources.overrides) read(assignment, ApplyOverride);
  return attempt;
}

// "a, b or c", where `word` is "or".
std::string Listed(const std::vector<std::string>& names, std::string_view word) {
  if (names.size() < 2) return absl::StrJoin(names, "");
  return absl::StrCat(absl::StrJoin(names.begin(), names.end() - 1, ", "), " ", ToAbsl(word), " ",
                      names.back());
}

// A key that one program has and none of the others.
std::string OwnKey(size_t program, std::vector<Attempt>& attempts) {
  const auto keys_of = [&](size_t i) { return ConfigKeys(*attempts[i].config->GetDescriptor()); };
  for (const std::string& key : keys_of(program)) {
    const auto has_key = [&](size_t i) {
      const std::vector<std::string> keys = keys_of(i);
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    bool is_own = true;
    for (size_t i = 0; i < attempts.size(); ++i) is_own = is_own && (i == program || !has_key(i));
    if (is_own) return key;
  }
  return "";
}

// Of sources that several programs know.
Status Ambiguous(std::vector<Attempt>& attempts) {
  std::vector<std::string> names;
  std::vector<std::string> keys;
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (!attempts[i].status.ok()) continue;
    names.push_back(attempts[i].program);
    const std::string key = OwnKey(i, attempts);
    if (!key.empty()) keys.push_back(absl::StrCat(key, " of ", attempts[i].program));
  }
  return UsageError(absl::StrFormat(
      "all keys of this configuration are known to %s: say whose it is with --program=%s, or set a "
      "key that no other program has, such as %s",
      Listed(names, "and"), names.front(), Listed(keys, "or")));
}

// Of sources that no program knows: what those say of them that read the most.
Status Unknown(const std::vector<Attempt>& attempts) {
  size_t most = 0;
  for (const Attempt& attempt : attempts) most = std::max(most, attempt.sources);
  std::vector<std::pair<std::string, std::vector<std::string>>> said;  // and who says it
  for (const Attempt& attempt : attempts) {
    if (attempt.sources < most) continue;
    const std::string message(attempt.status.message());
    const auto same = std::find_if(said.begin(), said.end(),
                                   [&](const auto& entry) { return entry.first == message; });
    if (same != said.end()) {
      same->second.push_back(attempt.program);
    } else {
      said.push_back({message, {attempt.program}});
    }
  }
  const bool by_all = said.size() == 1 && said.front().second.size() == attempts.size();
  if (by_all) return UsageError(said.front().first);
  std::vector<std::string> parts;
  for (const auto& [message, programs] : said) {
    parts.push_back(absl::StrCat("as one of ", Listed(programs, "or"), ": ", message));
  }
  return UsageError(
      absl::StrCat("this is no program's configuration; ", absl::StrJoin(parts, "; ")));
}

StatusOr<std::unique_ptr<Message>> Checked(Attempt& attempt) {
  DT_RETURN_IF_ERROR(attempt.status);
  SettleDefaults(*attempt.config);
  DT_RETURN_IF_ERROR(CheckRules(*attempt.config));
  return std::move(attempt.config);
}

}  // namespace

std::string ProgramNames(std::string_view word) {
  std::vector<std::string> names;
  for (const TaskProgram* const program : TaskPrograms()) names.emplace_back(program->name);
  return Listed(names, word);
}

std::string ConfigHelp() {
  return absl::StrCat("textproto file of ", ProgramNames("or"), "; may be given several times");
}

StatusOr<std::unique_ptr<Message>> LoadProgramConfig(const ConfigSources& sources,
                                                     std::string_view program) {
  std::vector<Attempt> attempts;
  for (const TaskProgram* const known : TaskPrograms()) attempts.push_back(Try(*known, sources));
  std::vector<std::string> names;
  for (Attempt& attempt : attempts) {
    if (attempt.program == program) return Checked(attempt);
    names.push_back(attempt.program);
  }
  if (!program.empty()) {
    return UsageError(absl::StrFormat("--program is \"%s\", which is none of %s%s", program,
                                      absl::StrJoin(names, ", "), DidYouMean(program, names)));
  }
  const auto fits = [](const Attempt& attempt) { return attempt.status.ok(); };
  const auto first = std::find_if(attempts.begin(), attempts.end(), fits);
  if (first == attempts.end()) return Unknown(attempts);
  if (std::any_of(std::next(first), attempts.end(), fits)) return Ambiguous(attempts);
  return Checked(*first);
}

}  // namespace dtrain
