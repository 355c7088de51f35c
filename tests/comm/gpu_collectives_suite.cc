// gpu_collectives_suite.cc - whole numbers, whose sums are exact in every type.
// SPDX-License-Identifier: Apache-2.0
#include "comm/gpu_collectives_suite.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "comm/collectives_suite.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/distributed_gradients.h"

namespace dtrain {
namespace {

template <typename T>
T As(double value) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(value);
  return T(static_cast<float>(value));
}

template <typename T>
double AsDouble(T value) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(value);
  return static_cast<double>(static_cast<float>(value));
}

double ValueOf(int64_t i, int rank) { return static_cast<double>((i * 7 + rank * 3) % 5 + 1); }

class Suite {
 public:
  Suite(Communicator& comm, const Device& device)
      : comm_(comm), compute_(device), collectives_(comm, {.gpu_stream = &compute_}) {}

  std::vector<std::string> Run() {
    Reductions<float>("float32");
    Reductions<Float16>("float16");
    Reductions<BFloat16>("bfloat16");
    Reductions<double>("float64");
    Reductions<int32_t>("int32");
    Reductions<int64_t>("int64");
    Reductions<uint8_t>("uint8");
    ExtremesOfNaN<float>();
    ExtremesOfNaN<BFloat16>();
    ManyInAnyOrder();
    Factors();
    Groups();
    Movements();
    Joined();
    Clashes();
    Gradients();
    return errors_;
  }

 private:
  using Expected = std::function<double(int64_t)>;

  void Expect(const std::string& what, const Status& status) {
    if (!status.ok()) errors_.push_back(what + ": " + std::string(status.message()));
  }

  // On the GPU, where the stream of the computation has yet to put the values.
  template <typename T>
  Tensor Computed(int64_t count, const Expected& value) {
    std::vector<T> host;
    for (int64_t i = 0; i < count; ++i) host.push_back(As<T>(value(i)));
    Tensor tensor = NewTensor({count}, kDTypeOf<T>, compute_.device());
    CopyToDevice(tensor.raw(), host.data(), tensor.bytes(), compute_);
    return tensor;
  }
  template <typename T>
  Tensor OfThisRank(int64_t count) {
    return Computed<T>(count, [&](int64_t i) { return ValueOf(i, comm_.rank()); });
  }

  template <typename T>
  void ExpectValues(const std::string& what, const Tensor& tensor, const Expected& expected) {
    if (tensor.device().type != DeviceType::kCuda) return errors_.push_back(what + ": on the host");
    std::vector<T> host(static_cast<size_t>(tensor.elements()));
    Stream stream(tensor.device());
    CopyToHost(host.data(), tensor.raw(), tensor.bytes(), stream);
    for (size_t i = 0; i < host.size(); ++i) {
      const double wanted = AsDouble(As<T>(expected(static_cast<int64_t>(i))));
      const double found = AsDouble(host[i]);
      // Averages are rounded by each library in its own way.
      const double room = sizeof(T) == 2 ? 0.01 : 1e-6;
      if (std::isnan(wanted) && std::isnan(found)) continue;
      if (std::abs(found - wanted) <= room * std::abs(wanted)) continue;
      return errors_.push_back(what + " [" + std::to_string(i) + "] is " + std::to_string(found) +
                               ", not " + std::to_string(wanted));
    }
  }

  double Reduced(ReduceOp op, int64_t i) const {
    double result = ValueOf(i, 0);
    for (int r = 1; r < comm_.size(); ++r) {
      const double value = ValueOf(i, r);
      if (op == ReduceOp::kMin) result = std::min(result, value);
      if (op == ReduceOp::kMax) result = std::max(result, value);
      if (op == ReduceOp::kProduct) result *= value;
      if (op == ReduceOp::kBitAnd) result = static_cast<int>(result) & static_cast<int>(value);
      if (op == ReduceOp::kSum || op == ReduceOp::kAverage) result += value;
    }
    return op == ReduceOp::kAverage ? result / comm_.size() : result;
  }

