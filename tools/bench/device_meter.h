// device_meter.h - times ops on a GPU by its own clock and holds them against its measured peaks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_BENCH_DEVICE_METER_H_
#define DTRAIN_TOOLS_BENCH_DEVICE_METER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct MeterOptions {
  Device device = {DeviceType::kCuda};
  DType type = DType::kBFloat16;  // of activations and matrix factors
  int repeat = 15;
  // Small buffers and products, for a machine whose speed is not the question.
  bool tiny = false;
  std::string filter;  // only ops whose name holds this
};

// What one run must do: floating-point operations of matrix products, and bytes with every operand
// moved once.
struct Work {
  double flops = 0;
  double bytes = 0;
};

struct Measurement {
  std::string model, op;
  Work work;
  double seconds = 0;         // median; 0 where it was not measured
  double seconds_spread = 0;  // third quartile minus first
  std::string skipped;        // why
};

// Each run is one of several sets of tensors, so that none is found in the cache; a measurement is
// the median of `repeat` rounds, each between two events of the device. Before a round the device
// gets enough other work to last until the host has issued the round: gaps between launches are
// those of the device.
class DeviceMeter {
 public:
  // Measures the peaks: of a copy in device memory, and of a square product in `type`.
  explicit DeviceMeter(const MeterOptions& options);
  DeviceMeter(const DeviceMeter&) = delete;
  DeviceMeter& operator=(const DeviceMeter&) = delete;
  ~DeviceMeter();

  // Tensors for the op being measured: uniform in [-1, 1); zeros; whole numbers in [0, bound),
  // small ones more often, as the words of a text.
  Tensor Random(const Shape& shape) { return Random(shape, options_.type); }
  Tensor Random(const Shape& shape, DType dtype);
  Tensor Zeros(const Shape& shape, DType dtype = DType::kFloat32);
  Tensor Ids(const std::vector<int32_t>& ids, const Shape& shape);
  std::vector<int32_t> TextIds(int64_t count, int64_t bound) const;

  // `make` gives one run over tensors of its own and is called once per set.
  using Run = std::function<void()>;
  void Measure(const std::string& op, const Work& work, const std::function<Run()>& make);
  // What the following measurements belong to.
  void SetModel(const std::string& model) { model_ = model; }

  Stream& stream() { return stream_; }
  DType type() const { return options_.type; }
  double element() const { return static_cast<double>(SizeOf(options_.type)); }
  double copy_bandwidth() const { return copy_bandwidth_; }  // bytes read and written per second
  double product_peak() const { return product_peak_; }      // operations per second
  const std::vector<Measurement>& measurements() const { return measurements_; }

 private:
  struct Times {
    double median = 0, spread = 0;
  };
  Times TimesOf(const std::vector<Run>& runs);
  double SecondsOfRound(const std::vector<Run>& runs, int calls, double head_start);
  void Occupy(double seconds);
  void FillPool();

  MeterOptions options_;
  Stream stream_;
  std::shared_ptr<Arena> arena_;  // of the op being measured
  Tensor pool_, pool16_;          // random numbers that tensors are copied from
  Tensor filler_;                 // what Occupy() writes
  double filler_seconds_ = 0;
  void* start_ = nullptr;
  void* end_ = nullptr;
  double copy_bandwidth_ = 0;
  double product_peak_ = 0;
  std::string model_;
  std::vector<Measurement> measurements_;
};

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_BENCH_DEVICE_METER_H_
