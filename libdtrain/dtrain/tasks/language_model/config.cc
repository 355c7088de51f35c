// config.cc - checks the fields of a LanguageModelConfig and turns them into options.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/config.h"

#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/language_model.pb.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/tasks/language_model/tokens.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"

namespace dtrain {
// As GPT-2's kind is trained: Brown et al. 2020, appendix B.
std::string_view LanguageModelDefaults() {
  return R"(optimizer {
  type: adamw
  beta2: 0.95
  epsilon: 1e-8
  weight_decay: 0.1
  learning_rate: 6e-4
  schedule: cosine
  warmup_steps: 0
}
trainer {
  warmup_ratio: 0.05
})";
}

Status ValidateWithoutData(const proto::LanguageModelConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateBertSections(config));
  return internal::RefuseClassifierKeys(config);
}

Status ValidateLanguageModelConfig(const proto::LanguageModelConfig& config) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  const proto::LanguageModelDataConfig& data = config.data();
  if (data.train_size() == 0) {
    return UsageError("no training data: set data.train, a file of UTF-8 text");
  }
  return internal::ValidateMetrics(config.trainer(), data.dev_size() > 0 || data.hold_out() > 0.0F,
                                   "data.dev or data.hold_out");
}

Status ValidateLanguageModelUse(const proto::LanguageModelConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateUse(config));
  return internal::RefuseClassifierKeys(config);
}

GptOptions GptOptionsOf(const proto::GptModelConfig& model) {
  return {.vocab_size = kTokenVocabulary,
          .hidden_size = model.hidden_size(),
          .num_layers = model.num_layers(),
          .num_heads = model.num_heads(),
          .ffn_size = model.ffn_size(),
          .activation = internal::ActivationOf(model.activation()),
          .max_positions = model.max_positions(),
          .layer_norm_epsilon = model.layer_norm_epsilon(),
          .dropout = model.dropout(),
          .attention_dropout = model.attention_dropout(),
          .initializer_range = model.initializer_range()};
}

SamplingOptions SamplingOptionsOf(const proto::GenerateConfig& config) {
  return {.max_tokens = config.max_tokens(),
          .temperature = config.temperature(),
          .top_k = config.top_k(),
          .seed = config.seed(),
          .end_id = kEndOfText};
}

LanguageModelTaskOptions LanguageModelTaskOf(const proto::LanguageModelConfig& config,
                                             uint64_t seed, const Device& device) {
  const proto::LanguageModelDataConfig& data = config.data();
  const proto::BertTrainerConfig& trainer = config.trainer();
  return {.train = {data.train().begin(), data.train().end()},
          .dev = {data.dev().begin(), data.dev().end()},
          .unit = data.text() == proto::LanguageModelDataConfig::line ? TextUnit::kLine
                                                                      : TextUnit::kFile,
          .hold_out = internal::ShortestDecimal(data.hold_out()),
          .max_length = data.max_length(),
          .model = GptOptionsOf(config.model()),
          .batch = BertBatchOf(trainer, seed, data.shuffle()),
          .micro_batch_tokens = trainer.micro_batch_tokens(),
          .device = device,
          .compute_type = internal::DTypeOf(trainer.precision()),
          .seed = seed,
          .eval_batch_tokens = trainer.eval_batch_tokens(),
          .sampling = SamplingOptionsOf(config.generate())};
}

}  // namespace dtrain
