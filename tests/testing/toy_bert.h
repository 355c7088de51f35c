// toy_bert.h - the model and the updates of short runs of BERT's tasks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_TOY_BERT_H_
#define DTRAIN_TESTS_TESTING_TOY_BERT_H_

#include <string>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/train/trainer.h"

namespace dtrain {

// The task gives it its vocabulary.
inline BertOptions ToyBertOptions() {
  return {.vocab_size = 0,
          .hidden_size = 32,
          .num_layers = 2,
          .num_heads = 4,
          .ffn_size = 48,
          .max_positions = 32,
          .dropout = 0.0f,
          .attention_dropout = 0.0f,
          .initializer_range = 0.15f};
}

inline TrainerOptions ToyBertTrainer(int64_t max_steps, const std::string& best_metric) {
  TrainerOptions trainer;
  trainer.max_steps = max_steps;
  trainer.learning_rate = {.kind = LrScheduleOptions::Kind::kConstant, .base = 2e-3};
  // No whole steps of gradients that are nothing but rounding.
  trainer.adam = {.beta2 = 0.999f, .epsilon = 1e-3f, .weight_decay = 0.01f};
  trainer.log_every = 1;
  trainer.best_metric = best_metric;
  trainer.reducer = {.bucket_bytes = 16 << 10, .first_bucket_bytes = 4 << 10};
  return trainer;
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_TESTING_TOY_BERT_H_
