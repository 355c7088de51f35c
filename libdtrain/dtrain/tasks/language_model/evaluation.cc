// evaluation.cc - adds the losses of batches in an order that no number of ranks changes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/evaluation.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/language_model/metrics.h"
#include "dtrain/tasks/language_model/tokens.h"

namespace dtrain {

EvaluationResult EvaluateWindows(Gpt& model, const TextWindows& windows, int64_t batch_tokens,
                                 Communicator& comm, Context& ctx) {
  DT_CHECK(!ctx.training()) << "evaluations are without dropout";
  // A batch's sum is at the place of its first window.
  std::vector<double> sums(static_cast<size_t>(windows.size()));
  for (const std::vector<uint32_t>& chosen : EvaluationBatches(
           {.source = windows.lengths(), .added = 0}, batch_tokens, comm.rank(), comm.size())) {
    sums[chosen.front()] = model.Forward(windows.Pack(chosen), ctx).nll;
  }
  // One rank has a sum, the others have zeros there: the results are exact.
  comm.AllReduce(std::span(sums), ReduceOp::kSum);
  double nll = 0.0;
  for (const double sum : sums) nll += sum;
  return {.metrics = LanguageModelMetrics(nll, windows.tokens(), windows.bytes())};
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
