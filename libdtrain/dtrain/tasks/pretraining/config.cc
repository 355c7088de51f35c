// config.cc - checks relations between the fields of a PretrainConfig.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/config.h"

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"

namespace dtrain {
namespace {

// Refuses fields of shared sections that only other heads use.
Status RefuseOtherHeads(const proto::PretrainConfig& config) {
  DT_RETURN_IF_ERROR(internal::RefuseClassifierFields(config, "pre-training has", "a classifier"));
  if (config.model().lora().rank() > 0) {
    return UsageError(
        "model.lora is for fine-tuning; pre-training changes all weights, leave it out");
  }
  if (!config.predict().output().empty()) {
    return UsageError("predict.output is for predictions, which pre-training does not write");
  }
  return OkStatus();
}

}  // namespace

// Devlin et al. 2019, "BERT", appendix A.2: learning rate 1e-4, warm-up and linear decay, batches
// of 256.
std::string_view PretrainDefaults() {
  return R"(optimizer {
  type: adamw
  beta2: 0.999
  epsilon: 1e-6
  weight_decay: 0.01
  learning_rate: 1e-4
  schedule: linear
  warmup_steps: 0
}
trainer {
  batch_size: 256
})";
}

Status ValidateWithoutData(const proto::PretrainConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateBertSections(config));
  // The family of pretrained weights is known only when their shape is.
  if (config.model().pretrained().empty()) {
    DT_RETURN_IF_ERROR(CheckNextSentence(FamilyOf(config.model()), config.data().next_sentence()));
  }
  return RefuseOtherHeads(config);
}

Status CheckNextSentence(const EncoderFamily& family, bool next_sentence) {
  if (!next_sentence || family.has_next_sentence) return OkStatus();
  return UsageError(absl::StrFormat("a %s guesses masked words alone: set data.next_sentence=false",
                                    ToAbsl(family.title)));
}

Status ValidatePretrainConfig(const proto::PretrainConfig& config) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  const proto::PretrainDataConfig& data = config.data();
  DT_RETURN_IF_ERROR(internal::ValidateVocabulary(config));
  if (data.train_size() == 0) {
    return UsageError("no training data is given: set data.train to files of text");
  }
  const bool evaluates = data.dev_size() > 0 || data.hold_out() > 0.0f;
  return internal::ValidateMetrics(config.trainer(), evaluates, "data.dev or data.hold_out");
}

Status ValidatePretrainUse(const proto::PretrainConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateUse(config));
  return RefuseOtherHeads(config);
}

}  // namespace dtrain
