// base_test.cc - checks, statuses, random numbers and parallel loops.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/random.h"
#include "dtrain/base/status.h"
#include "dtrain/base/thread_pool.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("a failed check throws with both values and the reason") {
  try {
    DT_CHECK_EQ(1 + 1, 3) << "arithmetic";
    FAIL("no exception");
  } catch (const CheckError& error) {
    const std::string what = error.what();
    CHECK(what.find("(2 vs 3)") != std::string::npos);
    CHECK(what.find(": arithmetic") != std::string::npos);
    CHECK(what.find("base_test.cc") != std::string::npos);
  }
}

TEST_CASE("a status keeps its exit code when it is annotated") {
  const Status status = Annotate(DataError("line 3: NUL byte"), "train.en");
  CHECK(status.code() == ExitCode::kData);
  CHECK(status.message() == "train.en: line 3: NUL byte");
  CHECK(OkStatus().code() == ExitCode::kDone);
  CHECK(InternalError("x").code() == ExitCode::kInternal);
}

TEST_CASE("a message takes a view of a text, with a width and a greatest length") {
  const std::string_view word = std::string_view("gradients").substr(0, 4);
  CHECK(absl::StrFormat("%s|%6s|%-6s|%.2s|%5.3s", word, word, word, word, word) ==
        "grad|  grad|grad  |gr|  gra");
}

TEST_CASE("a value that is an empty optional is a value, not an error") {
  const StatusOr<std::optional<int>> none = std::nullopt;
  CHECK(none.ok());
  CHECK_FALSE(none->has_value());
  const StatusOr<std::optional<int>> seven = 7;
  CHECK(seven.value() == 7);
  const StatusOr<int> error = DataError("line 3: NUL byte");
  CHECK_THROWS_AS(error.value(), CheckError);
  CHECK(error.value_or(5) == 5);
}

// Known answers of Random123 1.09, kat_vectors, philox4x32 with 10 rounds, then with 7.
TEST_CASE("Philox gives the published known answers") {
  CHECK(Philox({0, 0, 0}, 0) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const RandomKey ones{0xffffffffffffffffu, 0xffffffffu, 0xffffffffu};
  CHECK(Philox(ones, 0xffffffffffffffffu) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  const RandomKey pi{0x299f31d0a4093822u, 0x13198a2e, 0x03707344};
  CHECK(Philox(pi, 0x85a308d3243f6a88u) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(Philox<7>({0, 0, 0}, 0) ==
        std::array<uint32_t, 4>{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  CHECK(Philox<7>(ones, 0xffffffffffffffffu) ==
        std::array<uint32_t, 4>{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
  CHECK(Philox<7>(pi, 0x85a308d3243f6a88u) ==
        std::array<uint32_t, 4>{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});
}

TEST_CASE("a random stream is uniform below its bound") {
  RandomStream stream({.seed = 7});
  std::vector<int> counts(10);
  for (int i = 0; i < 10000; ++i) ++counts[stream.NextBelow(10)];
  for (const int count : counts) CHECK(count == Approx(1000).margin(150));
}

TEST_CASE("a random stream goes on from a number of draws") {
  const RandomKey key{.seed = 7, .step = 3, .site = 1};
  RandomStream whole(key);
  for (uint64_t drawn = 0; drawn < 11; ++drawn) {
    CHECK(whole.drawn() == drawn);
    RandomStream rest(key, drawn);
    CHECK(rest.drawn() == drawn);
    RandomStream copy = whole;
    for (int i = 0; i < 9; ++i) CHECK(rest.NextUint32() == copy.NextUint32());
    whole.NextUint32();
  }
}

TEST_CASE("a parallel loop covers every index once and passes exceptions on") {
  SetNumThreads(2);
  for (const int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<int> hits(static_cast<size_t>(count));
    ParallelFor(count, 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
    });
    CHECK(std::accumulate(hits.begin(), hits.end(), int64_t{0}) == count);
  }
  CHECK_THROWS_AS(ParallelFor(10, 1, [](int64_t, int64_t) { DT_CHECK(false); }), CheckError);
}

}  // namespace
}  // namespace dtrain
