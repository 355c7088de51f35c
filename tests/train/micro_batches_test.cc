// micro_batches_test.cc - how many parts a share of an update needs, and when those are too many.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/micro_batches.h"

#include <limits>
#include <string>

#include "dtrain/base/status.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

constexpr int64_t kHuge = int64_t{1} << 53;

std::string Refusal(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                    int ranks) {
  const Status status = CheckMicroBatches(batch, micro_batch_tokens, longest, ranks);
  if (status.ok()) return "";
  CHECK(status.code() == ExitCode::kUsage);
  return std::string(status.message());
}

TEST_CASE("an update of tokens needs as many parts as a rank's share has micro-batches") {
  const BatchOptions batch{.tokens_per_batch = 20480};
  CHECK(MicroBatchesOf(batch, 10, /*longest=*/1, /*ranks=*/2) == 1024);
  CHECK(Refusal(batch, 10, /*longest=*/1, /*ranks=*/2).empty());
  CHECK(MicroBatchesOf(batch, 9, /*longest=*/1, /*ranks=*/2) == 1024);
  CHECK(Refusal(batch, 9, /*longest=*/1, /*ranks=*/2) ==
        "trainer.tokens_per_batch=20480 is more than the 2 ranks take, each at most 1024 parts of "
        "trainer.micro_batch_tokens=9; raise trainer.micro_batch_tokens");
}

TEST_CASE("an update of texts needs parts that hold the longest of them") {
  const BatchOptions batch{.samples_per_batch = 4096};
  CHECK(MicroBatchesOf(batch, 1024, /*longest=*/512, /*ranks=*/2) == 1024);
  CHECK(Refusal(batch, 1024, /*longest=*/512, /*ranks=*/2).empty());
  CHECK(Refusal(batch, 1023, /*longest=*/512, /*ranks=*/2) ==
        "trainer.batch_size=4096, of texts of up to 512 tokens, is more than the 2 ranks take, "
        "each at most 1024 parts of trainer.micro_batch_tokens=1023; raise "
        "trainer.micro_batch_tokens");
}

TEST_CASE("micro-batches may have any number of tokens") {
  for (const int64_t tokens : {kHuge, std::numeric_limits<int64_t>::max()}) {
    for (const int ranks : {1, 1000}) {
      CHECK(MicroBatchesOf({.tokens_per_batch = 8192}, tokens, /*longest=*/1, ranks) == 1);
      CHECK(Refusal({.tokens_per_batch = 8192}, tokens, /*longest=*/1, ranks).empty());
      CHECK(Refusal({.samples_per_batch = 8192}, tokens, /*longest=*/1, ranks).empty());
    }
    CHECK_FALSE(Refusal({.tokens_per_batch = tokens}, 4096, /*longest=*/1, /*ranks=*/1).empty());
  }
}

}  // namespace
}  // namespace dtrain
