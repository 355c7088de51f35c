// collectives_reductions.cc - named reductions: values, mismatches, groups, barriers, joins.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <thread>

#include "comm/collectives_suite.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain::testing {
namespace {

int SumOfRanks(const Communicator& comm) { return comm.size() * (comm.size() - 1) / 2; }

template <typename T>
std::string EqualData(Collectives& collectives, const Shape& shape) {
  const auto count = static_cast<size_t>(shape.elements());
  const int n = collectives.size();
  std::vector<T> input(count, static_cast<T>(3.0f));
  std::vector<T> output(count);
  const ReduceOptions sum{.op = ReduceOp::kSum};
  Status status = collectives.AllReduce("x", View(input, shape), View(output, shape), sum).Wait();
  std::string wrong = Join(
      {ExpectOk(status), ExpectAll("the input", input, 3), ExpectAll("the sum", output, 3 * n)});
  const CollectiveHandle in_place = collectives.AllReduce("y", View(input, shape), sum);
  wrong += Join({ExpectOk(in_place.Wait()), ExpectAll("the sum in place", input, 3 * n)});
  if (in_place.output().raw() != input.data()) wrong += "the result lies elsewhere";
  return wrong;
}

std::string SumsOfEqualData(Communicator& comm) {
  Collectives collectives(comm);
  std::string wrong;
  for (const Shape& shape : {Shape{17}, Shape{17, 9}, Shape{17, 9, 5}}) {
    wrong +=
        Join({EqualData<float>(collectives, shape),
              EqualData<double>(collectives, shape) + EqualData<BFloat16>(collectives, shape),
              EqualData<Float16>(collectives, shape) + EqualData<int32_t>(collectives, shape),
              EqualData<int64_t>(collectives, shape) + EqualData<uint8_t>(collectives, shape)});
  }
  return wrong;
}

template <typename T>
std::string AverageOfType(Collectives& collectives) {
  std::vector<T> values(1000, static_cast<T>(0.75f));
  return Join({ExpectOk(collectives.AllReduce("x", View(values)).Wait()),
               ExpectAll("the average", values, 0.75)});
}

std::string AveragesOfEqualData(Communicator& comm) {
  Collectives collectives(comm);
  return Join({AverageOfType<float>(collectives),
               AverageOfType<double>(collectives) + AverageOfType<BFloat16>(collectives),
               AverageOfType<Float16>(collectives)});
}

std::string MinimumMaximumProduct(Communicator& comm) {
  Collectives collectives(comm);
  const int n = comm.size();
  double factorial = 1;
  for (int r = 1; r <= n; ++r) factorial *= r;
  std::string wrong;
  const auto check = [&](ReduceOp op, double expected) {
    std::vector<int32_t> whole(50, comm.rank() + 1);
    std::vector<float> real(50, static_cast<float>(comm.rank() + 1));
    const auto a = collectives.AllReduce("whole", View(whole), {.op = op});
    const auto b = collectives.AllReduce("real", View(real), {.op = op});
    wrong += Join(
        {ExpectOk(a.Wait()), ExpectOk(b.Wait()),
         ExpectAll(Name(op).data(), whole, expected) + ExpectAll(Name(op).data(), real, expected)});
  };
  check(ReduceOp::kMin, 1);
  check(ReduceOp::kMax, n);
  check(ReduceOp::kProduct, factorial);
  return wrong;
}

std::string ManyInAnyOrder(Communicator& comm) {
  Collectives collectives(comm);
  constexpr size_t kTensors = 100;
  for (int step = 0; step < 3; ++step) {
    std::vector<std::vector<float>> values;
    std::vector<CollectiveHandle> handles(kTensors);
    for (size_t i = 0; i < kTensors; ++i) {
      values.emplace_back(10 * i, static_cast<float>(comm.rank()) + static_cast<float>(i));
    }
    bool waited = false;
    for (size_t k = 0; k < kTensors; ++k) {
      // Odd ranks the other way round.
      const size_t i = comm.rank() % 2 == 0 ? k : kTensors - 1 - k;
      handles[i] = collectives.AllReduce("tensor " + std::to_string(i), View(values[i]),
                                         {.op = ReduceOp::kSum});
      waited = waited || !handles[i].Poll();
    }
    if (!waited) return "no handle was ever pending";
    for (size_t k = 0; k < kTensors; ++k) {
      const size_t i = k * 37 % kTensors;
      const double expected = SumOfRanks(comm) + comm.size() * static_cast<double>(i);
      std::string wrong =
          Join({ExpectOk(handles[i].Wait()), ExpectAll("the sum", values[i], expected)});
      if (!wrong.empty()) return wrong;
    }
  }
  const Collectives::Statistics statistics = collectives.statistics();
  if (statistics.tensors != 3 * kTensors) return "tensors were reduced twice or not at all";
  return statistics.reductions < statistics.tensors ? "" : "no tensors travelled together";
}

std::string ScaleFactors(Communicator& comm) {
  Collectives collectives(comm);
  std::vector<float> real(7, static_cast<float>(comm.rank() + 1));
  std::vector<int32_t> whole(7, 10 * (comm.rank() + 1) + 1);
  std::vector<int32_t> after(7, comm.rank());
  int truncated = 0;
  for (int r = 0; r < comm.size(); ++r) truncated += (10 * (r + 1) + 1) / 2;
  std::string wrong = ExpectOk(
      collectives
          .AllReduce("a", View(real), {.op = ReduceOp::kSum, .prescale = 0.5, .postscale = 4})
          .Wait());
  wrong += ExpectAll("scaled", real, 2 * (SumOfRanks(comm) + comm.size()));
  wrong += ExpectOk(
      collectives.AllReduce("b", View(whole), {.op = ReduceOp::kSum, .prescale = 0.5}).Wait());
  wrong += ExpectAll("prescaled integers", whole, truncated);
  wrong += ExpectOk(
      collectives.AllReduce("c", View(after), {.op = ReduceOp::kSum, .postscale = 0.3}).Wait());
  return Join({wrong, ExpectAll("postscaled integers", after, std::trunc(SumOfRanks(comm) * 0.3))});
}

// Every rank gets the error; afterwards the same name works again.
std::string Mismatch(Collectives& collectives, const Tensor& tensor, const ReduceOptions& options,
                     const std::vector<std::string>& parts) {
  const Status status = collectives.AllReduce("clash", tensor, options).Wait();
  if (collectives.size() == 1) return ExpectOk(status);
  std::vector<std::string> all = {"all-reduce \"clash\"", "on rank 0", "on rank 1"};
  all.insert(all.end(), parts.begin(), parts.end());
  std::string wrong = ExpectError(status, ExitCode::kCommunication, all);
  std::vector<float> good(5, 1.0f);
  wrong += ExpectOk(collectives.AllReduce("clash", View(good), {.op = ReduceOp::kSum}).Wait());
  return Join({wrong, ExpectAll("after the clash", good, collectives.size())});
}

std::string MismatchesAreErrorsEverywhere(Communicator& comm) {
  Collectives collectives(comm);
  const bool odd = comm.rank() % 2 == 1;
  std::vector<float> data(23 * 57 * 20);
  std::vector<int32_t> whole(17 * 17);
  const ReduceOptions sum{.op = ReduceOp::kSum};
  const int64_t extent = 17 + comm.rank();
  std::string wrong =
      Mismatch(collectives, View(data, {extent, 3}), sum, {"the shapes", "[17, 3]", "[18, 3]"});
  wrong += Mismatch(collectives, odd ? View(data, {17, 23 * 57}) : View(data, {17, 23, 57}), sum,
                    {"the shapes", "[17, 23, 57]", "[17, 1311]"});
  wrong += Mismatch(collectives, odd ? View(data, {17, 17}) : View(whole, {17, 17}), sum,
                    {"the types", "float32", "int32"});
  wrong += Mismatch(collectives, View(data, {9}), {.op = odd ? ReduceOp::kMin : ReduceOp::kMax},
                    {"the reductions", "min", "max"});
  wrong +=
      Mismatch(collectives, View(data, {9}), {.op = ReduceOp::kSum, .prescale = odd ? 2.0 : 1.0},
               {"the reductions", "prescale 2"});
  return wrong;
}

std::string OtherCollectivesAndDevicesClash(Communicator& comm) {
  Collectives collectives(comm);
  const bool odd = comm.rank() % 2 == 1;
  std::vector<float> data(8, 1.0f);
  const auto handle = odd ? collectives.Broadcast("kind", View(data))
                          : collectives.AllReduce("kind", View(data), {.op = ReduceOp::kSum});
  std::string wrong;
  if (comm.size() > 1) {
    wrong += ExpectError(handle.Wait(), ExitCode::kCommunication,
                         {"the collectives", "all-reduce", "broadcast"});
  }
  static_cast<void>(handle.Wait());
  const Tensor on_gpu(data.data(), {8}, DType::kFloat32, {DeviceType::kCuda, 0});
  const Tensor group[] = {View(data), odd ? on_gpu : View(data)};
  const Status mixed = collectives.GroupedAllReduce("mixed", group).Wait();
  if (comm.size() == 1) return Join({wrong, ExpectOk(mixed)});
  // A build without CUDA refuses it where it is submitted.
  return Join({wrong, kWithCuda ? ExpectError(mixed, ExitCode::kCommunication,
                                              {"\"mixed\"", "the devices of tensor 1"})
                                : ExpectError(mixed, ExitCode::kUsage,
                                              {"\"mixed\" on rank 1", "lies on a GPU"})});
}

std::string DuplicateNameIsRefused(Communicator& comm) {
  Collectives collectives(comm);
  std::vector<float> first(100, 1.0f);
  std::vector<float> second(100, 5.0f);
  // Kept in flight by rank 0, which comes last.
  if (comm.is_root()) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto handle = collectives.AllReduce("same", View(first), {.op = ReduceOp::kSum});
  std::string wrong;
  if (comm.size() > 1 && !comm.is_root()) {
    wrong += ExpectError(collectives.AllReduce("same", View(second)).Wait(), ExitCode::kUsage,
                         {"\"same\" is in flight already"});
  }
  return Join({wrong, ExpectOk(handle.Wait()),
               ExpectAll("the first", first, comm.size()) + ExpectAll("the second", second, 5)});
}

std::string GroupsOfTensors(Communicator& comm) {
  Collectives collectives(comm);
  std::string wrong;
  for (int step = 0; step < 2; ++step) {
    std::vector<std::vector<float>> real(5);
    std::vector<int64_t> whole(33, comm.rank());
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < 5; ++i) {
      real[i].assign(10 * i + 1, static_cast<float>(comm.rank()) + static_cast<float>(i));
      tensors.push_back(View(real[i]));
    }
    const auto average = collectives.GroupedAllReduce("five", tensors);
    const Tensor mixed[] = {View(whole)};
    const auto sum = collectives.GroupedAllReduce("one", mixed, {.op = ReduceOp::kSum});
    wrong += Join({ExpectOk(sum.Wait()), ExpectOk(average.Wait())});
    for (size_t i = 0; i < 5; ++i) {
      wrong += ExpectAll("the average", real[i], (comm.size() - 1) / 2.0 + static_cast<double>(i));
    }
    wrong += ExpectAll("the sum", whole, SumOfRanks(comm));
  }
  return wrong;
}

