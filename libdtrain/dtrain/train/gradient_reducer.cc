// gradient_reducer.cc - buckets as views of the flat gradients, started in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/gradient_reducer.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/device/copy.h"

namespace dtrain {
namespace {

constexpr int64_t kGrain = 1 << 16;  // elements worth waking a thread for

// Padding between two parameters is zero on all ranks and travels with the first.
std::vector<GradientRange> RangesOf(const ParameterSet& parameters) {
  std::vector<GradientRange> ranges;
  for (const Parameter* parameter : parameters.in_backward_order()) {
    if (!ranges.empty()) ranges.back().end = parameter->offset();
    ranges.push_back({parameter->name(), parameter->offset(), parameters.size()});
  }
  return ranges;
}

template <typename Wire>
void RoundTo(const float* from, std::byte* staging, int64_t count, float factor) {
  Wire* const to = reinterpret_cast<Wire*>(staging);
  ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = Wire(from[i] * factor);
  });
}

template <typename Wire>
void WidenFrom(const std::byte* staging, float* to, int64_t count, float factor) {
  const Wire* const from = reinterpret_cast<const Wire*>(staging);
  ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]) * factor;
  });
}

}  // namespace

GradientReducer::GradientReducer(ParameterSet& parameters, Communicator& comm,
                                 const GradientReducerOptions& options)
    : GradientReducer(parameters.gradients(), RangesOf(parameters), comm, options) {}

GradientReducer::GradientReducer(const Tensor& flat_gradients,
                                 std::vector<GradientRange> parameters, Communicator& comm,
                                 const GradientReducerOptions& options)
    : flat_(flat_gradients),
      stream_(flat_gradients.device()),
      gradients_(HostMemory()),
      elements_(flat_gradients.elements()),
      parameters_(std::move(parameters)),
      comm_(comm),
      wire_type_(options.wire_type),
      marked_(parameters_.size(), false) {
  DT_CHECK(flat_gradients.is_contiguous());
  DT_CHECK(wire_type_ == DType::kFloat32 || wire_type_ == DType::kBFloat16 ||
           wire_type_ == DType::kFloat16)
      << "gradients travel as float32, bfloat16 or float16, not as " << Name(wire_type_);
  int64_t end = 0;
  for (const GradientRange& range : parameters_) {
    DT_CHECK_EQ(range.begin, end) << range.name << " does not begin where the one before ends";
    DT_CHECK_LE(range.begin, range.end) << range.name;
    end = range.end;
  }
  DT_CHECK_EQ(end, elements_) << "the parameters do not cover the flat gradients";
  CutBuckets(options);
}

float* GradientReducer::HostMemory() {
  if (flat_.device().type == DeviceType::kCpu) return flat_.data<float>();
  staging_arena_ =
      Arena::Create(flat_.device(), "gradients on the host", size_t{1} << 40, ArenaMemory::kPinned);
  staging_ = Empty(*staging_arena_, flat_.shape(), DType::kFloat32);
  return staging_.data<float>();
}

void GradientReducer::CutBuckets(const GradientReducerOptions& options) {
  int64_t limit = options.first_bucket_bytes / static_cast<int64_t>(sizeof(float));
  for (const GradientRange& range : parameters_) {
    const bool full = !buckets_.empty() && buckets_.back().end > buckets_.back().begin &&
                      range.end - buckets_.back().begin > limit;
    if (buckets_.empty() || full) {
      if (full) limit = options.bucket_bytes / static_cast<int64_t>(sizeof(float));
      buckets_.emplace_back();
      buckets_.back().begin = range.begin;
    }
    Bucket& bucket = buckets_.back();
    bucket.end = range.end;
    ++bucket.parameters;
    ++bucket.missing;
    bucket_of_.push_back(num_buckets() - 1);
  }
  if (wire_type_ == DType::kFloat32 || comm_.size() == 1) return;
  for (Bucket& bucket : buckets_) {
    bucket.staging.resize(static_cast<size_t>(bucket.end - bucket.begin) * SizeOf(wire_type_));
  }
}