  template <typename T>
  void Reductions(const std::string& type) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                              ReduceOp::kProduct, ReduceOp::kBitAnd}) {
      if (std::is_integral_v<T> ? op == ReduceOp::kAverage : op == ReduceOp::kBitAnd) continue;
      const std::string name = std::string(dtrain::Name(op)) + " of " + type;
      const auto expected = [&](int64_t i) { return Reduced(op, i); };
      for (const int64_t count : {0, 1, 20011}) {
        const Tensor input = OfThisRank<T>(count);
        const Tensor output = NewTensor({count}, kDTypeOf<T>, compute_.device());
        const auto apart = collectives_.AllReduce(name + " apart", input, output, {.op = op});
        Expect(name, apart.Wait());
        ExpectValues<T>(name, output, expected);
        ExpectValues<T>(name + ", input", input,
                        [&](int64_t i) { return ValueOf(i, comm_.rank()); });
        const auto in_place = collectives_.AllReduce(name, input, {.op = op});
        Expect(name, in_place.Wait());
        ExpectValues<T>(name + " in place", input, expected);
      }
    }
  }

  // A NaN of the first rank and one of the last, beside numbers of the others.
  template <typename T>
  void ExtremesOfNaN() {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      const Tensor values = Computed<T>(9, [&](int64_t i) {
        const bool is_nan =
            (i == 4 && comm_.rank() == 0) || (i == 6 && comm_.rank() + 1 == comm_.size());
        return is_nan ? nan : 3.0;
      });
      Expect("extremes", collectives_.AllReduce("extremes", values, {.op = op}).Wait());
      ExpectValues<T>("extremes", values, [&](int64_t i) { return i == 4 || i == 6 ? nan : 3.0; });
    }
  }

  void ManyInAnyOrder() {
    constexpr int kTensors = 24;
    for (int step = 0; step < 3; ++step) {
      std::vector<Tensor> tensors(kTensors);
      std::vector<CollectiveHandle> handles(kTensors);
      for (int k = 0; k < kTensors; ++k) {
        const int i = (k * 7 + comm_.rank() * 5) % kTensors;
        const auto place = static_cast<size_t>(i);
        tensors[place] = i % 2 == 0 ? OfThisRank<float>(100 + i) : OfThisRank<BFloat16>(33 * i);
        handles[place] =
            collectives_.AllReduce("many " + std::to_string(i), tensors[place], {ReduceOp::kSum});
      }
      const auto expected = [&](int64_t at) { return Reduced(ReduceOp::kSum, at); };
      for (size_t i = 0; i < kTensors; ++i) {
        Expect("many", handles[i].Wait());
        if (i % 2 == 0) {
          ExpectValues<float>("many float32", tensors[i], expected);
        } else {
          ExpectValues<BFloat16>("many bfloat16", tensors[i], expected);
        }
      }
    }
  }

  void Factors() {
    const ReduceOptions options{.op = ReduceOp::kSum, .prescale = 2, .postscale = 0.5};
    const auto expected = [&](int64_t i) { return Reduced(ReduceOp::kSum, i); };
    const Tensor real = OfThisRank<float>(300);
    const Tensor half = OfThisRank<Float16>(300);
    const Tensor whole = OfThisRank<int64_t>(300);
    const CollectiveHandle handles[] = {collectives_.AllReduce("factors 1", real, options),
                                        collectives_.AllReduce("factors 2", half, options),
                                        collectives_.AllReduce("factors 3", whole, options)};
    for (const CollectiveHandle& handle : handles) Expect("factors", handle.Wait());
    ExpectValues<float>("factors, float32", real, expected);
    ExpectValues<Float16>("factors, float16", half, expected);
    ExpectValues<int64_t>("factors, int64", whole, expected);
  }

  void Groups() {
    std::vector<float> on_host(50, static_cast<float>(comm_.rank() + 1));
    const Tensor tensors[] = {OfThisRank<float>(1000), testing::View(on_host),
                              OfThisRank<int32_t>(77)};
    Expect("a mixed group",
           collectives_.GroupedAllReduce("group", tensors, {ReduceOp::kSum}).Wait());
    const auto expected = [&](int64_t i) { return Reduced(ReduceOp::kSum, i); };
    ExpectValues<float>("a mixed group, float32", tensors[0], expected);
    ExpectValues<int32_t>("a mixed group, int32", tensors[2], expected);
    const int n = comm_.size();
    const std::string host = testing::ExpectAll("a mixed group, host", on_host, n * (n + 1) / 2.0);
    if (!host.empty()) errors_.push_back(host);
  }

  void Movements() {
    const int n = comm_.size();
    for (int root = 0; root < n; ++root) {
      const Tensor input = OfThisRank<int64_t>(501);
      const Tensor output = NewTensor({501}, DType::kInt64, compute_.device());
      Expect("broadcast", collectives_.Broadcast("broadcast", input, output, root).Wait());
      ExpectValues<int64_t>("broadcast", output, [&](int64_t i) { return ValueOf(i, root); });
      Expect("broadcast", collectives_.Broadcast("broadcast in place", input, root).Wait());
      ExpectValues<int64_t>("broadcast", input, [&](int64_t i) { return ValueOf(i, root); });
    }
    // Rank r brings r + 1 rows.
    const auto gathered = collectives_.AllGather("gather", OfThisRank<float>(comm_.rank() + 1));
    Expect("all-gather", gathered.Wait());
    std::vector<double> rows;
    for (int r = 0; r < n; ++r) {
      for (int64_t i = 0; i <= r; ++i) rows.push_back(ValueOf(i, r));
    }
    ExpectValues<float>("all-gather", gathered.output(),
                        [&](int64_t i) { return rows[static_cast<size_t>(i)]; });
    const auto scattered =
        collectives_.ReduceScatter("scatter", OfThisRank<float>(4 * n + 1), {.op = ReduceOp::kSum});
    Expect("reduce-scatter", scattered.Wait());
    const int64_t first = comm_.rank() == 0 ? 0 : 4 * comm_.rank() + 1;
    ExpectValues<float>("reduce-scatter", scattered.output(),
                        [&](int64_t i) { return Reduced(ReduceOp::kSum, first + i); });
    const auto even = collectives_.AllGather("even gather", OfThisRank<BFloat16>(70));
    Expect("even all-gather", even.Wait());
    ExpectValues<BFloat16>("even all-gather", even.output(),
                           [&](int64_t i) { return ValueOf(i % 70, static_cast<int>(i / 70)); });
    const auto largest =
        collectives_.ReduceScatter("largest", OfThisRank<int32_t>(2 * n), {.op = ReduceOp::kMax});
    Expect("reduce-scatter of integers", largest.Wait());
    ExpectValues<int32_t>("reduce-scatter of integers", largest.output(),
                          [&](int64_t i) { return Reduced(ReduceOp::kMax, 2 * comm_.rank() + i); });
    const auto scaled =
        collectives_.ReduceScatter("scaled", OfThisRank<float>(2 * n),
                                   {.op = ReduceOp::kSum, .prescale = 2, .postscale = 0.5});
    Expect("reduce-scatter with factors", scaled.Wait());
    ExpectValues<float>("reduce-scatter with factors", scaled.output(),
                        [&](int64_t i) { return Reduced(ReduceOp::kSum, 2 * comm_.rank() + i); });
    // Everything goes to the first rank.
    std::vector<int64_t> splits(static_cast<size_t>(n), 0);
    splits[0] = 5;
    const auto sent = collectives_.AllToAll("to one", OfThisRank<float>(5), splits);
    Expect("all-to-all to one rank", sent.Wait());
    ExpectValues<float>("all-to-all to one rank", sent.output(),
                        [&](int64_t i) { return ValueOf(i % 5, static_cast<int>(i / 5)); });
    const auto swapped = collectives_.AllToAll("all-to-all", OfThisRank<uint8_t>(2 * n));
    Expect("all-to-all", swapped.Wait());
    ExpectValues<uint8_t>("all-to-all", swapped.output(), [&](int64_t i) {
      return ValueOf(2 * comm_.rank() + i % 2, static_cast<int>(i / 2));
    });
  }

  void Joined() {
    const int n = comm_.size();
    if (comm_.rank() != n - 1) {
      const Tensor tensor = Computed<float>(40, [](int64_t) { return 3.0; });
      const Tensor smallest = Computed<int32_t>(40, [](int64_t) { return 3.0; });
      const auto sum = collectives_.AllReduce("joined", tensor, {.op = ReduceOp::kSum});
      const auto least = collectives_.AllReduce("joined too", smallest, {.op = ReduceOp::kMin});
      Expect("joined", sum.Wait());
      Expect("joined", least.Wait());
      ExpectValues<float>("joined", tensor, [&](int64_t) { return 3.0 * (n - 1); });
      ExpectValues<int32_t>("joined", smallest, [&](int64_t) { return 3.0; });
    }
    const StatusOr<int> last = collectives_.Join();
    Expect("join", last.status());
  }

  void Clashes() {
    if (comm_.size() == 1) return;
    std::vector<float> on_host(8, 1.0f);
    const Tensor on_gpu = OfThisRank<float>(8);
    const bool odd = comm_.rank() % 2 == 1;
    const auto expect = [&](const CollectiveHandle& handle) {
      const std::string wrong = testing::ExpectError(handle.Wait(), ExitCode::kCommunication,
                                                     {"the devices", "on a GPU"});
      if (!wrong.empty()) errors_.push_back(wrong);
    };
    expect(collectives_.AllReduce("clash", odd ? on_gpu : testing::View(on_host)));
    const Tensor group[] = {testing::View(on_host), odd ? testing::View(on_host) : on_gpu};
    expect(collectives_.GroupedAllReduce("clash of groups", group));
    // The queue goes on.
    Expect("after a clash", collectives_.AllReduce("clash", on_gpu).Wait());
  }

  void Gradients() {
    for (const DType wire : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const Tensor first = NewTensor({3000}, DType::kFloat32, compute_.device());
      const Tensor second = NewTensor({77}, DType::kFloat32, compute_.device());
      DistributedGradients gradients({{"first", first}, {"second", second}}, collectives_,
                                     {.wire_type = wire, .predivide_factor = 2});
      for (int step = 0; step < 2; ++step) {
        for (const Tensor* gradient : {&first, &second}) {
          const Tensor computed = OfThisRank<float>(gradient->elements());
          CopyOnDevice(gradient->raw(), computed.raw(), gradient->bytes(), compute_);
        }
        // What is freed above is still read by the copies.
        compute_.Synchronize();
        gradients.Ready(comm_.rank() % 2);
        gradients.Ready(1 - comm_.rank() % 2);
        Expect("gradients", gradients.Synchronize());
        compute_.Synchronize();
        const auto expected = [&](int64_t i) {
          return AsDouble(As<BFloat16>(Reduced(ReduceOp::kAverage, i)));
        };
        // Close enough for any wire: the room is that of the type.
        std::vector<float> host(3000);
        CopyToHost(host.data(), first.raw(), first.bytes(), compute_);
        for (size_t i = 0; i < host.size(); ++i) {
          const double wanted = expected(static_cast<int64_t>(i));
          if (std::abs(host[i] - wanted) <= 0.01 * wanted) continue;
          errors_.push_back("gradients as " + std::string(Name(wire)) + " [" + std::to_string(i) +
                            "]: " + std::to_string(host[i]) + ", not " + std::to_string(wanted));
          break;
        }
      }
    }
  }

  Communicator& comm_;
  Stream compute_;
  Collectives collectives_;
  std::vector<std::string> errors_;
};

}  // namespace

std::vector<std::string> NamedGpuCollectiveErrors(Communicator& comm, const Device& device) {
  return Suite(comm, device).Run();
}

}  // namespace dtrain
