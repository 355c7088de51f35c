// gpt_sampling.cc - rows that read their prompts and then what they drew, in step with each other.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/gpt_sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtrain/base/random.h"
#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

// A text that is being continued.
struct Row {
  size_t prompt;             // its index
  std::vector<int32_t> ids;  // the prompt and what follows
  std::vector<int32_t> slots;
  RandomStream random;
};

// Texts that are continued together. Row r reads its token p at position p, whether that is of its
// prompt or was drawn, so that all rows are at the same position.
class Batch {
 public:
  Batch(Gpt& model, const SamplingOptions& options, Context& ctx)
      : model_(model), options_(options), ctx_(ctx) {}

  void Add(size_t index, const std::vector<int32_t>& prompt) {
    const auto length = static_cast<int64_t>(prompt.size());
    DT_CHECK(length > 0 && length <= model_.options().max_positions) << length << " tokens";
    slots_ += std::min(length + options_.max_tokens, model_.options().max_positions);
    rows_.push_back(
        {.prompt = index,
         .ids = prompt,
         .slots = {},
         .random = RandomStream(
             {.seed = options_.seed,
              .step = static_cast<uint32_t>(options_.first_text + static_cast<int64_t>(index))})});
    prompt_sizes_.push_back(prompt.size());
  }

  void Run(std::vector<std::vector<int32_t>>& results) {
    const size_t first = rows_.front().prompt;
    GptCache cache = model_.StartDecoding(slots_, ctx_);
    int64_t slot = 0;
    for (int32_t position = 0; !rows_.empty(); ++position) {
      if (options_.max_tokens == 0 || (options_.stop && options_.stop())) break;
      slot += Step(position, slot, cache);
      std::erase_if(rows_, [&](Row& row) {
        std::vector<int32_t>& result = results[row.prompt];
        const bool is_done = Ends(row, prompt_sizes_[row.prompt - first], position);
        if (is_done) result = New(row, prompt_sizes_[row.prompt - first]);
        return is_done;
      });
    }
    for (Row& row : rows_) results[row.prompt] = New(row, prompt_sizes_[row.prompt - first]);
  }

 private:
  // All rows read a token, and draw one where their prompts are read. Returns their number.
  int64_t Step(int32_t position, int64_t first_slot, GptCache& cache) {
    const auto at = static_cast<size_t>(position);
    std::vector<int32_t> ids;
    std::vector<int32_t> slots;
    for (Row& row : rows_) {
      row.slots.push_back(static_cast<int32_t>(first_slot + static_cast<int64_t>(ids.size())));
      slots.insert(slots.end(), row.slots.begin(), row.slots.end());
      ids.push_back(row.ids[at]);
    }
    const auto count = static_cast<int64_t>(rows_.size());
    const Sequences unused;
    const Tensor logits =
        ToHost(model_.Step(ids, position,
                           {.slots = ctx_.Upload(slots).Reshape({count, position + 1}),
                            .first_slot = first_slot,
                            .rows = unused,
                            .memory_sequences = unused},
                           cache, ctx_),
               ctx_.stream());
    const auto classes = static_cast<size_t>(model_.options().vocab_size);
    for (size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      if (row.ids.size() > at + 1) continue;
      const std::span<const float> of_row(logits.data<float>() + r * classes, classes);
      row.ids.push_back(DrawId(of_row, options_, row.random.NextUniform()));
    }
    return count;
  }

  bool Ends(const Row& row, size_t prompt, int32_t position) const {
    if (row.ids.size() == prompt) return false;
    return row.ids.back() == options_.end_id ||
           static_cast<int64_t>(row.ids.size() - prompt) >= options_.max_tokens ||
           position + 1 >= model_.options().max_positions;
  }

  std::vector<int32_t> New(const Row& row, size_t prompt) const {
    std::vector<int32_t> ids(row.ids.begin() + static_cast<std::ptrdiff_t>(prompt), row.ids.end());
    if (!ids.empty() && ids.back() == options_.end_id) ids.pop_back();
    return ids;
  }

  Gpt& model_;
  const SamplingOptions& options_;
  Context& ctx_;
  int64_t slots_ = 0;
  std::vector<Row> rows_;
  std::vector<size_t> prompt_sizes_;
};

}  // namespace

int32_t DrawId(std::span<const float> logits, const SamplingOptions& options, float number) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0.0f) return static_cast<int32_t>(best - logits.begin());
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(ids.size())) {
    // Of equal logits the smaller ids, so that results are reproducible.
    const auto larger = [&](int32_t a, int32_t b) {
      const float of_a = logits[static_cast<size_t>(a)];
      const float of_b = logits[static_cast<size_t>(b)];
      return of_a != of_b ? of_a > of_b : a < b;
    };
    std::nth_element(ids.begin(), ids.begin() + options.top_k, ids.end(), larger);
    ids.resize(static_cast<size_t>(options.top_k));
    std::sort(ids.begin(), ids.end());
  }
  std::vector<double> sums;
  double sum = 0.0;
  for (const int32_t id : ids) {
    const double above = double{logits[static_cast<size_t>(id)]} - double{*best};
    sum += std::exp(above / double{options.temperature});
    sums.push_back(sum);
  }
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), double{number} * sum);
  const auto last = static_cast<std::ptrdiff_t>(ids.size()) - 1;
  return ids[static_cast<size_t>(std::min(drawn - sums.begin(), last))];
}

std::vector<std::vector<int32_t>> Sample(Gpt& model, std::span<const std::vector<int32_t>> prompts,
                                         const SamplingOptions& options, Context& ctx) {
  DT_CHECK(!ctx.training());
  DT_CHECK(options.batch_texts > 0);
  std::vector<std::vector<int32_t>> results(prompts.size());
  const auto texts = static_cast<size_t>(options.batch_texts);
  for (size_t begin = 0; begin < prompts.size(); begin += texts) {
    Batch batch(model, options, ctx);
    for (size_t i = begin; i < std::min(begin + texts, prompts.size()); ++i) {
      batch.Add(i, prompts[i]);
    }
    batch.Run(results);
  }
  return results;
}

}  // namespace dtrain
