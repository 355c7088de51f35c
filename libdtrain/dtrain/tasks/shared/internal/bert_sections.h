// bert_sections.h - the sections that the configurations of several programs have.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_BERT_SECTIONS_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_BERT_SECTIONS_H_

#include <cstdint>

namespace dtrain::proto {
class BertModelConfig;
class BertTrainerConfig;
class KernelConfig;
class OptimizerConfig;
class RunConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// The sections of a program that trains on texts, whichever model. The configuration outlives them.
struct TextSections {
  const proto::OptimizerConfig& optimizer;
  const proto::BertTrainerConfig& trainer;
  const proto::KernelConfig& kernels;
  const proto::RunConfig& run;
  int64_t max_length;  // tokens of the longest text
};
template <typename Config>
TextSections TextSectionsOf(const Config& config) {
  return {config.optimizer(), config.trainer(), config.kernels(), config.run(),
          config.data().max_length()};
}

// The sections of a program that trains a BERT.
struct BertSections : TextSections {
  const proto::BertModelConfig& model;
};
template <typename Config>
BertSections SectionsOf(const Config& config) {
  return {TextSectionsOf(config), config.model()};
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_BERT_SECTIONS_H_
