// gradient_reducer_test.cc - sums over ranks as threads, order, buckets, wire types, misuse.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/gradient_reducer.h"

#include <algorithm>
#include <cmath>

#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanks;
using testing::RunRanksOn;

constexpr int64_t kSizes[] = {7, 1000, 0, 40000, 3, 129, 90001, 2048};

std::vector<GradientRange> Parameters() {
  std::vector<GradientRange> ranges;
  int64_t begin = 0;
  for (const int64_t size : kSizes) {
    ranges.push_back({"layer." + std::to_string(ranges.size()), begin, begin + size});
    begin += size;
  }
  return ranges;
}

std::vector<float> Gradients(int rank, int step) {
  std::vector<float> values(static_cast<size_t>(Parameters().back().end));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 0.37f + static_cast<float>(rank * 5 + step));
  }
  return values;
}

GradientReducerOptions SmallBuckets(DType wire_type = DType::kFloat32) {
  return {.bucket_bytes = 100000, .first_bucket_bytes = 5000, .wire_type = wire_type};
}

// The gradients of one rank after two reduced steps; ranks mark in different orders.
std::vector<float> TwoSteps(Communicator& comm, DType wire_type) {
  std::vector<float> flat = Gradients(comm.rank(), 0);
  GradientReducer reducer(Tensor::View(flat.data(), {static_cast<int64_t>(flat.size())}),
                          Parameters(), comm, SmallBuckets(wire_type));
  for (int step = 0; step < 2; ++step) {
    std::ranges::copy(Gradients(comm.rank(), step), flat.begin());
    const int count = static_cast<int>(std::size(kSizes));
    for (int i = 0; i < count; ++i) {
      reducer.MarkReady(comm.rank() % 2 == 0 ? i : count - 1 - i);
      reducer.Poll();
    }
    double scalars[] = {1.0, static_cast<double>(comm.rank())};
    reducer.ReduceScalars(scalars);
    const int ranks_sum = comm.size() * (comm.size() - 1) / 2;
    if (scalars[0] != comm.size() || scalars[1] != ranks_sum) return {};
    reducer.Finish();
  }
  return flat;
}

void CheckSums(const std::vector<std::vector<float>>& by_rank, double tolerance) {
  const int size = static_cast<int>(by_rank.size());
  double worst = 0;
  for (size_t i = 0; i < by_rank[0].size(); ++i) {
    double expected = 0;
    for (int r = 0; r < size; ++r) {
      expected += static_cast<double>(
          std::sin(static_cast<float>(i) * 0.37f + static_cast<float>(r * 5 + 1)));
    }
    worst = std::max(worst, std::abs(static_cast<double>(by_rank[0][i]) - expected));
  }
  CHECK(!by_rank[0].empty());
  CHECK(worst <= tolerance);
  for (const auto& values : by_rank) CHECK(values == by_rank[0]);
}

TEST_CASE("every rank gets the sum of all gradients, in any order of marks") {
  for (const int size : {1, 2, 3, 4}) {
    INFO(size << " ranks");
    CheckSums(RunRanks(size, [](Communicator& comm) { return TwoSteps(comm, DType::kFloat32); }),
              1e-6);
  }
}

TEST_CASE("on two hosts of two ranks all get the same bits") {
  CheckSums(RunRanksOn({"a", "a", "b", "b"},
                       [](Communicator& comm) { return TwoSteps(comm, DType::kFloat32); }),
            1e-6);
}