std::string GroupsOfRanks(Communicator& comm) {
  const auto half = comm.Split(comm.rank() % 2);
  Collectives all(comm);
  Collectives mine(*half);
  std::vector<float> in_half(1000, static_cast<float>(comm.rank()));
  std::vector<float> in_all = in_half;
  const ReduceOptions sum{.op = ReduceOp::kSum};
  const auto a = mine.AllReduce("x", View(in_half), sum);
  const auto b = all.AllReduce("x", View(in_all), sum);
  int expected = 0;
  for (int r = comm.rank() % 2; r < comm.size(); r += 2) expected += r;
  return Join(
      {ExpectOk(a.Wait()), ExpectOk(b.Wait()),
       ExpectAll("the half", in_half, expected) + ExpectAll("all", in_all, SumOfRanks(comm))});
}

std::string ReduceScatterOfUnevenRows(Communicator& comm) {
  Collectives collectives(comm);
  const int n = comm.size();
  const int64_t rows = 2 * n + n / 2;
  std::vector<float> data(static_cast<size_t>(rows * 3));
  for (size_t i = 0; i < data.size(); ++i) {
    const size_t row = i / 3;
    data[i] = static_cast<float>(row);
  }
  const auto handle = collectives.ReduceScatter("x", View(data, {rows, 3}), {.op = ReduceOp::kSum});
  std::string wrong = ExpectOk(handle.Wait());
  if (!wrong.empty()) return wrong;
  const int64_t mine = 2 + (comm.rank() < n / 2 ? 1 : 0);
  if (handle.output().shape() != Shape{mine, 3}) return "the shape of the output";
  int64_t first = 0;
  for (int r = 0; r < comm.rank(); ++r) first += handle.rows()[static_cast<size_t>(r)];
  for (int64_t i = 0; i < mine * 3; ++i) {
    const int64_t row = first + i / 3;
    if (handle.output().data<float>()[i] != static_cast<float>(row * n)) return "values";
  }
  const Tensor scalar(data.data(), Shape{}, DType::kFloat32);
  return Join(
      {wrong, ExpectError(collectives.ReduceScatter("scalar", scalar).Wait(), ExitCode::kUsage,
                          {"reduce-scatter \"scalar\" on rank 0", "a scalar has no rows"})});
}

