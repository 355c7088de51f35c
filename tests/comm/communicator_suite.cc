// communicator_suite.cc - sums, minima, gathers and broadcasts against plain loops.
// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator_suite.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>
#include <thread>
#include <type_traits>

#include "dtrain/base/check.h"
#include "dtrain/base/random.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/groups.h"

namespace dtrain::testing {
namespace {

constexpr int64_t kCounts[] = {0, 1, 2, 5, 31, 1023, 20001, 300007};

size_t Rank(const Communicator& comm) { return static_cast<size_t>(comm.rank()); }

std::string Differ(const char* what, int64_t index, double got, double expected) {
  std::ostringstream out;
  out << what << " [" << index << "]: " << got << ", expected " << expected;
  return out.str();
}

// A value of rank r at index i that every rank can compute; small whole numbers.
double Value(int rank, int64_t i) { return static_cast<double>((i * 7 + rank * 3) % 11); }

double Expected(ReduceOp op, int size, int64_t i) {
  double result = Value(0, i);
  for (int r = 1; r < size; ++r) {
    const double next = Value(r, i);
    if (op == ReduceOp::kMin) {
      result = std::min(result, next);
    } else if (op == ReduceOp::kMax) {
      result = std::max(result, next);
    } else if (op == ReduceOp::kProduct) {
      result *= next;
    } else {
      result += next;
    }
  }
  return op == ReduceOp::kAverage ? result / size : result;
}

template <typename T>
std::string ReduceOneType(Communicator& comm, ReduceOp op, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(Value(comm.rank(), i)));
  }
  comm.AllReduce(std::span<T>(values), op);
  for (int64_t i = 0; i < count; ++i) {
    const double got = static_cast<double>(static_cast<float>(values[static_cast<size_t>(i)]));
    double expected = Expected(op, comm.size(), i);
    // A product of four may pass 255, where bytes begin again.
    if constexpr (std::is_same_v<T, uint8_t>) expected = std::fmod(expected, 256);
    expected =
        static_cast<double>(static_cast<float>(static_cast<T>(static_cast<float>(expected))));
    if (got != expected) return Differ(Name(kDTypeOf<T>).data(), i, got, expected);
  }
  return "";
}

template <typename T>
std::string ReduceAllCounts(Communicator& comm, ReduceOp op, std::span<const int64_t> counts) {
  for (const int64_t count : counts) {
    const std::string wrong = ReduceOneType<T>(comm, op, count);
    if (!wrong.empty()) return std::string(Name(op)) + " " + wrong;
  }
  return "";
}

std::string ReduceEveryType(Communicator& comm) {
  const std::span<const int64_t> all(kCounts);
  const auto few = all.first(6);
  std::string wrong;
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    wrong += ReduceAllCounts<float>(comm, op, op == ReduceOp::kSum ? all : few);
    wrong += ReduceAllCounts<BFloat16>(comm, op, few);
    wrong += ReduceAllCounts<Float16>(comm, op, few);
    // Averages of doubles do not pass through float unchanged; integers have none.
    if (op == ReduceOp::kAverage) continue;
    wrong += ReduceAllCounts<double>(comm, op, few);
    wrong += ReduceAllCounts<int32_t>(comm, op, few);
    wrong += ReduceAllCounts<int64_t>(comm, op, few);
    wrong += ReduceAllCounts<uint8_t>(comm, op, all.first(7));
  }
  return wrong;
}

std::vector<float> RandomFloats(uint64_t seed, size_t count) {
  RandomStream stream({.seed = seed});
  std::vector<float> values(count);
  for (float& value : values) {
    value = (static_cast<float>(stream.NextBelow(1 << 20)) - 524288.0f) / 777.0f;
  }
  return values;
}

// Sums of values that do not add exactly: the same bits on all ranks, and again the next time.
std::string SumsAreTheSameBits(Communicator& comm) {
  for (const size_t count : {size_t{37}, size_t{250001}}) {
    const std::vector<float> mine = RandomFloats(static_cast<uint64_t>(comm.rank()) + 1, count);
    std::vector<float> sum = mine;
    comm.AllReduce(std::span<float>(sum), ReduceOp::kSum);
    std::vector<float> again = mine;
    comm.AllReduce(std::span<float>(again), ReduceOp::kSum);
    if (std::memcmp(sum.data(), again.data(), count * sizeof(float)) != 0) {
      return "the second sum has other bits";
    }
    std::vector<float> of_root = sum;
    comm.Broadcast(of_root.data(), static_cast<int64_t>(count * sizeof(float)), 0);
    if (std::memcmp(sum.data(), of_root.data(), count * sizeof(float)) != 0) {
      return "ranks have other bits";
    }
  }
  return "";
}

