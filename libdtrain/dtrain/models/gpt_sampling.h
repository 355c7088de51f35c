// gpt_sampling.h - continues texts with a trained Gpt, token by token.
// SPDX-License-Identifier: Apache-2.0
//
//   const auto texts = Sample(model, prompts, {.max_tokens = 100, .temperature = 0.8f}, ctx);
//   Print(prompts[0], texts[0]);
//
// Keys and values of earlier tokens are cached. Each text draws its own random numbers, by its
// place among the prompts: the others change it only through the rounding of products.
#ifndef DTRAIN_MODELS_GPT_SAMPLING_H_
#define DTRAIN_MODELS_GPT_SAMPLING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dtrain/models/gpt.h"
#include "dtrain/nn/context.h"

namespace dtrain {

struct SamplingOptions {
  int64_t max_tokens = 200;  // new tokens of a text
  float temperature = 1.0f;  // divides the logits; 0 takes the likeliest token
  int64_t top_k = 0;         // draws among so many likeliest tokens; 0: among all
  uint64_t seed = 1;         // of the draws
  int64_t first_text = 0;    // the first prompt's place among all, where they come in several calls
  int32_t end_id = -1;       // ends a text; -1: none does
  int64_t batch_texts = 16;  // continued together; each takes memory for its keys and values
  std::function<bool()> stop = {};  // called between steps; true ends with the tokens so far
};

// The new tokens of each prompt, without end_id. A text also ends where it fills max_positions. A
// prompt has from 1 to max_positions tokens. Throws CheckError if one has not, or if the context is
// training.
std::vector<std::vector<int32_t>> Sample(Gpt& model, std::span<const std::vector<int32_t>> prompts,
                                         const SamplingOptions& options, Context& ctx);

// An id drawn from softmax(logits / temperature) of the top_k largest logits. The same number, from
// 0 to below 1, draws the same id.
int32_t DrawId(std::span<const float> logits, const SamplingOptions& options, float number);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_GPT_SAMPLING_H_
