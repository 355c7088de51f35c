// program_config.cc - reads the sources as each program's and takes the one that read them all.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/program_config.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "dtrain/app/bert_config.h"

namespace dtrain {
namespace {

// The sources as the configuration of one program, and how far they were one.
template <typename Config>
struct Attempt {
  Config config;
  absl::Status status = absl::OkStatus();
  size_t sources = 0;  // read before the first that is none

  // `defaults` are the program's own, beneath the sources.
  Attempt(const ConfigSources& given, std::string_view defaults) {
    if (!defaults.empty()) status = MergeConfigText(defaults, "defaults", ".", config);
    const auto read = [&](const std::string& source, auto merge) {
      if (status.ok()) status = merge(source, config);
      if (status.ok()) ++sources;
    };
    for (const std::string& file : given.files) read(file, MergeConfigFile);
    for (const std::string& assignment : given.overrides) read(assignment, ApplyOverride);
  }
};

template <typename Config>
absl::StatusOr<ProgramConfig> Checked(const Config& config) {
  DT_RETURN_IF_ERROR(CheckRules(config));
  return config;
}

}  // namespace

absl::StatusOr<ProgramConfig> LoadProgramConfig(const ConfigSources& sources) {
  const Attempt<proto::NmtConfig> translation(sources, "");
  if (translation.status.ok()) return Checked(translation.config);
  const Attempt<proto::BertConfig> classifier(sources, BertDefaults());
  if (classifier.status.ok()) return Checked(classifier.config);
  if (translation.sources > classifier.sources) return translation.status;
  if (translation.sources < classifier.sources) return classifier.status;
  const std::string first(MessageOf(translation.status));
  const std::string second(MessageOf(classifier.status));
  if (first == second) return translation.status;
  return UsageError(absl::StrCat("neither a configuration of nmt_train (", first,
                                 ") nor one of bert_classify (", second, ")"));
}

}  // namespace dtrain