TEST_CASE("a parameter of several pieces is summed whole on two hosts") {
  constexpr int64_t kElements = (3 << 19) + 7;
  for (const DType wire_type : {DType::kFloat32, DType::kBFloat16}) {
    INFO(Name(wire_type));
    const auto results = RunRanksOn({"a", "a", "b", "b"}, [&](Communicator& comm) {
      std::vector<float> flat(kElements);
      // Few bits, so that all sums are exact in both types.
      for (size_t i = 0; i < flat.size(); ++i) {
        flat[i] = static_cast<float>(i % 31) + static_cast<float>(comm.rank());
      }
      GradientReducer reducer(Tensor::View(flat.data(), {kElements}), {{"table", 0, kElements}},
                              comm, SmallBuckets(wire_type));
      for (int step = 0; step < 2; ++step) {
        reducer.MarkReady(0);
        reducer.Finish();
        if (step == 0) {
          for (float& value : flat) value /= 4.0f;
        }
      }
      return flat;
    });
    for (const auto& flat : results) {
      CHECK(flat == results[0]);
      int wrong = 0;
      // Means over the ranks, of which the second step sums four alike.
      for (size_t i = 0; i < flat.size(); ++i) {
        const float expected = 4.0f * (static_cast<float>(i % 31) + 1.5f);
        if (flat[i] != expected) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("bfloat16 on the wire rounds each gradient once and the sum once") {
  for (const int size : {2, 4}) {
    // |gradient| <= 1 and |sum| <= size: size roundings of 2^-9 and one of size * 2^-9.
    CheckSums(RunRanks(size, [](Communicator& comm) { return TwoSteps(comm, DType::kBFloat16); }),
              2.0 * size / 512);
  }
}

TEST_CASE("float16 on the wire rounds finer, and sums beyond its range survive") {
  for (const int size : {2, 3, 4}) {
    // As above, with 2^-12 of half a unit, and of the sum once.
    CheckSums(RunRanks(size, [](Communicator& comm) { return TwoSteps(comm, DType::kFloat16); }),
              2.0 * size / 4096 + 1e-6);
  }
  const auto sums = RunRanks(4, [](Communicator& comm) {
    std::vector<float> large(100, 60000.0f);
    GradientReducer reducer(Tensor::View(large.data(), {100}), {{"w", 0, 100}}, comm,
                            {.wire_type = DType::kFloat16});
    reducer.MarkReady(0);
    reducer.Finish();
    return large[99];
  });
  for (const float sum : sums) CHECK(std::abs(sum - 240000.0f) <= 240.0f);
}

// The sums of one step; scattered ones are put together from the ranks' slices.
std::vector<float> OneStep(Communicator& comm, GradientReducerOptions options) {
  std::vector<float> flat = Gradients(comm.rank(), 0);
  GradientReducer reducer(Tensor::View(flat.data(), {static_cast<int64_t>(flat.size())}),
                          Parameters(), comm, options);
  for (int i = 0; i < static_cast<int>(std::size(kSizes)); ++i) reducer.MarkReady(i);
  reducer.Finish();
  if (options.scatter_block == 0) return flat;
  std::vector<float> mine(flat.size(), 0.0f);
  for (int bucket = 0; bucket < reducer.num_buckets(); ++bucket) {
    const std::vector<int64_t> slices = reducer.SliceOffsets(bucket);
    const auto rank = static_cast<size_t>(comm.rank());
    std::copy(flat.begin() + slices[rank], flat.begin() + slices[rank + 1],
              mine.begin() + slices[rank]);
    if (slices[rank] % options.scatter_block != 0 && slices[rank] < slices[rank + 1]) return {};
  }
  comm.AllReduce(std::span(mine), ReduceOp::kSum);
  return mine;
}

void CheckScattered(const std::vector<std::string>& hosts, DType wire_type) {
  const auto whole =
      RunRanksOn(hosts, [&](Communicator& comm) { return OneStep(comm, SmallBuckets(wire_type)); });
  for (const int64_t block : {1, 64, 4096, 1 << 20}) {
    INFO(hosts.size() << " ranks, blocks of " << block << " in " << Name(wire_type));
    const auto slices = RunRanksOn(hosts, [&](Communicator& comm) {
      GradientReducerOptions options = SmallBuckets(wire_type);
      options.scatter_block = block;
      return OneStep(comm, options);
    });
    for (const std::vector<float>& sums : slices) CHECK(sums == whole[0]);
  }
}

TEST_CASE("scattered sums have the bits of an allreduce") {
  for (const int size : {2, 3, 4}) {
    for (const DType wire_type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      CheckScattered(testing::OneHost(size), wire_type);
    }
  }
  CheckScattered({"a", "a", "b", "b"}, DType::kFloat32);
}

TEST_CASE("buckets are cut where parameters end, the first one small") {
  SelfCommunicator self;
  std::vector<float> flat(static_cast<size_t>(Parameters().back().end));
  const GradientReducer reducer(Tensor::View(flat.data(), {static_cast<int64_t>(flat.size())}),
                                Parameters(), self, SmallBuckets());
  // Up to 1250 floats first, then up to 25000; larger parameters alone.
  std::vector<int64_t> begins;
  for (int b = 0; b <= reducer.num_buckets(); ++b) begins.push_back(reducer.bucket_begin(b));
  CHECK(begins == std::vector<int64_t>{0, 1007, 41007, 41139, 131140, 133188});
}

TEST_CASE("a forgotten gradient is named, and so is one marked twice") {
  SelfCommunicator self;
  std::vector<float> flat(static_cast<size_t>(Parameters().back().end));
  GradientReducer reducer(Tensor::View(flat.data(), {static_cast<int64_t>(flat.size())}),
                          Parameters(), self);
  for (int i = 0; i < 8; ++i) {
    if (i != 3 && i != 6) reducer.MarkReady(i);
  }
  CHECK_THROWS_WITH(reducer.MarkReady(2),
                    Catch::Contains("layer.2 was marked ready twice in one step"));
  CHECK_THROWS_WITH(reducer.Finish(), Catch::Contains("not marked ready: layer.3, layer.6"));
}

TEST_CASE("ranges with gaps and other wire types are refused") {
  SelfCommunicator self;
  float values[10] = {};
  const Tensor flat = Tensor::View(values, {10});
  CHECK_THROWS_WITH(GradientReducer(flat, {{"a", 0, 4}, {"b", 5, 10}}, self),
                    Catch::Contains("b does not begin where the one before ends"));
  CHECK_THROWS_WITH(GradientReducer(flat, {{"a", 0, 4}}, self), Catch::Contains("do not cover"));
  CHECK_THROWS_WITH(GradientReducer(flat, {{"a", 0, 10}}, self, {.power_sgd = {.rank = -2}}),
                    Catch::Contains("power_sgd.rank"));
  CHECK_THROWS_WITH(
      GradientReducer(flat, {{"a", 0, 10}}, self, {.scatter_block = 2, .power_sgd = {.rank = 1}}),
      Catch::Contains("whole on every rank"));
  CHECK_THROWS_WITH(GradientReducer(flat, {{"a", 0, 10}}, self, {.wire_type = DType::kInt32}),
                    Catch::Contains("not as int32"));
}

TEST_CASE("a model without parameters has nothing to reduce") {
  RunRanks(2, [](Communicator& comm) {
    float none = 0;
    GradientReducer reducer(Tensor::View(&none, {0}), {}, comm);
    reducer.Finish();
  });
  SUCCEED();
}

TEST_CASE("statistics count steps and bytes on the wire") {
  const auto bytes = RunRanks(2, [](Communicator& comm) {
    std::vector<float> flat(3000);
    GradientReducer reducer(Tensor::View(flat.data(), {3000}), {{"w", 0, 3000}}, comm,
                            {.wire_type = DType::kBFloat16});
    for (int step = 0; step < 3; ++step) {
      reducer.MarkReady(0);
      reducer.Finish();
    }
    return reducer.statistics().steps == 3 ? reducer.statistics().bytes : -1;
  });
  CHECK(bytes == std::vector<int64_t>{18000, 18000});
}

TEST_CASE("a model's parameters make the buckets, gaps between them included") {
  ParameterSet parameters;
  const Scope scope(parameters, "model");
  // Odd sizes: the arena pads between them.
  scope.Add("first", {3}, Initializer::Constant(0.0f));
  scope.Add("second", {5, 7}, Initializer::Constant(0.0f));
  parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
  SelfCommunicator comm;
  GradientReducer reducer(parameters, comm, {.first_bucket_bytes = 1});
  CHECK(reducer.num_buckets() == 2);
  CHECK(reducer.bucket_begin(1) == parameters.Find("model.first")->offset());
  CHECK(reducer.bucket_begin(2) == parameters.size());
  for (const Parameter* parameter : parameters.in_backward_order()) {
    reducer.MarkReady(parameter->index());
  }
  reducer.Finish();
}

TEST_CASE("a model whose parameters have no memory yet is refused") {
  ParameterSet parameters;
  Scope(parameters, "model").Add("weight", {3}, Initializer::Constant(0.0f));
  SelfCommunicator comm;
  CHECK_THROWS_WITH(GradientReducer(parameters, comm), Catch::Contains("Allocate() comes first"));
}

TEST_CASE("a reducer that listens marks what backward completes, as long as it lives") {
  ParameterSet parameters;
  const Scope scope(parameters, "model");
  Parameter& first = scope.Add("first", {3}, Initializer::Constant(0.0f));
  Parameter& second = scope.Add("second", {5, 7}, Initializer::Constant(0.0f));
  parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
  SelfCommunicator comm;
  {
    GradientReducer reducer(parameters, comm);
    reducer.Listen();
    second.GradientReady();
    CHECK_THROWS_WITH(reducer.Finish(), Catch::Contains("model.first"));
    first.GradientReady();
    reducer.Finish();
    reducer.StopListening();
    second.GradientReady();  // of an earlier micro-batch of the next step
    reducer.Listen();
    second.GradientReady();
    first.GradientReady();
    reducer.Finish();
  }
  second.GradientReady();  // nobody listens any more
  Tensor flat = parameters.gradients();
  GradientReducer of_tensor(flat, {{"all", 0, flat.elements()}}, comm);
  CHECK_THROWS_WITH(of_tensor.Listen(), Catch::Contains("flat tensor"));
}

}  // namespace
}  // namespace dtrain
