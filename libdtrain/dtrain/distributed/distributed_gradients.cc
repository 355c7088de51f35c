// distributed_gradients.cc - counts passes, rounds to the wire type, submits and collects.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/distributed_gradients.h"

#include <set>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

template <typename To, typename From>
void Convert(const void* from, void* to, int64_t count, double factor) {
  const From* const x = static_cast<const From*>(from);
  To* const y = static_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(static_cast<float>(x[i])) * factor;
    y[i] = static_cast<To>(static_cast<float>(value));
  }
}

template <typename Wide>
void Round(const Tensor& from, void* to, DType wire_type, double factor) {
  if (wire_type == DType::kFloat16) {
    Convert<Float16, Wide>(from.raw(), to, from.elements(), factor);
  } else {
    Convert<BFloat16, Wide>(from.raw(), to, from.elements(), factor);
  }
}

template <typename Wide>
void Widen(const void* from, const Tensor& to, DType wire_type) {
  if (wire_type == DType::kFloat16) {
    Convert<Wide, Float16>(from, to.raw(), to.elements(), 1);
  } else {
    Convert<Wide, BFloat16>(from, to.raw(), to.elements(), 1);
  }
}

}  // namespace

DistributedGradients::DistributedGradients(std::vector<NamedGradient> gradients,
                                           Collectives& collectives,
                                           const DistributedGradientsOptions& options)
    : collectives_(collectives), options_(options) {
  DT_CHECK(options.op == ReduceOp::kAverage || options.op == ReduceOp::kSum);
  DT_CHECK_GT(options.passes_per_step, 0);
  DT_CHECK(options.predivide_factor == 1 || options.op == ReduceOp::kAverage)
      << "a factor before the division belongs to averages";
  DT_CHECK(options.wire_type == DType::kFloat32 || options.wire_type == DType::kFloat16 ||
           options.wire_type == DType::kBFloat16)
      << "gradients do not travel as " << Name(options.wire_type);
  std::set<std::string> names;
  for (NamedGradient& gradient : gradients) {
    DT_CHECK(!gradient.name.empty()) << "gradient " << entries_.size() << " has no name";
    DT_CHECK(names.insert(gradient.name).second)
        << "two gradients are named \"" << gradient.name << "\"";
    const Tensor& tensor = gradient.tensor;
    DT_CHECK(tensor || tensor.elements() == 0) << "gradient \"" << gradient.name << "\" is absent";
    DT_CHECK(tensor.is_contiguous())
        << "gradient \"" << gradient.name << "\" is a view of some columns; copy it";
    const DType dtype = tensor.dtype();
    Entry& entry = entries_.emplace_back();
    const Device& device = gradient.tensor.device();
    const bool on_gpu = device.type == DeviceType::kCuda;
    const bool rounded = options.wire_type != DType::kFloat32 &&
                         (dtype == DType::kFloat32 || (dtype == DType::kFloat64 && !on_gpu));
    if (rounded) {
      DT_CHECK(!on_gpu || collectives.gpu_stream() != nullptr)
          << "\"" << gradient.name
          << "\" is to be rounded on a GPU: give CollectivesOptions a gpu_stream";
      entry.wire = NewTensor(gradient.tensor.shape(), options.wire_type, device);
    }
    entry.gradient = std::move(gradient);
  }
}

DistributedGradients::~DistributedGradients() {
  for (const Entry& entry : entries_) {
    if (entry.in_flight && !entry.handle.Poll()) {
      collectives_.Abort("gradients were given up while they travelled");
      return;
    }
  }
}

void DistributedGradients::Ready(int index) {
  DT_CHECK(index >= 0 && index < static_cast<int>(entries_.size()))
      << "gradient " << index << " of " << entries_.size();
  Entry& entry = entries_[static_cast<size_t>(index)];
  DT_CHECK_LT(entry.passes, options_.passes_per_step)
      << "\"" << entry.gradient.name << "\" had all its passes; call Synchronize() first";
  if (++entry.passes == options_.passes_per_step) Submit(entry);
}

bool DistributedGradients::ScalesOnGpu(const Entry& entry) const {
  const Tensor& gradient = entry.gradient.tensor;
  return gradient.device().type == DeviceType::kCuda && gradient.dtype() == DType::kFloat32 &&
         collectives_.gpu_stream() != nullptr;
}

Tensor DistributedGradients::OnWire(Entry& entry, double factor) const {
  Tensor& gradient = entry.gradient.tensor;
  if (ScalesOnGpu(entry)) {
    Stream& stream = *collectives_.gpu_stream();
    if (factor != 1) Scale(gradient, static_cast<float>(factor), stream);
    if (entry.wire) Cast(gradient, entry.wire, stream);
    return entry.wire ? entry.wire : gradient;
  }
  if (!entry.wire) return gradient;
  if (gradient.dtype() == DType::kFloat32) {
    Round<float>(gradient, entry.wire.raw(), options_.wire_type, factor);
  } else {
    Round<double>(gradient, entry.wire.raw(), options_.wire_type, factor);
  }
  return entry.wire;
}

void DistributedGradients::FromWire(Entry& entry) const {
  Tensor& gradient = entry.gradient.tensor;
  if (ScalesOnGpu(entry)) {
    Stream& stream = *collectives_.gpu_stream();
    if (entry.wire) Cast(entry.wire, gradient, stream);
    const auto factor = static_cast<float>(options_.predivide_factor);
    if (factor != 1) Scale(gradient, factor, stream);
    return;
  }
  if (!entry.wire) return;
  if (gradient.dtype() == DType::kFloat32) {
    Widen<float>(entry.wire.raw(), gradient, options_.wire_type);
  } else {
    Widen<double>(entry.wire.raw(), gradient, options_.wire_type);
  }
}

void DistributedGradients::Submit(Entry& entry) {
  double before = options_.average_passes ? 1.0 / options_.passes_per_step : 1.0;
  before /= options_.predivide_factor;
  ReduceOptions reduce{.op = options_.op};
  const Tensor wire = OnWire(entry, before);
  // What is rounded was scaled before it was rounded.
  if (!ScalesOnGpu(entry)) {
    if (!entry.wire) reduce.prescale = before;
    reduce.postscale = options_.predivide_factor;
  }
  entry.handle = collectives_.AllReduce(entry.gradient.name, wire, reduce);
  entry.in_flight = true;
}

Status DistributedGradients::Synchronize() {
  for (Entry& entry : entries_) {
    if (!entry.in_flight) Submit(entry);
  }
  Status first_error;
  for (Entry& entry : entries_) {
    Status status = entry.handle.Wait();
    if (first_error.ok()) first_error = std::move(status);
    entry.in_flight = false;
    entry.passes = 0;
    if (first_error.ok()) FromWire(entry);
  }
  return first_error;
}

}  // namespace dtrain
