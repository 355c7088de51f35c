// collectives_movements.cc - named gathers, broadcasts, exchanges, objects; the queue's life; fuzz.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "comm/collectives_suite.h"
#include "dtrain/base/random.h"

namespace dtrain::testing {
namespace {

constexpr int64_t kRows[] = {17, 32, 81, 0};  // of ranks 0..3: the last brings none

std::string GatherOfUnevenRows(Communicator& comm) {
  Collectives collectives(comm);
  for (int step = 0; step < 2; ++step) {
    const int64_t mine = step == 0 ? 17 : kRows[comm.rank() % 4];
    std::vector<int32_t> data(static_cast<size_t>(mine * 5), comm.rank());
    const auto handle = collectives.AllGather("x", View(data, {mine, 5}));
    std::string wrong = ExpectOk(handle.Wait());
    if (!wrong.empty()) return wrong;
    const int32_t* at = handle.output().data<int32_t>();
    int64_t rows = 0;
    for (int r = 0; r < comm.size(); ++r) {
      const int64_t theirs = step == 0 ? 17 : kRows[r % 4];
      if (handle.rows()[static_cast<size_t>(r)] != theirs) return "the rows of a rank";
      if (std::count(at, at + theirs * 5, r) != theirs * 5) return "the values of a rank";
      at += theirs * 5;
      rows += theirs;
    }
    if (handle.output().shape() != Shape{rows, 5}) return "the shape";
  }
  return "";
}

std::string GatherMismatches(Communicator& comm) {
  if (comm.size() == 1) return "";
  Collectives collectives(comm);
  const bool odd = comm.rank() % 2 == 1;
  std::vector<float> real(60);
  std::vector<int32_t> whole(60);
  const auto shape = collectives.AllGather("shape", View(real, {6, odd ? 5 : 10}));
  const auto type = collectives.AllGather("type", odd ? View(real) : View(whole));
  return ExpectError(shape.Wait(), ExitCode::kCommunication,
                     {"all-gather \"shape\"", "after the first extent", "[6, 10] on rank 0",
                      "[6, 5] on rank 1"}) +
         ExpectError(type.Wait(), ExitCode::kCommunication,
                     {"all-gather \"type\"", "int32", "float32"});
}

std::string BroadcastFromEachRoot(Communicator& comm) {
  Collectives collectives(comm);
  std::string wrong;
  for (int root = 0; root < comm.size(); ++root) {
    std::vector<float> data(100, static_cast<float>(comm.rank()));
    std::vector<float> copy(100, -1.0f);
    const std::string name = "from " + std::to_string(root);
    wrong += ExpectOk(collectives.Broadcast(name, View(data), View(copy), root).Wait());
    wrong += Join({ExpectAll("the input", data, comm.rank()), ExpectAll("the copy", copy, root)});
    wrong += ExpectOk(collectives.Broadcast(name, View(data), root).Wait());
    wrong += ExpectAll("in place", data, root);
  }
  return wrong;
}

std::string BroadcastMismatches(Communicator& comm) {
  Collectives collectives(comm);
  std::vector<float> real(60);
  std::vector<int32_t> whole(60);
  std::string wrong =
      ExpectError(collectives.Broadcast("none", View(real), comm.size()).Wait(), ExitCode::kUsage,
                  {"broadcast \"none\" on rank 0", "there is no root"});
  if (comm.size() == 1) return wrong;
  const bool odd = comm.rank() % 2 == 1;
  const auto shape = collectives.Broadcast("shape", View(real, {6, odd ? 5 : 10}));
  const auto type = collectives.Broadcast("type", odd ? View(real) : View(whole));
  const auto root = collectives.Broadcast("root", View(real), odd ? 1 : 0);
  return wrong +
         ExpectError(shape.Wait(), ExitCode::kCommunication, {"\"shape\"", "[6, 10]", "[6, 5]"}) +
         ExpectError(type.Wait(), ExitCode::kCommunication, {"\"type\"", "int32", "float32"}) +
         ExpectError(root.Wait(), ExitCode::kCommunication,
                     {"the roots differ", "root 0 on rank 0", "root 1 on rank 1"});
}

std::string AllToAllWithSplits(Communicator& comm) {
  Collectives collectives(comm);
  const int n = comm.size();
  std::vector<int64_t> splits;
  std::vector<float> data;
  for (int r = 0; r < n; ++r) {
    splits.push_back(r + 1);
    data.insert(data.end(), 2 * static_cast<size_t>(r + 1),
                static_cast<float>(10 * comm.rank() + r));
  }
  const auto rows = static_cast<int64_t>(data.size()) / 2;
  const auto handle = collectives.AllToAll("x", View(data, {rows, 2}), splits);
  std::string wrong = ExpectOk(handle.Wait());
  if (!wrong.empty()) return wrong;
  if (handle.rows() != std::vector<int64_t>(static_cast<size_t>(n), comm.rank() + 1)) return "rows";
  for (int64_t i = 0; i < handle.output().elements(); ++i) {
    const auto sender = static_cast<int>(i / (2 * (comm.rank() + 1)));
    const auto expected = static_cast<float>(10 * sender + comm.rank());
    if (handle.output().data<float>()[i] != expected) return "values";
  }
  std::vector<int64_t> even(static_cast<size_t>(2 * n), comm.rank());
  const auto without = collectives.AllToAll("even", View(even));
  wrong += ExpectOk(without.Wait());
  if (without.rows() != std::vector<int64_t>(static_cast<size_t>(n), 2)) wrong += "even rows";
  return wrong;
}

std::string WrongSplits(Communicator& comm) {
  Collectives collectives(comm);
  std::vector<float> data(static_cast<size_t>(3 * comm.size() + 1));
  const auto n = static_cast<size_t>(comm.size());
  const auto refuse = [&](const char* name, const std::vector<int64_t>& splits, const char* part) {
    return ExpectError(collectives.AllToAll(name, View(data), splits).Wait(), ExitCode::kUsage,
                       {std::string("all-to-all \"") + name + "\" on rank 0", part});
  };
  std::vector<int64_t> negative(n, 3);
  negative[0] = -1;
  std::string wrong = refuse("sum", std::vector<int64_t>(n, 3), "the splits add to") +
                      refuse("length", std::vector<int64_t>(n + 1, 1), "splits for") +
                      refuse("negative", negative, "a split of -1 rows");
  if (n > 1) wrong += refuse("even", {}, "do not divide among");
  return wrong;
}

std::string SomeSendNothing(Communicator& comm) {
  Collectives collectives(comm);
  const int n = comm.size();
  // Rank 0 sends everything, the others nothing.
  std::vector<float> data(comm.is_root() ? static_cast<size_t>(n) : 0, 7.0f);
  std::vector<int64_t> splits(static_cast<size_t>(n), comm.is_root() ? 1 : 0);
  const auto handle = collectives.AllToAll("one", View(data), splits);
  std::string wrong = ExpectOk(handle.Wait());
  if (wrong.empty() && handle.output().dim(0) != 1) wrong = "the row of rank 0 did not come";
  std::vector<float> empty;
  const std::vector<int64_t> zeros(static_cast<size_t>(n), 0);
  wrong += ExpectOk(collectives.AllToAll("zero", View(empty), zeros).Wait());
  wrong += ExpectOk(collectives.AllReduce("empty", View(empty)).Wait());
  wrong += ExpectOk(collectives.Broadcast("empty", View(empty)).Wait());
  wrong += ExpectOk(collectives.AllGather("empty", View(empty)).Wait());
  return Join({wrong, ExpectOk(collectives.ReduceScatter("empty", View(empty)).Wait())});
}

std::string ObjectsTravel(Communicator& comm) {
  Collectives collectives(comm);
  const int last = comm.size() - 1;
  const std::string mine(static_cast<size_t>(comm.rank() * 1000),
                         static_cast<char>('a' + comm.rank()));
  const auto object =
      collectives.BroadcastBytes("object", "of rank " + std::to_string(comm.rank()), last);
  if (!object.ok() || *object != "of rank " + std::to_string(last)) return "the broadcast object";
  const auto all = collectives.AllGatherBytes("objects", mine);
  if (!all.ok()) return std::string(all.status().message());
  for (size_t r = 0; r < all->size(); ++r) {
    if ((*all)[r] != std::string(r * 1000, static_cast<char>('a' + static_cast<int>(r)))) {
      return "the object of a rank";
    }
  }
  const auto none = collectives.BroadcastBytes("none", "", comm.size());
  std::string wrong = ExpectError(none.status(), ExitCode::kUsage, {"there is no root"});
  if (comm.size() == 1) return wrong;
  const auto roots = collectives.BroadcastBytes("roots", "x", comm.rank() == 0 ? 0 : 1);
  return wrong +
         ExpectError(roots.status(), ExitCode::kCommunication, {"the roots differ between ranks"});
}

std::string EndsAndBeginsAgain(Communicator& comm) {
  std::string wrong;
  for (int round = 0; round < 3; ++round) {
    Collectives collectives(comm);
    if (collectives.rank() != comm.rank() || collectives.size() != comm.size()) wrong += "rank";
    std::vector<float> data(10, 1.0f);
    wrong += ExpectOk(collectives.AllReduce("", View(data), {.op = ReduceOp::kSum}).Wait());
    wrong += ExpectAll("the nameless sum", data, comm.size());
  }
  return wrong;
}

std::string LeavingWithPendingTensors(Communicator& comm) {
  std::vector<float> data(10, 1.0f);
  CollectiveHandle pending;
  CollectiveHandle other;
  {
    Collectives collectives(comm);
    const bool odd = comm.rank() % 2 == 1;
    pending = collectives.AllReduce(odd ? "odd" : "even", View(data), {.op = ReduceOp::kSum});
    std::vector<float> both(10, 1.0f);
    other = collectives.AllReduce("both", View(both), {.op = ReduceOp::kSum});
    std::string wrong = Join({ExpectOk(other.Wait()), ExpectAll("the sum", both, comm.size())});
    if (!wrong.empty()) return wrong;
  }
  if (!pending.Poll()) return "still pending after the end";
  if (comm.size() == 1) return ExpectOk(pending.Wait());
  return ExpectError(pending.Wait(), ExitCode::kCommunication,
                     {"has ended its collectives",
                      comm.rank() % 2 == 1 ? "left undone: \"odd\"" : "left undone: \"even\""});
}

// More tensors than the cache holds, in changing shapes: what is remembered never misleads.
std::string SmallCaches(Communicator& comm) {
  std::string wrong;
  for (const int64_t entries : {0, 1, 7}) {
    Collectives collectives(comm, {.cache_entries = entries});
    for (size_t step = 0; step < 4; ++step) {
      std::vector<std::vector<float>> values;
      std::vector<CollectiveHandle> handles;
      for (size_t i = 0; i < 12; ++i) {
        values.emplace_back(5 + i + (i % 5 == step ? 3 : 0), 1.0f);
        handles.push_back(
            collectives.AllReduce(std::to_string(i), View(values[i]), {.op = ReduceOp::kSum}));
      }
      for (size_t i = 0; i < 12; ++i) {
        wrong += Join({ExpectOk(handles[i].Wait()), ExpectAll("the sum", values[i], comm.size())});
      }
    }
  }
  return wrong;
}

// Nothing new, nothing said: the second step of the same tensors takes no full cycle.
std::string SteadyStateIsCached(Communicator& comm) {
  Collectives collectives(comm);
  int64_t full = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<std::vector<float>> values(20, std::vector<float>(50, 1.0f));
    std::vector<CollectiveHandle> handles;
    for (size_t i = 0; i < 20; ++i) {
      const size_t k = (i * 7 + static_cast<size_t>(comm.rank() * 3 + step)) % 20;
      handles.push_back(collectives.AllReduce(std::to_string(k), View(values[k])));
    }
    for (const CollectiveHandle& handle : handles) {
      std::string wrong = ExpectOk(handle.Wait());
      if (!wrong.empty()) return wrong;
    }
    if (step == 0) full = collectives.statistics().full_cycles;
  }
  return collectives.statistics().full_cycles == full ? "" : "known tensors were negotiated again";
}

}  // namespace