std::string NanSpreads(Communicator& comm) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax}) {
    const float mine =
        comm.rank() == comm.size() - 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
    if (!std::isnan(comm.AllReduceValue(mine, op))) return "NaN of the last rank was lost";
  }
  return "";
}

std::string ManyInFlight(Communicator& comm) {
  constexpr int kBuckets = 9;
  std::vector<std::vector<float>> buckets;
  std::vector<std::unique_ptr<Handle>> handles;
  for (int b = 0; b < kBuckets; ++b) {
    buckets.emplace_back(static_cast<size_t>(b * b * 1500), static_cast<float>(comm.rank() + b));
  }
  for (int b = 0; b < kBuckets; ++b) {
    handles.push_back(comm.StartAllReduce(buckets[static_cast<size_t>(b)].data(), b * b * 1500,
                                          DType::kFloat32, ReduceOp::kSum));
    comm.Poll();
  }
  const int ranks_sum = comm.size() * (comm.size() - 1) / 2;
  // Waited for out of order, the last first; other collectives may come in between.
  for (int b = kBuckets - 1; b >= 0; --b) {
    handles[static_cast<size_t>(b)]->Wait();
    if (b == 4) comm.Barrier();
    if (!handles[static_cast<size_t>(b)]->Test()) return "not finished after Wait()";
    for (const float value : buckets[static_cast<size_t>(b)]) {
      const double expected = ranks_sum + comm.size() * b;
      if (value != static_cast<float>(expected)) return Differ("bucket", b, value, expected);
    }
  }
  return "";
}

std::string BroadcastFromEveryRoot(Communicator& comm) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{1200003}}) {
      std::vector<uint8_t> data(count, static_cast<uint8_t>(comm.rank()));
      if (comm.rank() == root) {
        for (size_t i = 0; i < count; ++i) data[i] = static_cast<uint8_t>(i * 31 + 5);
      }
      comm.Broadcast(data.data(), static_cast<int64_t>(count), root);
      for (size_t i = 0; i < count; ++i) {
        if (data[i] != static_cast<uint8_t>(i * 31 + 5)) {
          return Differ("broadcast", static_cast<int64_t>(i), data[i], 0);
        }
      }
    }
  }
  return "";
}

// Slices of uneven length, one of them empty.
std::vector<int64_t> UnevenOffsets(int size, int64_t unit) {
  std::vector<int64_t> offsets{0};
  for (int r = 0; r < size; ++r) offsets.push_back(offsets.back() + (r % 3) * unit + (r % 2));
  return offsets;
}

std::string ReduceScatterThenGather(Communicator& comm, ReduceOp op) {
  for (const int64_t unit : {1, 50021}) {
    const std::vector<int64_t> offsets = UnevenOffsets(comm.size(), unit);
    std::vector<float> data(static_cast<size_t>(offsets.back()));
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<float>(Value(comm.rank(), static_cast<int64_t>(i)));
    }
    comm.StartReduceScatter(data.data(), offsets, DType::kFloat32, op)->Wait();
    const auto me = static_cast<size_t>(comm.rank());
    for (int64_t i = offsets[me]; i < offsets[me + 1]; ++i) {
      const double expected = Expected(op, comm.size(), i);
      const float got = data[static_cast<size_t>(i)];
      if (got != static_cast<float>(expected)) return Differ("scatter", i, got, expected);
    }
    std::vector<int64_t> bytes;
    for (const int64_t offset : offsets) bytes.push_back(offset * 4);
    comm.StartAllGatherV(data.data(), bytes)->Wait();
    for (size_t i = 0; i < data.size(); ++i) {
      const double expected = Expected(op, comm.size(), static_cast<int64_t>(i));
      if (data[i] != static_cast<float>(expected)) {
        return Differ("gather", static_cast<int64_t>(i), data[i], expected);
      }
    }
  }
  return "";
}

std::string ScatterSums(Communicator& comm) {
  return ReduceScatterThenGather(comm, ReduceOp::kSum);
}
std::string ScatterAverages(Communicator& comm) {
  return ReduceScatterThenGather(comm, ReduceOp::kAverage);
}

