// bert_options.cc - one assignment per field; the .proto files define the defaults.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/bert_options.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/period.h"
#include "dtrain/bert.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/shared_trainer_options.h"
#include "dtrain/optimizer.pb.h"
#include "dtrain/tasks/shared/internal/low_rank.h"

namespace dtrain {

using internal::DTypeOf;

std::string_view FineTuningDefaults() {
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

const EncoderFamily& FamilyOf(const proto::BertModelConfig& model) {
  std::string name = proto::BertModelConfig::Family_Name(model.family());
  std::ranges::replace(name, '_', '-');
  const EncoderFamily* const family = FindEncoderFamily(name);
  DT_CHECK(family != nullptr) << name;
  return *family;
}

void SetFamily(const EncoderFamily& family, proto::BertModelConfig& model) {
  std::string name(family.name);
  std::ranges::replace(name, '-', '_');
  proto::BertModelConfig::Family value = proto::BertModelConfig::bert;
  DT_CHECK(proto::BertModelConfig::Family_Parse(name, &value)) << name;
  model.set_family(value);
}

std::string WordTableName(const proto::BertModelConfig& model) {
  const EncoderFamily& family = FamilyOf(model);
  return absl::StrCat(ToAbsl(family.encoder), ".embeddings.", ToAbsl(family.form.words), ".weight");
}

BertOptions EncoderOptionsOf(const proto::BertModelConfig& model) {
  const EncoderFamily& family = FamilyOf(model);
  return {.family = &family,
          .vocab_size = model.vocab_size(),
          .hidden_size = model.hidden_size(),
          .num_layers = model.num_layers(),
          .num_heads = model.num_heads(),
          .ffn_size = model.ffn_size(),
          .activation = internal::ActivationOf(model.activation()),
          .max_positions = model.max_positions(),
          .type_vocab_size = model.type_vocab_size(),
          .embedding_size = model.embedding_size(),
          .position_offset = model.position_offset(),
          .local_attention = model.local_attention(),
          .whole_every = model.whole_every(),
          .local_theta = model.local_theta(),
          .whole_theta = model.whole_theta(),
          .layer_norm_epsilon = model.layer_norm_epsilon(),
          .dropout = model.dropout(),
          .attention_dropout = model.attention_dropout(),
          .initializer_range = model.initializer_range(),
          .low_rank = internal::LowRankOf(model.lora(), family.form.layers.attention)};
}

ContextOptions BertContextOf(const proto::BertTrainerConfig& config, uint64_t seed, int rank) {
  return {.compute_type = DTypeOf(config.precision()),
          .recompute = internal::RecomputeOf(config.recompute()),
          .recompute_every = config.recompute_every(),
          .seed = seed,
          .rank = rank};
}

BatchOptions BertBatchOf(const proto::BertTrainerConfig& config) {
  const bool by_tokens = config.tokens_per_batch() > 0;
  return {.tokens_per_batch = std::max<int64_t>(config.tokens_per_batch(), 1),
          .samples_per_batch = by_tokens ? 0 : config.batch_size()};
}

BatchOptions BertBatchOf(const proto::BertTrainerConfig& config, uint64_t seed, bool shuffle) {
  BatchOptions options = BertBatchOf(config);
  options.seed = seed;
  options.shuffle = shuffle;
  return options;
}

int64_t WarmupStepsOf(float warmup_ratio, int64_t total_steps) {
  return std::llround(
      std::ceil(internal::ShortestDecimal(warmup_ratio) * static_cast<double>(total_steps)));
}

TrainerOptions BertTrainerOf(const proto::BertTrainerConfig& trainer,
                             const proto::OptimizerConfig& optimizer, int64_t hidden_size,
                             const BertRunFacts& run) {
  LrScheduleOptions schedule = internal::LearningRateOf(
      optimizer, UpdatesOf(trainer.max_steps(), trainer.max_epochs(), run.updates_per_epoch),
      hidden_size);
  const bool is_rate_of_epochs =
      optimizer.total_steps() == 0 && schedule.warmup_steps == 0 && optimizer.decay_steps() == 0;
  if (schedule.warmup_steps == 0) {
    schedule.warmup_steps = WarmupStepsOf(trainer.warmup_ratio(), schedule.total_steps);
  }
  const std::string best = trainer.best_metric().empty() ? run.main_metric : trainer.best_metric();
  TrainerOptions options = internal::SharedTrainerOptions(trainer, optimizer, run.run_dir);
  options.updates_per_epoch = run.updates_per_epoch;
  options.is_rate_of_epochs = is_rate_of_epochs;
  options.learning_rate = schedule;
  options.reducer.power_sgd.seed = run.seed;
  options.best_metric = best;
  options.early_stop.metric =
      trainer.early_stop().metric().empty() ? best : trainer.early_stop().metric();
  return options;
}

}  // namespace dtrain