CollectivesOptions OptionsOfFuzz() {
  return {
      .fusion_bytes = 1 << 14, .cycle_seconds = 1e-4, .cache_entries = 150, .timeout_seconds = 10};
}

std::string FuzzTheQueue(Communicator& comm, int tensors, uint64_t seed,
                         const CollectivesOptions& options) {
  Collectives collectives(comm, options);
  RandomStream common({.seed = seed});  // sizes and values: the same on all ranks
  RandomStream mine({.seed = seed + 1 + static_cast<uint64_t>(comm.rank())});
  constexpr int kBatch = 200;
  for (int first = 0; first < tensors; first += kBatch) {
    std::vector<std::vector<int64_t>> values;
    for (int i = 0; i < kBatch; ++i) {
      const uint32_t bits = common.NextBelow(8);
      values.emplace_back(common.NextBelow(uint32_t{2} << (bits + bits / 4)));
      for (size_t k = 0; k < values.back().size(); ++k) {
        values.back()[k] = static_cast<int64_t>(k) * (comm.rank() + 1) + first + i;
      }
    }
    std::vector<int> order(kBatch);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[mine.NextBelow(static_cast<uint32_t>(i) + 1)]);
    std::vector<CollectiveHandle> handles(kBatch);
    for (const int i : order) {
      if (mine.NextBelow(100) == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(mine.NextBelow(400)));
      }
      // Half of the names come again in every batch, with other sizes.
      const int name = i % 2 == 0 ? i : first + i;
      handles[static_cast<size_t>(i)] = collectives.AllReduce(
          std::to_string(name), View(values[static_cast<size_t>(i)]), {.op = ReduceOp::kSum});
    }
    const int64_t n = comm.size();
    for (int i = 0; i < kBatch; ++i) {
      std::string wrong = ExpectOk(handles[static_cast<size_t>(i)].Wait());
      if (!wrong.empty()) return wrong;
      const std::vector<int64_t>& sums = values[static_cast<size_t>(i)];
      for (size_t k = 0; k < sums.size(); ++k) {
        const int64_t expected = static_cast<int64_t>(k) * n * (n + 1) / 2 + n * (first + i);
        if (sums[k] != expected) return "tensor " + std::to_string(first + i) + " has a wrong sum";
      }
    }
  }
  return collectives.statistics().tensors == tensors ? "" : "not all tensors were reduced";
}

const std::vector<CommunicatorCase>& MovementCases() {
  static const std::vector<CommunicatorCase> cases = {
      {"15: all-gather of even and uneven rows", GatherOfUnevenRows},
      {"16: all-gather of shapes and types that differ", GatherMismatches},
      {"17: broadcast from each root, in and out of place", BroadcastFromEachRoot},
      {"18: broadcast of shapes, types and roots that differ", BroadcastMismatches},
      {"19: all-to-all with splits and without", AllToAllWithSplits},
      {"20: wrong splits", WrongSplits},
      {"21: some send nothing", SomeSendNothing},
      {"33: objects travel", ObjectsTravel},
      {"35: the queue ends and begins again", EndsAndBeginsAgain},
      {"the queue ends with tensors pending", LeavingWithPendingTensors},
      {"small caches", SmallCaches},
      {"the steady state is cached", SteadyStateIsCached},
  };
  return cases;
}

}  // namespace dtrain::testing
