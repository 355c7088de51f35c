// evaluation.cc - adds the losses of batches in an order that no number of ranks changes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/evaluation.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/language_model/metrics.h"
#include "dtrain/tasks/language_model/tokens.h"
#include "dtrain/tasks/shared/evaluated_rows.h"

namespace dtrain {

namespace {

struct WindowLosses {
  double sum = 0.0;
  std::vector<float> windows;  // the sum of each
};

WindowLosses LossesOf(Gpt& model, const TextWindows& windows, const std::vector<uint32_t>& rows,
                      int64_t batch_tokens, Communicator& comm, Context& ctx) {
  DT_CHECK(!ctx.training()) << "evaluations are without dropout";
  // A batch's sum is at the place of its first window.
  std::vector<double> sums(rows.size());
  WindowLosses losses{.windows = std::vector<float>(rows.size())};
  std::vector<float> tokens;
  for (const RowBatch& own :
       BatchesOfRows(rows, {.source = windows.lengths(), .added = 0}, batch_tokens, comm)) {
    sums[own.places.front()] = model.Forward(windows.Pack(own.rows), ctx, &tokens).nll;
    auto token = tokens.begin();
    for (size_t i = 0; i < own.rows.size(); ++i) {
      const int32_t length = windows.lengths()[own.rows[i]];
      losses.windows[own.places[i]] = std::accumulate(token, token + length, 0.0F);
      token += length;
    }
  }
  // One rank has a sum, the others have zeros there: the results are exact.
  comm.AllReduce(std::span(sums), ReduceOp::kSum);
  comm.AllReduce(std::span(losses.windows), ReduceOp::kSum);
  for (const double sum : sums) losses.sum += sum;
  return losses;
}

std::vector<float> TokensOf(const TextWindows& windows, const std::vector<uint32_t>& rows) {
  std::vector<float> tokens;
  for (const uint32_t row : rows) tokens.push_back(static_cast<float>(windows.lengths()[row]));
  return tokens;
}

}  // namespace

EvaluationResult EvaluateWindows(Gpt& model, const TextWindows& windows, int64_t batch_tokens,
                                 Communicator& comm, Context& ctx) {
  const std::vector<uint32_t> rows = EveryKthRow(windows.size(), 0);
  WindowLosses losses = LossesOf(model, windows, rows, batch_tokens, comm, ctx);
  EvaluationResult result{.metrics =
                              LanguageModelMetrics(losses.sum, windows.tokens(), windows.bytes())};
  result.rows.rows.assign(rows.begin(), rows.end());
  result.rows.AddRatio("loss", std::move(losses.windows), TokensOf(windows, rows));
  return result;
}

double LossOfWindows(Gpt& model, const TextWindows& windows, const std::vector<uint32_t>& rows,
                     int64_t batch_tokens, Communicator& comm, Context& ctx) {
  const std::vector<float> tokens = TokensOf(windows, rows);
  return LossesOf(model, windows, rows, batch_tokens, comm, ctx).sum /
         std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

EvaluationSample SampleOf(Gpt& model, const TextWindows& windows, const SamplingOptions& options,
                          Context& ctx) {
  constexpr size_t kLongestPrompt = 64;  // bytes
  const std::string_view text = windows.Text(0);
  const auto room = static_cast<size_t>(model.options().max_positions - 1);
  const std::string_view prompt = text.substr(0, std::min({text.size() / 4, kLongestPrompt, room}));
  const std::vector<int32_t> ids = PromptOf(prompt);
  const std::vector<int32_t> drawn = Sample(model, std::span(&ids, 1), options, ctx).front();
  const std::string_view rest = text.substr(prompt.size());
  // A window may begin or end within a character, and so may what is drawn.
  return {.source = ReplaceInvalidUtf8(prompt),
          .reference = ReplaceInvalidUtf8(rest.substr(0, static_cast<size_t>(options.max_tokens))),
          .hypothesis = ReplaceInvalidUtf8(TextOf(drawn))};
}

}  // namespace dtrain
