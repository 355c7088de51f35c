// device_collectives_suite.cc - small whole numbers, whose sums are exact in every type.
// SPDX-License-Identifier: Apache-2.0
#include "comm/device_collectives_suite.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "dtrain/device/buffer.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/stream_order.h"

namespace dtrain {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
void Put(Bytes& bytes, int64_t i, double value) {
  T element;
  if constexpr (std::is_arithmetic_v<T>) {
    element = static_cast<T>(value);
  } else {
    element = T(static_cast<float>(value));
  }
  std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(T)), &element, sizeof(T));
}

template <typename T>
double Get(const Bytes& bytes, int64_t i) {
  T element;
  std::memcpy(&element, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(element);
  return static_cast<double>(static_cast<float>(element));
}

// Calls f.operator()<T>() with the C++ type.
template <typename F>
auto With(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f.template operator()<float>();
    case DType::kFloat16:
      return f.template operator()<Float16>();
    case DType::kBFloat16:
      return f.template operator()<BFloat16>();
    case DType::kFloat64:
      return f.template operator()<double>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kUint8:
      break;
  }
  return f.template operator()<uint8_t>();
}

Bytes Values(int64_t count, DType dtype, int rank) {
  Bytes bytes(static_cast<size_t>(count) * SizeOf(dtype));
  With(dtype, [&]<typename T>() {
    for (int64_t i = 0; i < count; ++i) {
      Put<T>(bytes, i, static_cast<double>((i * 7 + rank * 3) % 5 + 1));
    }
  });
  return bytes;
}

class Suite {
 public:
  Suite(Communicator& comm, DeviceCommunicator& gpus) : comm_(comm), gpus_(gpus) {}

