// validate_bert.h - checks of the sections that all programs share that train on texts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_VALIDATE_BERT_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_VALIDATE_BERT_H_

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/period.h"
#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/launch/internal/optimizer_config.h"
#include "dtrain/launch/internal/validate_exchange.h"
#include "dtrain/optimizer.pb.h"
#include "dtrain/run.pb.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/low_rank.h"

namespace dtrain::internal {

template <typename ModelConfig>
Status ValidateBertModel(const ModelConfig& model) {
  if (model.hidden_size() % model.num_heads() != 0) {
    return UsageError(
        absl::StrFormat("model.hidden_size (%d) must be a multiple of model.num_heads (%d)",
                        model.hidden_size(), model.num_heads()));
  }
  if constexpr (requires { model.family(); }) {
    const bool is_rotary = FamilyOf(model).form.has_rotary_positions;
    if (is_rotary && model.hidden_size() / model.num_heads() % 2 != 0) {
      return UsageError(absl::StrFormat(
          "model.hidden_size (%d) must be an even multiple of model.num_heads (%d): rotary "
          "positions turn pairs",
          model.hidden_size(), model.num_heads()));
    }
  }
  return OkStatus();
}

template <typename Config>
Status ValidateBertTrainer(const Config& config) {
  const proto::BertTrainerConfig& trainer = config.trainer();
  DT_RETURN_IF_ERROR(ValidateExchange(trainer));
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
        "trainer.seeds lists several seeds: give --run_dir, in which each seed gets a folder");
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
        absl::StrFormat("trainer.label_weights lists %g; weights must be at least 0", weight));
  }
  const auto& weights = trainer.label_weights();
  if (!weights.empty() && trainer.balance_labels()) {
    return UsageError(
        "trainer.label_weights and trainer.balance_labels both weigh the classes; give one of "
        "them");
  }
  if (!weights.empty() &&
      std::all_of(weights.begin(), weights.end(), [](float w) { return w == 0; })) {
    return UsageError(
        "trainer.label_weights are all 0, so nothing would be learned; set one above 0");
  }
  return OkStatus();
}

// Refuses settings that need evaluations if there are none; `remedy` names the fields that enable
// them.
inline Status ValidateMetrics(const proto::BertTrainerConfig& trainer, bool evaluates,
                              const char* remedy) {
  const std::pair<const char*, bool> wishes[] = {
      {"early_stop.patience", trainer.early_stop().patience() > 0},
      {"early_stop.metric", !trainer.early_stop().metric().empty()},
      {"best_metric", !trainer.best_metric().empty()}};
  for (const auto& [name, is_set] : wishes) {
    if (!is_set || evaluates) continue;
    return UsageError(absl::StrFormat("trainer.%s needs evaluations: set %s", name, remedy));
  }
  return OkStatus();
}

template <typename Config>
Status ValidateTextLength(const Config& config) {
  const int32_t longest = config.data().max_length();
  // The limit of pretrained weights is known only when their shape is.
  if constexpr (requires { config.model().pretrained(); }) {
    if (!config.model().pretrained().empty()) return OkStatus();
  }
  if (longest > config.model().max_positions()) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds model.max_positions (%d)",
                                      longest, config.model().max_positions()));
  }
  return OkStatus();
}

template <typename Config>
Status ValidateVocabulary(const Config& config) {
  if (!config.data().vocabulary().empty() || !config.model().pretrained().empty()) {
    return OkStatus();
  }
  return UsageError(
      "data.vocabulary is not set: a tokenizer.json or vocab.txt (`dtrain tokenizer learn` makes "
      "one); or set model.pretrained to a model that brings its own");
}

// Refuses fields of shared sections that only bert_classify reads.
template <typename Config>
Status RefuseClassifierKeys(const Config& config) {
  const std::pair<const char*, bool> keys[] = {
      {"trainer.label_weights weighs classes", config.trainer().label_weights_size() > 0},
      {"trainer.balance_labels weighs classes", config.trainer().balance_labels()},
      {"predict.text is for predictions", config.predict().text()}};
  for (const auto& [key, is_set] : keys) {
    if (is_set) return UsageError(absl::StrFormat("%s of bert_classify; leave it out", key));
  }
  return OkStatus();
}

