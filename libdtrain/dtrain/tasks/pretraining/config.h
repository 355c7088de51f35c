// config.h - checks of a pre-training run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_CONFIG_H_
#define DTRAIN_TASKS_PRETRAINING_CONFIG_H_

#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::proto {
class PretrainConfig;
}  // namespace dtrain::proto

namespace dtrain {

struct EncoderFamily;

// The defaults: BERT's own training (Devlin et al. 2019, appendix A.2), with AdamW's bias
// correction.
std::string_view PretrainDefaults();

// Checks a configuration for training. Returns UsageError that names the fields; does not look at
// files.
Status ValidatePretrainConfig(const proto::PretrainConfig& config);

// ValidatePretrainConfig() without the checks of data files, for `dtrain estimate`.
Status ValidateWithoutData(const proto::PretrainConfig& config);

// UsageError where this family of encoders guesses no next sentences, and is asked to.
Status CheckNextSentence(const EncoderFamily& family, bool next_sentence);

// Checks the settings for evaluating a trained model.
Status ValidatePretrainUse(const proto::PretrainConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_CONFIG_H_
