// wire_bytes_test.cc - bytes of every collective, as docs/dev/collective-algorithms.md has them.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::OneHost;
using testing::RunRanksOn;

// A multiple of every slice and of 16 elements, so that all slices are equal.
constexpr int64_t kElements = 16 * 3 * 4 * 5 * 64;
constexpr int64_t kBytes = kElements * 4;

// Bytes that each rank sends in `work`, of which nothing is small.
std::vector<int64_t> Sent(const std::vector<std::string>& hosts,
                          const std::function<void(Communicator&)>& work,
                          CommunicatorOptions options = {}) {
  if (options.small_bytes == CommunicatorOptions().small_bytes) options.small_bytes = 64;
  return RunRanksOn(
      hosts,
      [&](Communicator& comm) {
        const int64_t before = comm.bytes_sent();
        work(comm);
        return comm.bytes_sent() - before;
      },
      options);
}

void AllReduceFloats(Communicator& comm) {
  std::vector<float> data(static_cast<size_t>(kElements), 1.0f);
  comm.AllReduce(std::span(data), ReduceOp::kSum);
}

// Hosts of g ranks each.
std::vector<std::string> Hosts(int hosts, int ranks_per_host) {
  std::vector<std::string> names;
  for (int rank = 0; rank < hosts * ranks_per_host; ++rank) {
    names.emplace_back(1, static_cast<char>('a' + rank / ranks_per_host));
  }
  return names;
}

TEST_CASE("an allreduce in slices sends 2 (n - 1) / n S, by messages and by shared memory") {
  for (const bool shared_memory : {false, true}) {
    for (const int64_t n : {1, 2, 3, 4, 5}) {
      INFO(n << " ranks, shared memory " << shared_memory);
      for (const int64_t sent :
           Sent(OneHost(static_cast<int>(n)), AllReduceFloats, {.shared_memory = shared_memory})) {
        CHECK(sent == 2 * (n - 1) * kBytes / n);
      }
    }
  }
}

TEST_CASE("a small allreduce sends (n - 1) S") {
  for (const bool shared_memory : {false, true}) {
    for (const int64_t n : {2, 3, 4}) {
      for (const int64_t sent : Sent(OneHost(static_cast<int>(n)), AllReduceFloats,
                                     {.small_bytes = kBytes, .shared_memory = shared_memory})) {
        CHECK(sent == (n - 1) * kBytes);
      }
    }
  }
}

TEST_CASE("over hosts an allreduce is small up to 16 KiB for all others together") {
  constexpr int64_t kFew = 16 * 4 * 64;  // bytes, of 4 ranks
  constexpr int64_t kMore = 2 * kFew;
  const auto sent = [](int64_t bytes) {
    return Sent(Hosts(2, 2),
                [&](Communicator& comm) {
                  std::vector<float> data(static_cast<size_t>(bytes / 4), 1.0f);
                  comm.AllReduce(std::span(data), ReduceOp::kSum);
                },
                {.small_bytes = 64 << 10});
  };
  CHECK(sent(kFew) == std::vector<int64_t>(4, 3 * kFew));
  // Within a host as much as half of it twice, and once a quarter of it twice across.
  CHECK(sent(kMore) == std::vector<int64_t>(4, kMore + kMore / 2));
}

TEST_CASE("a flat allreduce over hosts sends 2 (n - 1) / n S, whatever the hosts") {
  for (const int64_t sent :
       Sent(Hosts(2, 2), AllReduceFloats, {.algorithm = AllReduceAlgorithm::kFlat})) {
    CHECK(sent == 2 * 3 * kBytes / 4);
  }
}