// Refuses fields of shared sections that only classifiers use. `without` says who has no classes;
// `pooler` says what the dropout before the classifier belongs to.
template <typename Config>
Status RefuseClassifierFields(const Config& config, const char* without, const char* pooler) {
  if (config.trainer().label_weights_size() > 0) {
    return UsageError(
        absl::StrFormat("trainer.label_weights weighs classes; %s none, leave it out", without));
  }
  DT_RETURN_IF_ERROR(RefuseClassifierKeys(config));
  // A run's config.textproto contains the default value, of all families or its own.
  const float given = config.model().classifier_dropout();
  const float untouched = proto::BertModelConfig::default_instance().classifier_dropout();
  if (given == untouched || given == FamilyOf(config.model()).defaults.dropout) return OkStatus();
  return UsageError(
      absl::StrFormat("model.classifier_dropout belongs to %s; leave it out", pooler));
}

// Refuses settings of layers with windows and of rotary positions, unless they are those of every
// configuration, for families whose layers have neither.
inline Status RefuseWindows(const proto::BertModelConfig& model, const EncoderFamily& family) {
  if (family.form.has_rotary_positions) return OkStatus();
  const proto::BertModelConfig& untouched = proto::BertModelConfig::default_instance();
  const std::pair<const char*, bool> keys[] = {
      {"local_attention", model.local_attention() != untouched.local_attention()},
      {"whole_every", model.whole_every() != untouched.whole_every()},
      {"local_theta", model.local_theta() != untouched.local_theta()},
      {"whole_theta", model.whole_theta() != untouched.whole_theta()}};
  for (const auto& [key, is_set] : keys) {
    if (!is_set) continue;
    return UsageError(absl::StrFormat(
        "model.%s is for ModernBERT; a %s has neither windows nor rotary positions: leave it out",
        key, ToAbsl(family.title)));
  }
  return OkStatus();
}

// Refuses a warm-up by trainer.warmup_ratio that leaves too few of the schedule's updates for its
// decay. `updates` is the length of the run.
inline Status ValidateWarmupRatio(const proto::OptimizerConfig& optimizer, float warmup_ratio,
                                  int64_t updates) {
  const bool decays = optimizer.schedule() == proto::OptimizerConfig::warmup_stable_decay;
  if (!decays || optimizer.warmup_steps() > 0) return OkStatus();
  const int64_t total = optimizer.total_steps() > 0 ? optimizer.total_steps() : updates;
  const int64_t warmup = WarmupStepsOf(warmup_ratio, total);
  if (warmup <= total - optimizer.decay_steps()) return OkStatus();
  return UsageError(absl::StrFormat(
      "trainer.warmup_ratio (%g, which is %d updates) and optimizer.decay_steps (%d) are more than "
      "the %d updates of the schedule: set fewer, or train longer",
      ShortestDecimal(warmup_ratio), warmup, optimizer.decay_steps(), total));
}

// Checks for training without the data files: CheckRules(), and relations between fields, such as
// sizes that must divide each other and schedules that need an end. Returns UsageError that names
// the fields.
template <typename Config>
Status ValidateBertSections(const Config& config) {
  DT_RETURN_IF_ERROR(CheckRules(config));
  DT_RETURN_IF_ERROR(ValidateBertModel(config.model()));
  if constexpr (requires { config.model().lora(); }) {
    DT_RETURN_IF_ERROR(ValidateLora(config.model().lora(), !config.model().pretrained().empty(),
                                    "model.pretrained"));
  }
  const proto::BertTrainerConfig& trainer = config.trainer();
  DT_RETURN_IF_ERROR(ValidateBertTrainer(config));
  DT_RETURN_IF_ERROR(ValidateOptimizer(config.optimizer()));
  const int64_t updates = UpdatesOf(trainer.max_steps(), trainer.max_epochs(), kUnknownUpdates);
  DT_RETURN_IF_ERROR(ValidateSchedule(config.optimizer(), updates, !trainer.max_time().empty()));
  DT_RETURN_IF_ERROR(ValidateWarmupRatio(config.optimizer(), trainer.warmup_ratio(), updates));
  return ValidateTextLength(config);
}

// Checks the settings for evaluating or predicting with a trained model.
template <typename Config>
Status ValidateUse(const Config& config) {
  DT_RETURN_IF_ERROR(CheckRules(config));
  if (config.predict().checkpoint().empty() && config.run().run_dir().empty()) {
    return UsageError("no model is given: set --run_dir, or predict.checkpoint");
  }
  if (config.run().resume() != proto::RunConfig().resume()) {
    return UsageError(
        "run.resume is only for training; use predict.checkpoint to name a checkpoint");
  }
  return OkStatus();
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_VALIDATE_BERT_H_
