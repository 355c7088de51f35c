// config.cc - checks relations between the fields of a SquadConfig.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/config.h"

#include "absl/strings/str_format.h"
#include "dtrain/squad.pb.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"

namespace dtrain {
namespace {

// Refuses fields of shared sections that only other heads use.
Status RefuseOtherHeads(const proto::SquadConfig& config) {
  return internal::RefuseClassifierFields(config, "answers have",
                                          "the pooler, which question answering does not have");
}

Status ValidateWindows(const proto::SquadDataConfig& data) {
  constexpr int kSpecialTokens = 3;
  if (data.max_length() <= data.max_question() + kSpecialTokens) {
    return UsageError(absl::StrFormat(
        "data.max_length (%d) leaves no room for a context next to questions of data.max_question "
        "(%d) tokens",
        data.max_length(), data.max_question()));
  }
  // The default suits data.max_length=384. Shorter windows lie one behind the other.
  const bool is_default = data.stride() == proto::SquadDataConfig::default_instance().stride();
  const int32_t longest = data.max_length() - kSpecialTokens;
  if (is_default || data.stride() <= longest) return OkStatus();
  return UsageError(absl::StrFormat(
      "data.stride (%d) is beyond the window: with data.max_length (%d) it holds at most %d tokens "
      "of a context; lower data.stride, usually to a third of data.max_length",
      data.stride(), data.max_length(), longest));
}

}  // namespace

// Devlin et al. 2019, "BERT", section 4.2: 3 epochs, learning rate 5e-5, batches of 32.
std::string_view SquadDefaults() { return FineTuningDefaults(); }

Status ValidateWithoutData(const proto::SquadConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateBertSections(config));
  DT_RETURN_IF_ERROR(RefuseOtherHeads(config));
  return ValidateWindows(config.data());
}

Status ValidateSquadConfig(const proto::SquadConfig& config) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  DT_RETURN_IF_ERROR(internal::ValidateVocabulary(config));
  if (config.data().train_size() == 0) {
    return UsageError(
        "no training data is given: set data.train to SQuAD's train-v1.1.json or train-v2.0.json");
  }
  return internal::ValidateMetrics(config.trainer(), config.data().dev_size() > 0, "data.dev");
}

Status ValidateSquadUse(const proto::SquadConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateUse(config));
  return RefuseOtherHeads(config);
}

}  // namespace dtrain
