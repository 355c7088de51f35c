// config.h - rules, defaults and options of a run of lm_train.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_CONFIG_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/models/gpt.h"
#include "dtrain/models/gpt_sampling.h"
#include "dtrain/tasks/language_model/task.h"

namespace dtrain::proto {
class GenerateConfig;
class GptModelConfig;
class LanguageModelConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Textproto of the defaults that are not those of the fields.
std::string_view LanguageModelDefaults();

// Checks the configuration of training. Reads no file. UsageError names the fields.
Status ValidateLanguageModelConfig(const proto::LanguageModelConfig& config);
// The same without the rules of the data's files. `dtrain estimate` needs no more.
Status ValidateWithoutData(const proto::LanguageModelConfig& config);
// Checks what the user sets to evaluate or generate with a trained model.
Status ValidateLanguageModelUse(const proto::LanguageModelConfig& config);

// With the vocabulary of tasks/language_model/tokens.h.
GptOptions GptOptionsOf(const proto::GptModelConfig& model);
SamplingOptions SamplingOptionsOf(const proto::GenerateConfig& config);
// Left to the caller: the files that travel in checkpoints.
LanguageModelTaskOptions LanguageModelTaskOf(const proto::LanguageModelConfig& config,
                                             uint64_t seed, const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_CONFIG_H_