std::string BarriersWait(Communicator& comm) {
  using Clock = std::chrono::steady_clock;  // one for all processes of a machine
  const auto half = comm.Split(comm.rank() % 2);
  Collectives collectives(comm);
  Collectives mine(*half);
  std::string wrong = ExpectOk(collectives.Barrier());
  std::vector<float> values(300, 1.0f);
  const auto pending = collectives.AllReduce("pending", View(values), {.op = ReduceOp::kSum});
  // Rank 0 comes when the odd ranks have met in their own barrier: that one does not wait for it.
  if (comm.rank() % 2 == 1) wrong += ExpectOk(mine.Barrier());
  if (comm.size() > 1) {
    uint8_t token = 0;
    comm.Broadcast(&token, 1, /*root=*/1);
  }
  if (comm.is_root()) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  int64_t entered = Clock::now().time_since_epoch().count();
  wrong += ExpectOk(collectives.Barrier());
  const int64_t left = Clock::now().time_since_epoch().count();
  comm.Broadcast(&entered, sizeof(entered), 0);
  if (left < entered) wrong += "this rank left the barrier before rank 0 had entered it";
  return Join({wrong, ExpectOk(pending.Wait()), ExpectAll("the sum", values, comm.size())});
}

std::string BarriersOfThreadsMeetInTheirOrder(Communicator& comm) {
  Collectives collectives(comm, {.timeout_seconds = 10});
  // Rank 0's overlap, the others' come one by one.
  const int overlapping = comm.is_root() ? 3 : 1;
  std::vector<std::string> wrong(3);
  for (int first = 0; first < 3; first += overlapping) {
    std::vector<std::thread> threads;
    for (int i = first; i < first + overlapping; ++i) {
      threads.emplace_back([&, i] { wrong[i] = ExpectOk(collectives.Barrier()); });
    }
    if (comm.is_root()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (first == 0) comm.Barrier();
    for (std::thread& thread : threads) thread.join();
    if (!comm.is_root()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return Join({wrong[0], wrong[1], wrong[2]});
}

std::string JoinedRanksAddNothing(Communicator& comm) {
  Collectives collectives(comm);
  const int n = comm.size();
  std::vector<float> warm(20, 1.0f);
  std::string wrong = ExpectOk(collectives.AllReduce("cached", View(warm)).Wait());
  std::vector<int> last_of_all;
  for (int early = 0; early < n; ++early) {
    std::vector<float> cached(20, 4.0f);
    std::vector<float> fresh(30, 4.0f);
    std::vector<float> smallest(5, static_cast<float>(comm.rank()));
    if (comm.rank() != early) {
      const auto a = collectives.AllReduce("cached", View(cached));
      const auto b = collectives.AllReduce("fresh " + std::to_string(early), View(fresh));
      const auto c = collectives.AllReduce("min", View(smallest), {.op = ReduceOp::kMin});
      wrong += Join({ExpectOk(a.Wait()), ExpectOk(b.Wait()), ExpectOk(c.Wait())});
      const double expected = 4.0 * (n - 1) / n;
      wrong += ExpectAll("the cached average", cached,
                         static_cast<double>(static_cast<float>(expected)));
      wrong +=
          ExpectAll("the fresh average", fresh, static_cast<double>(static_cast<float>(expected)));
      wrong += ExpectAll("the minimum", smallest, early == 0 ? 1 : 0);
    }
    const StatusOr<int> last = collectives.Join();
    if (!last.ok()) return wrong + std::string(last.status().message());
    if (n > 1 && *last == early) wrong += "the early rank was the last to join";
    last_of_all.push_back(*last);
  }
  for (const int last : last_of_all) {
    if (comm.AllReduceValue(last, ReduceOp::kMin) != comm.AllReduceValue(last, ReduceOp::kMax)) {
      wrong += "ranks disagree on who joined last";
    }
  }
  return wrong;
}

std::string JoinRefusesOtherCollectives(Communicator& comm) {
  if (comm.size() == 1) return "";
  Collectives collectives(comm);
  std::vector<float> data(10);
  std::string wrong = ExpectOk(collectives.Broadcast("known", View(data)).Wait());
  if (comm.rank() != 1) {
    const std::vector<std::string> parts = {"rank 1 has joined"};
    wrong += ExpectError(collectives.AllGather("gather", View(data)).Wait(),
                         ExitCode::kCommunication, parts);
    wrong += ExpectError(collectives.Broadcast("known", View(data)).Wait(),
                         ExitCode::kCommunication, parts);
    wrong += ExpectError(collectives.Broadcast("new", View(data)).Wait(), ExitCode::kCommunication,
                         parts);
  }
  return Join({wrong, ExpectOk(collectives.Join().status())});
}

std::string IntegersHaveNoAverage(Communicator& comm) {
  Collectives collectives(comm);
  std::vector<int32_t> whole(3);
  std::vector<float> real(3);
  return ExpectError(collectives.AllReduce("whole", View(whole)).Wait(), ExitCode::kUsage,
                     {"all-reduce \"whole\" on rank 0", "an average needs a floating type"}) +
         ExpectError(collectives.AllReduce("real", View(real), {.op = ReduceOp::kBitAnd}).Wait(),
                     ExitCode::kUsage, {"a bitwise and needs integers"});
}

}  // namespace

std::string ExpectError(const Status& status, ExitCode code,
                        const std::vector<std::string>& parts) {
  const std::string message(status.message());
  if (status.ok()) return "no error";
  if (status.code() != code) return "another exit code: " + message;
  for (const std::string& part : parts) {
    if (message.find(part) == std::string::npos) return "no \"" + part + "\" in: " + message;
  }
  return "";
}

const std::vector<CommunicatorCase>& ReductionCases() {
  static const std::vector<CommunicatorCase> cases = {
      {"1, 4: sums of equal data, in and out of place", SumsOfEqualData},
      {"2: averages of equal data", AveragesOfEqualData},
      {"3: minimum, maximum, product", MinimumMaximumProduct},
      {"5: many tensors, submitted and awaited in any order", ManyInAnyOrder},
      {"6: scale factors before and after", ScaleFactors},
      {"7, 8, 9: shapes, types and reductions that differ", MismatchesAreErrorsEverywhere},
      {"10, 13: other collectives and devices under one name", OtherCollectivesAndDevicesClash},
      {"11: a name in flight is refused", DuplicateNameIsRefused},
      {"12: tensors reduced as a group", GroupsOfTensors},
      {"14: groups of ranks", GroupsOfRanks},
      {"22: reduce-scatter of uneven rows", ReduceScatterOfUnevenRows},
      {"23, 24: barriers", BarriersWait},
      {"barriers of several threads", BarriersOfThreadsMeetInTheirOrder},
      {"25: ranks that joined add nothing", JoinedRanksAddNothing},
      {"26: other collectives fail beside joined ranks", JoinRefusesOtherCollectives},
      {"integers have no average", IntegersHaveNoAverage},
  };
  return cases;
}

}  // namespace dtrain::testing
