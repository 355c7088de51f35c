// copy_policy_test.cc - copies past the caches, and when ranks of a host make them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/copy_policy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "dtrain/comm/internal/stream_copy.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

// How many of the pieces [begin, end) went past the caches, each of which costs what `seconds`
// says.
int64_t Run(CopyPolicy& choice, int64_t begin, int64_t end,
            const std::function<double(int64_t piece, bool past_caches)>& seconds) {
  constexpr size_t kBytes = 1 << 20;
  int64_t past_caches = 0;
  for (int64_t piece = begin; piece < end; ++piece) {
    const bool past = choice.PastCaches(piece);
    past_caches += past ? 1 : 0;
    if (choice.Timed(piece)) {
      // In two steps, as of one that fills and one that reduces.
      choice.Add(piece, kBytes, seconds(piece, past) / 2);
      choice.Add(piece, kBytes, seconds(piece, past) / 2);
    }
    choice.Finish(piece);
  }
  return past_caches;
}

double CheapPast(int64_t /*piece*/, bool past_caches) { return past_caches ? 1e-4 : 2e-4; }
double CheapThrough(int64_t /*piece*/, bool past_caches) { return past_caches ? 2e-4 : 1e-4; }

TEST_CASE("pieces go past the caches while that is cheaper, and soon through them when it is not") {
  CopyPolicy choice;
  CHECK(Run(choice, 0, 1280, CheapPast) > 1280 * 9 / 10);
  CHECK(Run(choice, 1280, 2560, CheapThrough) < 1280 / 10);
  CHECK(Run(choice, 2560, 3840, CheapPast) > 1280 * 9 / 10);
}

TEST_CASE("a difference within the noise keeps pieces in the caches") {
  CopyPolicy choice;
  CHECK(Run(choice, 0, 1280, [](int64_t, bool past) { return past ? 1e-4 : 1.05e-4; }) < 1280 / 10);
}

TEST_CASE("one piece of each trial that was interrupted or in luck does not change the way") {
  for (const double odd : {1e-2, 1e-6}) {
    for (const bool cheap_past : {true, false}) {
      for (const bool of_past : {true, false}) {
        int64_t last = -100;
        const auto seconds = [&](int64_t piece, bool past) {
          if (past == of_past && piece > last + 16) last = piece;
          return piece == last ? odd : (cheap_past ? CheapPast : CheapThrough)(piece, past);
        };
        CopyPolicy choice;
        const int64_t past_caches = Run(choice, 0, 1280, seconds);
        INFO(odd << " s, " << cheap_past << of_past);
        CHECK((past_caches > 1280 / 2) == cheap_past);
      }
    }
  }
}

TEST_CASE("pieces that find memory as the other way left it do not count") {
  CopyPolicy choice;
  bool before = false;
  int64_t changed = 0;
  // The first four of each way take their time.
  for (int64_t piece = 0; piece < 1280; ++piece) {
    const bool past = choice.PastCaches(piece);
    if (past != before) changed = piece;
    before = past;
    const bool settled = piece >= changed + CopyPolicy::kTimed;
    const double seconds = settled ? CheapPast(piece, past) : (past ? 1e-2 : 1e-6);
    if (choice.Timed(piece)) choice.Add(piece, 1 << 20, seconds);
    choice.Finish(piece);
  }
  CHECK(choice.PastCaches(1279));
}

TEST_CASE("pieces of other sizes are compared by the byte") {
  CopyPolicy choice;
  for (int64_t piece = 0; piece < 128; ++piece) {
    const bool past = choice.PastCaches(piece);
    // Those past the caches are ten times as large and take six times as long.
    if (choice.Timed(piece)) choice.Add(piece, past ? 1000000 : 100000, past ? 6e-4 : 1e-4);
    choice.Finish(piece);
  }
  CHECK(choice.PastCaches(127));
}

TEST_CASE("a stream copy writes all of its bytes and none beside") {
  std::vector<std::byte> from(5000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 % 251);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory(from.size() / 64 + 3);
  auto* const begin = reinterpret_cast<std::byte*>(memory.data());
  auto* const to = begin + 64;
  auto* const end = begin + 64 * memory.size();
  constexpr std::byte kUntouched{0xff};  // 251 and more are not among the values
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4096}, size_t{4999}}) {
    for (const size_t offset : {size_t{0}, size_t{1}}) {
      INFO(bytes << " bytes from " << offset);
      std::fill(begin, end, kUntouched);
      StreamCopy(to, from.data() + offset, bytes);
      FinishStreamCopies();
      CHECK(std::equal(to, to + bytes, from.data() + offset));
      const auto untouched = [](std::byte b) { return b == kUntouched; };
      CHECK(std::all_of(begin, to, untouched));
      CHECK(std::all_of(to + bytes, end, untouched));
    }
  }
}

}  // namespace
}  // namespace dtrain::internal