std::string BitsAreAnded(Communicator& comm) {
  std::vector<int64_t> words(40000, ~int64_t{0});
  for (size_t i = 0; i < words.size(); ++i) words[i] ^= int64_t{1} << ((i + 9 * Rank(comm)) % 63);
  comm.AllReduce(std::span<int64_t>(words), ReduceOp::kBitAnd);
  for (size_t i = 0; i < words.size(); ++i) {
    int64_t expected = ~int64_t{0};
    for (size_t r = 0; r < static_cast<size_t>(comm.size()); ++r) {
      expected &= ~(int64_t{1} << ((i + 9 * r) % 63));
    }
    if (words[i] != expected) return Differ("bits", static_cast<int64_t>(i), 0, 0);
  }
  return "";
}

// Rank r sends (r + p) % 3 * unit bytes of value 16 r + p to rank p: some send nothing.
std::string AllToAllOfUnevenParts(Communicator& comm) {
  const int size = comm.size();
  for (const int64_t unit : {int64_t{1}, int64_t{700001}}) {
    std::vector<int64_t> from{0};
    std::vector<int64_t> to{0};
    for (int p = 0; p < size; ++p) {
      from.push_back(from.back() + (comm.rank() + p) % 3 * unit);
      to.push_back(to.back() + (comm.rank() + p) % 3 * unit);
    }
    std::vector<uint8_t> sent(static_cast<size_t>(from.back()));
    for (size_t p = 0; p < static_cast<size_t>(size); ++p) {
      std::fill(sent.begin() + from[p], sent.begin() + from[p + 1],
                static_cast<uint8_t>(16 * Rank(comm) + p));
    }
    std::vector<uint8_t> received(static_cast<size_t>(to.back()));
    comm.StartAllToAllV(sent.data(), from, received.data(), to)->Wait();
    for (size_t p = 0; p < static_cast<size_t>(size); ++p) {
      for (int64_t i = to[p]; i < to[p + 1]; ++i) {
        const auto expected = static_cast<uint8_t>(16 * p + Rank(comm));
        const uint8_t got = received[static_cast<size_t>(i)];
        if (got != expected) return Differ("all-to-all", i, got, expected);
      }
    }
  }
  return "";
}

// Odd and even ranks at the same time, then the first ranks alone, beside the parent.
std::string GroupsKeepToThemselves(Communicator& comm) {
  const int parity = comm.rank() % 2;
  const auto half = comm.Split(parity);
  int expected = 0;
  for (int r = parity; r < comm.size(); r += 2) expected += r;
  std::vector<float> values(30000, static_cast<float>(comm.rank()));
  std::vector<float> all = values;
  auto handle = comm.StartAllReduce(all.data(), 30000, DType::kFloat32, ReduceOp::kSum);
  half->AllReduce(std::span<float>(values), ReduceOp::kSum);
  handle->Wait();
  if (values[29999] != static_cast<float>(expected)) return Differ("half", 0, values[0], expected);
  const int ranks_sum = comm.size() * (comm.size() - 1) / 2;
  if (all[29999] != static_cast<float>(ranks_sum)) return Differ("all", 0, all[0], ranks_sum);
  const std::vector<int> first = {0};
  const auto root = MakeGroup(comm, first);
  if ((root != nullptr) != comm.is_root()) return "the group has other members";
  if (root && root->AllReduceValue(3, ReduceOp::kSum) != 3) return "the group of one adds wrongly";
  const auto ends = MakeGroup(comm, {0, comm.size() - 1});
  const bool is_end = comm.is_root() || comm.rank() == comm.size() - 1;
  if ((ends != nullptr) != is_end) return "the group of a list has other members";
  if (ends && ends->size() != std::min(comm.size(), 2)) return "the group of a list has other size";
  const auto node = MakeHostGroup(comm);
  if (node->size() != comm.topology().local_size() || node->rank() != comm.topology().local_rank())
    return "node group";
  const auto cross = MakeCrossGroup(comm);
  for (int r = 0; r < cross->size(); ++r) {
    if (r != cross->rank() && cross->topology().host(r) == comm.topology().host(comm.rank()))
      return "cross group";
  }
  return node->Split(0)->AllReduceValue(1, ReduceOp::kSum) == comm.topology().local_size()
             ? ""
             : "a group of a group adds wrongly";
}