  std::vector<std::string> Run() {
    constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64,
                                DType::kInt32,   DType::kInt64,   DType::kUint8};
    for (const DType dtype : kTypes) {
      // The last one is large enough to be hierarchical, and no multiple of any number of ranks.
      for (const int64_t count : {0, 1, 1000, 40961}) AllReduces(dtype, count);
      Movements(dtype);
    }
    AllToAll();
    Groups();
    return errors_;
  }

 private:
  Bytes OnDevice(const Bytes& values, const std::function<void(std::byte*)>& collective) {
    const Device device = gpus_.stream().device();
    const Buffer buffer(device, values.size() + 64);
    Stream compute(device);
    CopyToDevice(buffer.data(), values.data(), values.size(), compute);
    RunBehind(gpus_.stream(), compute);
    collective(buffer.data());
    RunBehind(compute, gpus_.stream());
    // What comes behind it on the other stream sees the result without the host.
    const Buffer copy(device, values.size() + 64);
    CopyOnDevice(copy.data(), buffer.data(), values.size(), compute);
    gpus_.Wait();
    Bytes result(values.size());
    CopyToHost(result.data(), copy.data(), result.size(), compute);
    return result;
  }

  void Compare(const std::string& what, DType dtype, const Bytes& actual, const Bytes& expected) {
    With(dtype, [&]<typename T>() {
      const auto count = static_cast<int64_t>(expected.size() / sizeof(T));
      for (int64_t i = 0; i < count; ++i) {
        const double a = Get<T>(actual, i);
        const double e = Get<T>(expected, i);
        // Averages of three ranks are rounded, by each in its own way.
        if (std::abs(a - e) <= std::abs(e) * (SizeOf(dtype) == 2 ? 0.01 : 1e-6)) continue;
        errors_.push_back(what + " of " + std::string(Name(dtype)) + " x " + std::to_string(count) +
                          " at " + std::to_string(i) + ": " + std::to_string(a) + ", not " +
                          std::to_string(e));
        return;
      }
    });
  }

  void AllReduces(DType dtype, int64_t count) {
    const bool is_float = dtype == DType::kFloat32 || dtype == DType::kFloat16 ||
                          dtype == DType::kBFloat16 || dtype == DType::kFloat64;
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      if (op == ReduceOp::kAverage && !is_float) continue;
      Bytes expected = Values(count, dtype, comm_.rank());
      const Bytes actual =
          OnDevice(expected, [&](std::byte* data) { gpus_.AllReduce(data, count, dtype, op); });
      comm_.AllReduce(expected.data(), count, dtype, op);
      Compare("allreduce (" + std::string(Name(op)) + ")", dtype, actual, expected);
    }
  }

  // The own part of a buffer of one part per rank.
  Bytes Part(const Bytes& bytes, int rank) const {
    const size_t each = bytes.size() / static_cast<size_t>(comm_.size());
    const auto begin = bytes.begin() + static_cast<int64_t>(each) * rank;
    return {begin, begin + static_cast<int64_t>(each)};
  }

  void Movements(DType dtype) {
    constexpr int64_t kCount = 333;
    const int64_t all = kCount * comm_.size();
    Bytes expected = Values(all, dtype, comm_.rank());
    Bytes actual = OnDevice(expected, [&](std::byte* data) {
      gpus_.ReduceScatter(data, kCount, dtype, ReduceOp::kSum);
    });
    comm_.AllReduce(expected.data(), all, dtype, ReduceOp::kSum);
    Compare("reduce-scatter", dtype, Part(actual, comm_.rank()), Part(expected, comm_.rank()));

    Bytes mine = Values(all, dtype, comm_.rank());
    actual = OnDevice(mine, [&](std::byte* data) { gpus_.AllGather(data, kCount, dtype); });
    for (int r = 0; r < comm_.size(); ++r) {
      Compare("all-gather", dtype, Part(actual, r), Part(Values(all, dtype, r), r));
    }
    for (int root = 0; root < comm_.size(); ++root) {
      actual = OnDevice(mine, [&](std::byte* data) {
        gpus_.Broadcast(data, static_cast<int64_t>(mine.size()), root);
      });
      Compare("broadcast", dtype, actual, Values(all, dtype, root));
    }
  }

  // Rank r sends (r + 2 s) % 3 times 100 bytes to rank s: to some ranks nothing.
  void AllToAll() {
    const int size = comm_.size();
    std::vector<int64_t> from = {0}, to = {0};
    for (int r = 0; r < size; ++r) {
      from.push_back(from.back() + (comm_.rank() + 2 * r) % 3 * 100);
      to.push_back(to.back() + (r + 2 * comm_.rank()) % 3 * 100);
    }
    const Bytes mine = Values(1000, DType::kUint8, comm_.rank());
    Bytes expected(1000);
    comm_.StartAllToAllV(mine.data(), from, expected.data(), to)->Wait();
    const Buffer received(gpus_.stream().device(), 1000);
    OnDevice(mine, [&](std::byte* data) { gpus_.AllToAll(data, from, received.data(), to); });
    Bytes actual(1000);
    Stream stream(gpus_.stream().device());
    CopyToHost(actual.data(), received.data(), actual.size(), stream);
    actual.resize(static_cast<size_t>(to.back()));
    expected.resize(actual.size());
    Compare("all-to-all", DType::kUint8, actual, expected);
  }

  void Groups() {
    constexpr int64_t kCount = 30000;
    Bytes expected = Values(4 * kCount, DType::kFloat32, comm_.rank());
    const Bytes actual = OnDevice(expected, [&](std::byte* data) {
      gpus_.Group([&] {
        for (int64_t part = 0; part < 4; ++part) {
          gpus_.AllReduce(data + part * kCount * 4, kCount, DType::kFloat32, ReduceOp::kSum);
        }
      });
    });
    comm_.AllReduce(expected.data(), 4 * kCount, DType::kFloat32, ReduceOp::kSum);
    Compare("a group of allreduces", DType::kFloat32, actual, expected);
  }

  Communicator& comm_;
  DeviceCommunicator& gpus_;
  std::vector<std::string> errors_;
};

}  // namespace

std::vector<std::string> DeviceCollectiveErrors(Communicator& comm, DeviceCommunicator& gpus) {
  return Suite(comm, gpus).Run();
}

}  // namespace dtrain