TEST_CASE("a hierarchical allreduce sends 2 (g - 1) / g S within and 2 (h - 1) / h S / g across") {
  struct Case {
    int64_t hosts, ranks_per_host;
  };
  for (const Case& c : {Case{2, 2}, Case{3, 2}, Case{2, 4}, Case{4, 2}}) {
    INFO(c.hosts << " hosts of " << c.ranks_per_host);
    const int64_t g = c.ranks_per_host;
    const int64_t across = 2 * (c.hosts - 1) * kBytes / c.hosts / g;
    for (const int64_t sent :
         Sent(Hosts(static_cast<int>(c.hosts), static_cast<int>(g)), AllReduceFloats)) {
      CHECK(sent == 2 * (g - 1) * kBytes / g + across);
    }
    // Only what crosses is sent by messages.
    const auto crossing = Sent(Hosts(static_cast<int>(c.hosts), 1), [&](Communicator& comm) {
      std::vector<float> data(static_cast<size_t>(kElements / g), 1.0f);
      comm.AllReduce(std::span(data), ReduceOp::kSum);
    });
    CHECK(crossing[0] == across);
  }
}

TEST_CASE("a 16-bit wire sends half of a 32-bit one") {
  for (const int64_t sent : Sent(OneHost(4), [](Communicator& comm) {
         std::vector<BFloat16> data(static_cast<size_t>(kElements), BFloat16(1.0f));
         comm.AllReduce(data.data(), kElements, DType::kBFloat16, ReduceOp::kSum);
       })) {
    CHECK(sent == kBytes / 2 * 2 * 3 / 4);
  }
}

TEST_CASE("a reduce-scatter and an all-gather each send (n - 1) / n S") {
  for (const int64_t n : {2, 3, 4}) {
    std::vector<int64_t> offsets;
    for (int64_t r = 0; r <= n; ++r) offsets.push_back(r * kElements / n);
    const std::vector<std::string> hosts = OneHost(static_cast<int>(n));
    for (const int64_t sent : Sent(hosts, [&](Communicator& comm) {
           std::vector<float> data(static_cast<size_t>(kElements));
           comm.StartReduceScatter(data.data(), offsets, DType::kFloat32, ReduceOp::kSum)->Wait();
         })) {
      CHECK(sent == (n - 1) * kBytes / n);
    }
    for (const int64_t sent : Sent(hosts, [&](Communicator& comm) {
           std::vector<std::byte> data(static_cast<size_t>(kElements));
           comm.StartAllGatherV(data.data(), offsets)->Wait();
         })) {
      CHECK(sent == (n - 1) * kElements / n);
    }
  }
}

TEST_CASE("a broadcast sends S to each other rank, the root to the logarithm of them") {
  for (const int root : {0, 2}) {
    const auto sent = Sent(OneHost(4), [&](Communicator& comm) {
      std::vector<std::byte> data(static_cast<size_t>(kBytes));
      comm.Broadcast(data.data(), kBytes, root);
    });
    int64_t total = 0;
    for (const int64_t bytes : sent) total += bytes;
    CHECK(total == 3 * kBytes);
    CHECK(sent[static_cast<size_t>(root)] == 2 * kBytes);
  }
}

TEST_CASE("an all-to-all sends what others get, and a barrier nothing") {
  const auto sent = Sent(OneHost(3), [](Communicator& comm) {
    // Rank r gives rank q 100 (q + 1) bytes, and itself as well.
    const std::vector<int64_t> from = {0, 100, 300, 600};
    std::vector<int64_t> to;
    for (int64_t r = 0; r <= comm.size(); ++r) to.push_back(r * 100 * (comm.rank() + 1));
    const std::vector<std::byte> out(600);
    std::vector<std::byte> in(static_cast<size_t>(to.back()));
    comm.StartAllToAllV(out.data(), from, in.data(), to)->Wait();
  });
  CHECK(sent == std::vector<int64_t>{500, 400, 300});
  CHECK(Sent(OneHost(3), [](Communicator& comm) { comm.Barrier(); }) ==
        std::vector<int64_t>{0, 0, 0});
}

}  // namespace
}  // namespace dtrain
