// micro_batches.cc - as many parts as the longest texts need.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/micro_batches.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "dtrain/train/task.h"

namespace dtrain {
namespace {

// Nothing here is multiplied or added up: a budget may be any number.
int64_t CeilOfQuotient(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

int64_t PartsNeeded(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                    int ranks) {
  const int64_t micro = std::max<int64_t>(micro_batch_tokens, 1);
  if (batch.samples_per_batch > 0) {
    const int64_t fitting = std::max<int64_t>(micro / std::max<int64_t>(longest, 1), 1);
    return CeilOfQuotient(CeilOfQuotient(batch.samples_per_batch, ranks), fitting);
  }
  return CeilOfQuotient(CeilOfQuotient(batch.tokens_per_batch, ranks), micro);
}

}  // namespace

int MicroBatchesOf(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                   int ranks) {
  return static_cast<int>(
      std::min(PartsNeeded(batch, micro_batch_tokens, longest, ranks), kMaxMicroBatches));
}

Status CheckMicroBatches(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                         int ranks) {
  if (PartsNeeded(batch, micro_batch_tokens, longest, ranks) <= kMaxMicroBatches) {
    return OkStatus();
  }
  const std::string update =
      batch.samples_per_batch > 0
          ? absl::StrFormat("trainer.batch_size=%d, of texts of up to %d tokens,",
                            batch.samples_per_batch, longest)
          : absl::StrFormat("trainer.tokens_per_batch=%d", batch.tokens_per_batch);
  return UsageError(
      absl::StrFormat("%s is more than the %d ranks take, each at most %d parts of "
                      "trainer.micro_batch_tokens=%d; raise trainer.micro_batch_tokens",
                      update, ranks, kMaxMicroBatches, micro_batch_tokens));
}

}  // namespace dtrain
