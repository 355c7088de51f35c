// bert_config.cc - checks relations between fields of a BertConfig.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/bert_config.h"

#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/app/config.h"
#include "dtrain/app/internal/validate_exchange.h"
#include "dtrain/app/nmt_config.h"
#include "dtrain/bert.pb.h"

namespace dtrain {
namespace {

absl::Status ValidateModel(const proto::BertModelConfig& model) {
  if (model.hidden_size() % model.num_heads() == 0) return absl::OkStatus();
  return UsageError(
      absl::StrFormat("model.hidden_size (%d) must be a multiple of model.num_heads (%d)",
                      model.hidden_size(), model.num_heads()));
}

absl::Status ValidateTrainer(const proto::BertConfig& config) {
  const proto::ClassifierTrainerConfig& trainer = config.trainer();
  DT_RETURN_IF_ERROR(internal::ValidateExchange(trainer));
  if (trainer.early_stop().patience() > 0 && trainer.eval_every().empty()) {
    return UsageError("trainer.early_stop.patience needs evaluations: set trainer.eval_every");
  }
  if (trainer.max_steps() == 0 && trainer.max_time().empty() && trainer.max_epochs() == 0 &&
      trainer.early_stop().patience() == 0) {
    return UsageError(
        "this run would never end: set trainer.max_epochs, max_steps, max_time or "
        "early_stop.patience");
  }
  const bool several = trainer.seeds_size() > 1;
  if (several && config.run().run_dir().empty()) {
    return UsageError(
        "trainer.seeds lists several seeds: give --run_dir, each becomes a folder of it");
  }
  if (several && config.run().resume() != "auto") {
    return UsageError("several trainer.seeds need run.resume=auto");
  }
  const std::set<uint64_t> seeds(trainer.seeds().begin(), trainer.seeds().end());
  if (static_cast<int>(seeds.size()) != trainer.seeds_size()) {
    return UsageError("trainer.seeds lists a seed twice");
  }
  for (const float weight : trainer.label_weights()) {
    if (weight >= 0.0f) continue;
    return UsageError(
        absl::StrFormat("trainer.label_weights lists %g; weights are at least 0", weight));
  }
  return absl::OkStatus();
}

absl::Status ValidateLabels(const proto::ClassificationDataConfig& data) {
  const bool several = data.labels() == proto::ClassificationDataConfig::multi;
  if (!several && data.label_size() > 1) {
    return UsageError(absl::StrFormat("data.label lists %d columns, which needs data.labels=multi",
                                      data.label_size()));
  }
  if (data.weights() != proto::ClassificationDataConfig::none && !data.jigsaw()) {
    return UsageError("data.weights is computed from Jigsaw's columns: set data.jigsaw=true");
  }
  return absl::OkStatus();
}

absl::Status ValidateSource(const proto::ClassificationDataConfig& data) {
  if (!data.glue().empty() &&
      (data.jigsaw() || data.train_size() > 0 || data.dev_size() > 0 || data.test_size() > 0)) {
    return UsageError(
        "set data.glue and data.glue_dir, or data.train, data.dev and data.test, not both");
  }
  // The columns are the task's.
  const std::pair<const char*, bool> columns[] = {
      {"data.text", data.has_text()},        {"data.text_pair", data.has_text_pair()},
      {"data.label", data.label_size() > 0}, {"data.id", data.has_id()},
      {"data.weight", data.has_weight()},    {"data.groups", data.groups_size() > 0}};
  for (const auto& [key, is_set] : columns) {
    if (!is_set || (data.glue().empty() && !data.jigsaw())) continue;
    return UsageError(absl::StrFormat("%s is set, but the columns are those of %s; leave it out",
                                      key, data.jigsaw() ? "data.jigsaw" : "data.glue"));
  }
  if (!data.glue().empty() && data.glue_dir().empty()) {
    return UsageError("data.glue needs data.glue_dir, the folder with the task's train.tsv");
  }
  return ValidateLabels(data);
}

absl::Status ValidateLengths(const proto::BertConfig& config) {
  const int32_t longest = config.data().max_length();
  if (longest > config.model().max_positions()) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds model.max_positions (%d)",
                                      longest, config.model().max_positions()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view BertDefaults() {
  return R"(optimizer {
  type: adamw
  beta2: 0.999
  epsilon: 1e-8
  weight_decay: 0.01
  learning_rate: 5e-5
  schedule: linear
  warmup_steps: 0
})";
}

absl::Status ValidateWithoutData(const proto::BertConfig& config) {
  DT_RETURN_IF_ERROR(CheckRules(config));
  DT_RETURN_IF_ERROR(ValidateModel(config.model()));
  const proto::ClassifierTrainerConfig& trainer = config.trainer();
  DT_RETURN_IF_ERROR(ValidateTrainer(config));
  DT_RETURN_IF_ERROR(ValidateSharding(trainer.shard_optimizer(), config.optimizer()));
  DT_RETURN_IF_ERROR(ValidateSchedule(
      config.optimizer(), UpdatesOf(trainer.max_steps(), trainer.max_epochs(), kUnknownUpdates),
      !trainer.max_time().empty()));
  return ValidateLengths(config);
}

absl::Status ValidateBertConfig(const proto::BertConfig& config) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  if (config.data().vocabulary().empty() && config.model().pretrained().empty()) {
    return UsageError("data.vocabulary is not set: the WordPiece vocabulary, a file vocab.txt");
  }
  DT_RETURN_IF_ERROR(ValidateSource(config.data()));
  if (config.data().glue().empty() && config.data().train_size() == 0) {
    return UsageError("no training data: set data.train, or data.glue and data.glue_dir");
  }
  return absl::OkStatus();
}

absl::Status ValidateBertUse(const proto::BertConfig& config) {
  DT_RETURN_IF_ERROR(CheckRules(config));
  if (config.predict().checkpoint().empty() && config.run().run_dir().empty()) {
    return UsageError("which model? give --run_dir, or predict.checkpoint");
  }
  return ValidateLabels(config.data());
}

}  // namespace dtrain
