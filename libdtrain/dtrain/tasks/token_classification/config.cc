// config.cc - checks the fields of a TokenClassificationConfig and turns them into options.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/config.h"

#include <set>
#include <string>

#include "absl/strings/str_format.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"
#include "dtrain/token_classification.pb.h"

namespace dtrain {
namespace {

constexpr int64_t kConllTags = 9;  // O, and B- and I- of four types

Status ValidateTags(const proto::TokenClassificationDataConfig& data) {
  const std::set<std::string> tags(data.tags().begin(), data.tags().end());
  if (static_cast<int>(tags.size()) != data.tags_size()) {
    return UsageError("data.tags lists a tag twice");
  }
  if (data.tag_column() == data.word_column()) {
    return UsageError(
        absl::StrFormat("data.word_column and data.tag_column are both %d", data.word_column()));
  }
  return OkStatus();
}

}  // namespace

std::string_view TokenClassificationDefaults() { return FineTuningDefaults(); }

Status ValidateWithoutData(const proto::TokenClassificationConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateBertSections(config));
  DT_RETURN_IF_ERROR(internal::RefuseClassifierKeys(config));
  return ValidateTags(config.data());
}

Status ValidateTokenClassificationConfig(const proto::TokenClassificationConfig& config) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  DT_RETURN_IF_ERROR(internal::ValidateVocabulary(config));
  if (config.data().train_size() == 0) {
    return UsageError("no training data: set data.train, a file in CoNLL's format");
  }
  return internal::ValidateMetrics(config.trainer(), config.data().dev_size() > 0, "data.dev");
}

Status ValidateTokenClassificationUse(const proto::TokenClassificationConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateUse(config));
  return internal::RefuseClassifierKeys(config);
}

ConllOptions ConllOptionsOf(const proto::TokenClassificationDataConfig& data) {
  return {.word_column = data.word_column(), .tag_column = data.tag_column()};
}

BertTokenClassifierOptions TokenClassifierOptionsOf(
    const proto::TokenClassificationConfig& config) {
  return {.bert = EncoderOptionsOf(config.model()),
          .num_tags = config.data().tags_size() > 0 ? config.data().tags_size() : kConllTags,
          .classifier_dropout = config.model().classifier_dropout()};
}

TaggingTaskOptions TaggingTaskOf(const proto::TokenClassificationConfig& config, uint64_t seed,
                                 const Device& device) {
  const proto::TokenClassificationDataConfig& data = config.data();
  const proto::BertTrainerConfig& trainer = config.trainer();
  return {.train = {data.train().begin(), data.train().end()},
          .dev = {data.dev().begin(), data.dev().end()},
          .conll = ConllOptionsOf(data),
          .tags = {data.tags().begin(), data.tags().end()},
          .max_length = data.max_length(),
          .model = TokenClassifierOptionsOf(config),
          .batch = BertBatchOf(trainer, seed, data.shuffle()),
          .micro_batch_tokens = trainer.micro_batch_tokens(),
          .device = device,
          .compute_type = internal::DTypeOf(trainer.precision()),
          .seed = seed,
          .eval_batch_tokens = trainer.eval_batch_tokens()};
}

}  // namespace dtrain
