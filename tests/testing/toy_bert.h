// toy_bert.h - the model, the updates and the limits of short runs of BERT's tasks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_TOY_BERT_H_
#define DTRAIN_TESTS_TESTING_TOY_BERT_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/train/trainer.h"
#include "testing/catch.h"

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

// Updates that need more micro-batches than a rank takes are refused; `train` gives ranks' results.
template <typename Run, typename Train>
void CheckTooManyMicroBatches(Run run, const Train& train) {
  run.task.batch = {.samples_per_batch = 1025};
  run.task.micro_batch_tokens = 1;
  const auto result = train(run)[0];
  CHECK(result.exit_code == ExitCode::kUsage);
  CHECK_THAT(result.message, Catch::Contains("trainer.batch_size=1025, of texts of up to ") &&
                                 Catch::Contains("raise trainer.micro_batch_tokens"));
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_TESTING_TOY_BERT_H_
