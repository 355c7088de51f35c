// device_meter.cc - buffers in turns, rounds between events, and a device that is kept busy before.
// SPDX-License-Identifier: Apache-2.0
#include "device_meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "dtrain/base/random.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/gemm.h"

namespace dtrain {
namespace {

// Several times the last-level cache of today's GPUs (50 MB on an H200).
constexpr double kOutOfCacheBytes = 256e6;
constexpr int kMostSets = 32;
constexpr int kMostCalls = 64;
constexpr double kRoundSeconds = 1e-3;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

DeviceMeter::DeviceMeter(const MeterOptions& options)
    : options_(options), stream_(options.device), arena_(Arena::Create(options.device, "bench")) {
  start_ = cuda::CreateEvent(options.device);
  end_ = cuda::CreateEvent(options.device);
  FillPool();
  const int64_t filler_bytes = options.tiny ? 1 << 16 : 1 << 28;
  filler_ = Empty(*arena_, {filler_bytes}, DType::kUint8);
  cuda::RecordEvent(options.device, start_, stream_.handle());
  for (int i = 0; i < 8; ++i) Zero(filler_, stream_);
  cuda::RecordEvent(options.device, end_, stream_.handle());
  filler_seconds_ = cuda::SecondsBetween(options.device, start_, end_) / 8;
  {
    const int64_t bytes = options.tiny ? 1 << 16 : 1 << 30;
    const Tensor from = Random({bytes / 4}, DType::kFloat32);
    Tensor to = Zeros({bytes / 4});
    const Times times = TimesOf({[&] { CopyTensor(from, to, stream_); }});
    copy_bandwidth_ = 2.0 * static_cast<double>(bytes) / times.median;
  }
  const int64_t n = options.tiny ? 32 : 8192;
  const Tensor a = Random({n, n});
  const Tensor b = Random({n, n});
  Tensor c = Zeros({n, n}, options.type);
  const Times times = TimesOf({[&] { Gemm(a, b, {.transpose_b = true}, c, stream_); }});
  product_peak_ = 2.0 * std::pow(static_cast<double>(n), 3) / times.median;
}

DeviceMeter::~DeviceMeter() {
  cuda::DestroyEvent(options_.device, start_);
  cuda::DestroyEvent(options_.device, end_);
}

void DeviceMeter::FillPool() {
  // Not a power of two: rows of a matrix are then not alike.
  std::vector<float> values(options_.tiny ? 10'007 : 8'000'009);
  RandomStream random({.seed = 1});
  for (float& value : values) value = 2.0F * random.NextUniform() - 1.0F;
  const Shape shape = {static_cast<int64_t>(values.size())};
  pool_ = Empty(*arena_, shape, DType::kFloat32);
  Upload<float>(values, pool_, stream_);
  const DType half = options_.type == DType::kFloat32 ? DType::kBFloat16 : options_.type;
  pool16_ = Empty(*arena_, shape, half);
  Cast(pool_, pool16_, stream_);
}

Tensor DeviceMeter::Random(const Shape& shape, DType dtype) {
  const Tensor& pool = dtype == DType::kFloat32 ? pool_ : pool16_;
  DT_CHECK_EQ(Name(pool.dtype()), Name(dtype));
  Tensor x = Empty(*arena_, shape, dtype);
  auto* const to = static_cast<std::byte*>(x.raw());
  for (size_t done = 0; done < x.bytes(); done += pool.bytes()) {
    CopyOnDevice(to + done, pool.raw(), std::min(pool.bytes(), x.bytes() - done), stream_);
  }
  return x;
}

Tensor DeviceMeter::Zeros(const Shape& shape, DType dtype) {
  Tensor x = Empty(*arena_, shape, dtype);
  Zero(x, stream_);
  return x;
}

Tensor DeviceMeter::Ids(const std::vector<int32_t>& ids, const Shape& shape) {
  Tensor x = Empty(*arena_, shape, DType::kInt32);
  Upload<int32_t>(ids, x, stream_);
  stream_.Synchronize();
  return x;
}

std::vector<int32_t> DeviceMeter::TextIds(int64_t count, int64_t bound) const {
  RandomStream random({.seed = 2});
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) {
    const double u = static_cast<double>(random.NextUniform());
    id = static_cast<int32_t>(u * u * u * static_cast<double>(bound));
  }
  return ids;
}

void DeviceMeter::Occupy(double seconds) {
  const int count = static_cast<int>(std::ceil(seconds / filler_seconds_));
  for (int i = 0; i < count; ++i) Zero(filler_, stream_);
}

double DeviceMeter::SecondsOfRound(const std::vector<Run>& runs, int calls, double head_start) {
  Occupy(head_start);
  cuda::RecordEvent(options_.device, start_, stream_.handle());
  for (int i = 0; i < calls; ++i) runs[static_cast<size_t>(i) % runs.size()]();
  cuda::RecordEvent(options_.device, end_, stream_.handle());
  return cuda::SecondsBetween(options_.device, start_, end_) / calls;
}

DeviceMeter::Times DeviceMeter::TimesOf(const std::vector<Run>& runs) {
  // The first calls load code, choose algorithms and grow scratch memory.
  const int sets = static_cast<int>(runs.size());
  SecondsOfRound(runs, sets, 0);
  const double once = SecondsOfRound(runs, sets, 0);
  const int wanted = static_cast<int>(std::min(kRoundSeconds / once, double{kMostCalls}));
  const int calls = std::max({wanted, sets, 2});
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) runs[static_cast<size_t>(i) % runs.size()]();
  // Twice what issuing took, and no more than makes sense where an op itself waits for the device.
  const double head_start = std::min(2.0 * SecondsSince(before), options_.tiny ? 0.0 : 20e-3);
  stream_.Synchronize();
  std::vector<double> seconds;
  for (int i = 0; i < options_.repeat; ++i) {
    seconds.push_back(SecondsOfRound(runs, calls, head_start));
  }
  std::sort(seconds.begin(), seconds.end());
  const size_t count = seconds.size();
  return {seconds[count / 2], seconds[count * 3 / 4] - seconds[count / 4]};
}

void DeviceMeter::Measure(const std::string& op, const Work& work,
                          const std::function<Run()>& make) {
  if (op.find(options_.filter) == std::string::npos) return;
  Measurement result;
  result.model = model_;
  result.op = op;
  result.work = work;
  const std::shared_ptr<Arena> rest = arena_;
  arena_ = Arena::Create(options_.device, "bench");
  try {
    const double sets = options_.tiny ? 2 : kOutOfCacheBytes / work.bytes + 1;
    std::vector<Run> runs;
    for (int i = 0; i < static_cast<int>(std::min(sets, double{kMostSets})); ++i) {
      runs.push_back(make());
    }
    const Times times = TimesOf(runs);
    result.seconds = times.median;
    result.seconds_spread = times.spread;
  } catch (const std::bad_alloc& error) {
    result.skipped = std::string("not enough memory: ") + error.what();
  }
  stream_.Synchronize();
  arena_ = rest;
  measurements_.push_back(std::move(result));
}

}  // namespace dtrain