int64_t GradientReducer::bucket_begin(int bucket) const {
  return bucket == num_buckets() ? elements_ : buckets_[static_cast<size_t>(bucket)].begin;
}

void GradientReducer::MarkReady(int index) {
  DT_CHECK(index >= 0 && index < static_cast<int>(parameters_.size()))
      << "parameter " << index << " of " << parameters_.size();
  const auto i = static_cast<size_t>(index);
  DT_CHECK(!marked_[i]) << "the gradient of " << parameters_[i].name
                        << " was marked ready twice in one step";
  marked_[i] = true;
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[i])];
  if (--bucket.missing == 0) LaunchComplete();
}

void GradientReducer::LaunchComplete() {
  if (comm_.size() == 1) return;
  const Timer timer;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) Launch(buckets_[next_++]);
  statistics_.launch_seconds += timer.Seconds();
}

void GradientReducer::Launch(Bucket& bucket) {
  const int64_t count = bucket.end - bucket.begin;
  void* data = gradients_ + bucket.begin;
  if (staging_) {
    SynchronizeDevice(flat_.device());
    CopyToHost(data, flat_.data<float>() + bucket.begin, static_cast<size_t>(count) * sizeof(float),
               stream_);
  }
  if (wire_type_ != DType::kFloat32) {
    data = bucket.staging.data();
    const float* const from = gradients_ + bucket.begin;
    if (wire_type_ == DType::kBFloat16) {
      RoundTo<BFloat16>(from, bucket.staging.data(), count, 1.0f);
    } else {
      RoundTo<Float16>(from, bucket.staging.data(), count, 1.0f / static_cast<float>(comm_.size()));
    }
  }
  bucket.landed = false;
  bucket.handle = comm_.StartAllReduce(data, count, wire_type_, ReduceOp::kSum);
  statistics_.bytes += count * static_cast<int64_t>(SizeOf(wire_type_));
}

void GradientReducer::Land(Bucket& bucket) {
  bucket.handle.reset();
  bucket.landed = true;
  const int64_t count = bucket.end - bucket.begin;
  float* const to = gradients_ + bucket.begin;
  if (wire_type_ == DType::kBFloat16) {
    WidenFrom<BFloat16>(bucket.staging.data(), to, count, 1.0f);
  } else if (wire_type_ == DType::kFloat16) {
    WidenFrom<Float16>(bucket.staging.data(), to, count, static_cast<float>(comm_.size()));
  }
  if (staging_) {
    CopyToDevice(flat_.data<float>() + bucket.begin, to, static_cast<size_t>(count) * sizeof(float),
                 stream_);
  }
}

void GradientReducer::Poll() {
  if (comm_.size() == 1) return;
  const Timer timer;
  comm_.Poll();
  statistics_.launch_seconds += timer.Seconds();
}

void GradientReducer::Finish() {
  CheckAllMarked();
  const Timer timer;
  for (Bucket& bucket : buckets_) {
    if (!bucket.landed) {
      bucket.handle->Wait();
      Land(bucket);
    }
    bucket.missing = bucket.parameters;
  }
  stream_.Synchronize();
  std::fill(marked_.begin(), marked_.end(), false);
  next_ = 0;
  ++statistics_.steps;
  statistics_.exposed_seconds += timer.Seconds();
}

void GradientReducer::CheckAllMarked() const {
  constexpr int kNamed = 5;
  std::string names;
  int64_t missing = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (marked_[i]) continue;
    if (++missing <= kNamed) names += (names.empty() ? "" : ", ") + parameters_[i].name;
  }
  if (missing > kNamed) names += ", ...";
  DT_CHECK_EQ(missing, 0) << "gradients that were not marked ready: " << names;
}

}  // namespace dtrain
