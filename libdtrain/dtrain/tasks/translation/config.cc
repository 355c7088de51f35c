// config.cc - checks relations between the fields of an NmtConfig.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/config.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/period.h"
#include "dtrain/config/config.h"
#include "dtrain/launch/internal/optimizer_config.h"
#include "dtrain/launch/internal/validate_exchange.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/internal/low_rank.h"

namespace dtrain {
namespace {

Status ValidateModel(const proto::ModelConfig& model) {
  if (model.hidden_size() % model.num_heads() != 0) {
    return UsageError(
        absl::StrFormat("model.hidden_size (%d) must be a multiple of model.num_heads (%d)",
                        model.hidden_size(), model.num_heads()));
  }
  if (model.hidden_size() % 2 != 0) {
    return UsageError(absl::StrFormat(
        "model.hidden_size (%d) must be even: positions are encoded half as sines, half as cosines",
        model.hidden_size()));
  }
  return OkStatus();
}

Status ValidateTrainer(const proto::TrainerConfig& trainer) {
  DT_RETURN_IF_ERROR(internal::ValidateExchange(trainer));
  const bool evaluates = !trainer.eval_every().empty();
  if (trainer.early_stop().patience() > 0 && !evaluates) {
    return UsageError("trainer.early_stop.patience needs evaluations: set trainer.eval_every");
  }
  if (trainer.max_steps() == 0 && trainer.max_time().empty() && trainer.max_epochs() == 0 &&
      trainer.early_stop().patience() == 0) {
    return UsageError(
        "this run would never end: set trainer.max_steps, max_time, max_epochs or "
        "early_stop.patience");
  }
  return OkStatus();
}

// Checks that a dev or test set is given in at most one way.
Status ValidateSet(std::string_view set, const std::string& source, const std::string& target,
                   std::initializer_list<const std::string*> others) {
  int ways = source.empty() && target.empty() ? 0 : 1;
  for (const std::string* const other : others) ways += other->empty() ? 0 : 1;
  if (ways > 1) {
    return UsageError(absl::StrFormat(
        "set data.%s_source and data.%s_target, or one of data.%s_tsv, %s_tmx, %s_jsonl and "
        "%s_prefix, not both",
        set, set, set, set, set, set));
  }
  if (source.empty() == target.empty()) return OkStatus();
  return UsageError(absl::StrFormat("data.%s_source and data.%s_target go together: set data.%s_%s",
                                    set, set, set, source.empty() ? "source" : "target"));
}

// Refuses settings that data.prepared already includes.
Status ValidatePreparedAlone(const proto::DataConfig& data) {
  const std::pair<const char*, bool> given[] = {
      {"dev_source", !data.dev_source().empty()}, {"dev_tsv", !data.dev_tsv().empty()},
      {"dev_tmx", !data.dev_tmx().empty()},       {"dev_jsonl", !data.dev_jsonl().empty()},
      {"dev_prefix", !data.dev_prefix().empty()}, {"test_source", !data.test_source().empty()},
      {"test_tsv", !data.test_tsv().empty()},     {"test_tmx", !data.test_tmx().empty()},
      {"test_jsonl", !data.test_jsonl().empty()}, {"test_prefix", !data.test_prefix().empty()},
      {"vocabulary", !data.vocabulary().empty()}};
  for (const auto& [name, is_given] : given) {
    if (!is_given) continue;
    return UsageError(absl::StrFormat(
        "data.%s is ignored if data.prepared has the training text: give it to `dtrain "
        "prepare`, which makes that folder, or give the training text here too",
        name));
  }
  return OkStatus();
}

// Whether training text is given, apart from data.sources.
bool HasTrainingLists(const proto::DataConfig& data) {
  return data.train_source_size() + data.train_target_size() + data.train_tsv_size() +
             data.train_tmx_size() + data.train_jsonl_size() + data.train_prefix_size() >
         0;
}

Status ValidateSources(const proto::DataConfig& data) {
  if (data.sources_size() > 0 && HasTrainingLists(data)) {
    return UsageError(
        "data.sources is all of the training text: name the files of data.train_source and of the "
        "other lists in a source, or leave data.sources out");
  }
  for (int i = 0; i < data.sources_size(); ++i) {
    const proto::DataSource& source = data.sources(i);
    const std::string name = absl::StrFormat("data.sources, item %d: ", i + 1);
    if (source.source_size() != source.target_size()) {
      return UsageError(absl::StrFormat("%ssource lists %d files and target %d; they must pair up",
                                        name, source.source_size(), source.target_size()));
    }
    if (source.source_size() + source.tsv_size() + source.tmx_size() + source.jsonl_size() +
            source.prefix_size() ==
        0) {
      return UsageError(name +
                        "names no text: set source and target, or tsv, tmx, jsonl or prefix");
    }
    if (source.tag().find_first_of(" \t\n\v\f\r") != std::string::npos) {
      return UsageError(name + "tag has white space; it must be one word");
    }
  }
  return OkStatus();
}

}  // namespace

bool HasTrainingText(const proto::DataConfig& data) {
  return HasTrainingLists(data) || data.sources_size() > 0;
}

Status ValidateDataConfig(const proto::DataConfig& data) {
  DT_RETURN_IF_ERROR(ValidateSources(data));
  if (data.train_source_size() != data.train_target_size()) {
    return UsageError(absl::StrFormat(
        "data.train_source lists %d files and data.train_target %d; they must pair up",
        data.train_source_size(), data.train_target_size()));
  }
  if (data.train_source_size() > 0 && data.train_tsv_size() > 0) {
    return UsageError("set data.train_source and data.train_target, or data.train_tsv, not both");
  }
  if (!HasTrainingText(data) && data.prepared().empty()) {
    return UsageError(
        "no training data is given: set data.prepared to a directory written by `dtrain prepare`, "
        "or data.train_source and data.train_target, or data.train_tsv, train_tmx, train_jsonl or "
        "train_prefix, or several texts with weights by data.sources");
  }
  DT_RETURN_IF_ERROR(
      ValidateSet("dev", data.dev_source(), data.dev_target(),
                  {&data.dev_tsv(), &data.dev_tmx(), &data.dev_jsonl(), &data.dev_prefix()}));
  DT_RETURN_IF_ERROR(
      ValidateSet("test", data.test_source(), data.test_target(),
                  {&data.test_tsv(), &data.test_tmx(), &data.test_jsonl(), &data.test_prefix()}));
  return HasTrainingText(data) ? OkStatus() : ValidatePreparedAlone(data);
}

namespace {

// A sentence with its end symbol must fit the position table and a micro-batch.
Status ValidateLengths(const proto::NmtConfig& config) {
  const int64_t longest = int64_t{config.data().max_length()} + 1;
  if (longest > config.model().max_positions()) {
    return UsageError(
        absl::StrFormat("data.max_length (%d) and an end mark exceed model.max_positions (%d)",
                        config.data().max_length(), config.model().max_positions()));
  }
  if (longest > config.trainer().micro_batch_tokens()) {
    return UsageError(absl::StrFormat(
        "data.max_length (%d) and an end mark exceed trainer.micro_batch_tokens (%d)",
        config.data().max_length(), config.trainer().micro_batch_tokens()));
  }
  return OkStatus();
}

}  // namespace

Status ValidateWithoutData(const proto::NmtConfig& config) {
  DT_RETURN_IF_ERROR(CheckRules(config));
  DT_RETURN_IF_ERROR(ValidateModel(config.model()));
  DT_RETURN_IF_ERROR(internal::ValidateLora(
      config.model().lora(), !config.model().pretrained().empty() || !config.model().init().empty(),
      "model.pretrained or model.init"));
  const proto::TrainerConfig& trainer = config.trainer();
  DT_RETURN_IF_ERROR(internal::ValidateSchedule(
      config.optimizer(),
      UpdatesOf(trainer.max_steps(), trainer.max_epochs(), internal::kUnknownUpdates),
      !trainer.max_time().empty()));
  DT_RETURN_IF_ERROR(ValidateTrainer(trainer));
  DT_RETURN_IF_ERROR(internal::ValidateOptimizer(config.optimizer()));
  return ValidateLengths(config);
}

Status ValidateNmtConfig(const proto::NmtConfig& config) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  return ValidateDataConfig(config.data());
}

}  // namespace dtrain