// Ranks 0 and 1 have made more groups than the others when groups of both are made.
std::string GroupsAfterUnlikeSplits(Communicator& comm) {
  if (comm.size() < 3) return "";
  const auto pair = MakeGroup(comm, {0, 1});
  const auto first = pair ? pair->Split(0) : nullptr;
  const auto second = pair ? pair->Split(0) : nullptr;
  const auto mixed = MakeGroup(comm, {1, 2});
  const auto all = comm.Split(0);
  const std::vector<std::pair<Communicator*, int>> groups = {
      {second.get(), 2}, {mixed.get(), 2}, {all.get(), comm.size()}, {first.get(), 2}};
  for (const auto& [group, size] : groups) {
    if (group == nullptr) continue;
    if (group->AllReduceValue(1, ReduceOp::kSum) != size)
      return "a sum of " + group->topology().group_name();
  }
  return "";
}

std::string SmallObjects(Communicator& comm) {
  const std::string mine(static_cast<size_t>(comm.rank() * 40),
                         static_cast<char>('a' + comm.rank()));
  const std::vector<std::string> all = AllGatherStrings(comm, mine);
  const std::vector<int> ranks = AllGather(comm, comm.rank() * 10);
  for (int r = 0; r < comm.size(); ++r) {
    const auto i = static_cast<size_t>(r);
    if (all[i] != std::string(static_cast<size_t>(r * 40), static_cast<char>('a' + r))) {
      return "text of rank " + std::to_string(r) + " is '" + all[i] + "'";
    }
    if (ranks[i] != r * 10) return Differ("number", r, ranks[i], r * 10);
  }
  const int last = comm.size() - 1;
  if (BroadcastString(comm, comm.rank() == last ? "from the last" : "ignored", last) !=
      "from the last") {
    return "the broadcast text is wrong";
  }
  return BroadcastString(comm, "") == "" ? "" : "the empty text is not empty";
}

std::string BarrierWaitsForTheLast(Communicator& comm) {
  using Clock = std::chrono::steady_clock;  // one for all processes of a machine
  comm.Barrier();
  if (comm.is_root()) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  int64_t entered = Clock::now().time_since_epoch().count();
  comm.Barrier();
  const int64_t left = Clock::now().time_since_epoch().count();
  comm.Broadcast(&entered, sizeof(entered), 0);
  return left < entered ? "this rank left the barrier before rank 0 had entered it" : "";
}

std::string AveragesOfIntegersAreRefused(Communicator& comm) {
  int value = 1;
  try {
    comm.AllReduce(&value, 1, DType::kInt32, ReduceOp::kAverage);
  } catch (const CheckError& error) {
    return std::string(error.what()).find("needs a floating type") != std::string::npos
               ? ""
               : error.what();
  }
  return "no exception";
}

std::string LocalRanksCountUp(Communicator& comm) {
  int before = 0;
  int here = 0;
  for (int r = 0; r < comm.size(); ++r) {
    if (comm.topology().host(r) != comm.topology().host(comm.rank())) continue;
    before += r < comm.rank() ? 1 : 0;
    ++here;
  }
  if (comm.topology().local_rank() != before)
    return Differ("local rank", 0, comm.topology().local_rank(), before);
  return comm.topology().local_size() == here
             ? ""
             : Differ("local size", 0, comm.topology().local_size(), here);
}

}  // namespace

const std::vector<CommunicatorCase>& CommunicatorCases() {
  static const std::vector<CommunicatorCase> cases = {
      {"an allreduce gives every rank the reduction, for every type", ReduceEveryType},
      {"sums have the same bits on all ranks and every time", SumsAreTheSameBits},
      {"a NaN of one rank reaches all", NanSpreads},
      {"several allreduces are in flight together", ManyInFlight},
      {"a broadcast works from every root", BroadcastFromEveryRoot},
      {"reduce-scatter and all-gather take uneven and empty slices", ScatterSums},
      {"so does a reduce-scatter that averages", ScatterAverages},
      {"bits of integers are anded", BitsAreAnded},
      {"an all-to-all takes uneven and empty parts", AllToAllOfUnevenParts},
      {"groups keep to themselves", GroupsKeepToThemselves},
      {"groups of ranks that have split unlike often are apart", GroupsAfterUnlikeSplits},
      {"texts and single values travel", SmallObjects},
      {"a barrier waits for the last rank", BarrierWaitsForTheLast},
      {"an average of integers is refused", AveragesOfIntegersAreRefused},
      {"local ranks count up within a host", LocalRanksCountUp},
  };
  return cases;
}

}  // namespace dtrain::testing
