// cast.cc - checks the arguments, then splits elements, rows or columns among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/cast.h"

#include <cstring>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/ops/internal/cast_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

// Finds the runs of elements that are consecutive in both tensors, which have the same shape. Calls
// body(x offset, y offset, n) on them in parallel; offsets and n are in elements.
template <typename Body>
void ForRuns(const Tensor& x, const Tensor& y, const Body& body) {
  const int64_t n = x.elements();
  if (x.is_contiguous() && y.is_contiguous()) {
    ParallelFor(VectorGroups(n), VectorGroups(kGrainElements), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kVectorGroup;
      body(first, first, std::min(n, end * kVectorGroup) - first);
    });
    return;
  }
  const int64_t rows = x.dim(0);
  const int64_t columns = n / rows;  // n > 0 here, because an empty tensor is contiguous
  ParallelFor(rows, RowGrain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r * x.row_stride(), r * y.row_stride(), columns);
  });
}

// Describes y and x as matrices for the CUDA kernels.
BlendRowsArgs BlendOf(const Tensor& x, const Tensor& y) {
  if (x.is_contiguous() && y.is_contiguous()) {
    return {.x = {.data = x.raw()}, .y = {.data = y.raw()}, .rows = 1, .columns = x.elements()};
  }
  return {.x = RowsOf(x), .y = RowsOf(y), .rows = x.dim(0), .columns = x.elements() / x.dim(0)};
}

// Checks that both matrices of GatherRows and ScatterAddRows have rows of one length and type.
void CheckRowCopy(const char* op, const Tensor& x, const Tensor& rows, const Tensor& out,
                  const Stream& stream) {
  CheckRank(op, "x", x, 2);
  CheckRank(op, "out", out, 2);
  CheckTensor(op, "x", x, x.shape(), x.dtype(), stream);
  CheckTensor(op, "out", out, {out.dim(0), x.dim(1)}, x.dtype(), stream);
  CheckRank(op, "rows", rows, 1);
  CheckTensor(op, "rows", rows, rows.shape(), DType::kInt32, stream);
}

// Sets many small ranges to 0 with few launches. Large ones are a memset each, which runs at the
// memory's speed.
void ZeroRangesCuda(float* x, std::span<const ElementRange> ranges, Stream& stream) {
  constexpr int64_t kSmall = int64_t{1} << 16;
  ZeroRangesArgs args{.x = x};
  for (const auto& [begin, end] : ranges) {
    const int64_t elements = end - begin;
    if (elements > kSmall) {
      const auto bytes = static_cast<size_t>(elements) * sizeof(float);
      FillWithZeros(x + begin, bytes, bytes, 1, stream);
      continue;
    }
    args.begin[args.count] = begin;
    args.elements[args.count] = static_cast<int32_t>(elements);
    if (++args.count < ZeroRangesArgs::kMostRanges) continue;
    ZeroRangesKernelCuda(args, stream);
    args.count = 0;
  }
  if (args.count > 0) ZeroRangesKernelCuda(args, stream);
}

}  // namespace

void Cast(const Tensor& x, Tensor& y, Stream& stream) {
  CheckTensor("Cast", "x", x, x.shape(), x.dtype(), stream);
  CheckTensor("Cast", "y", y, x.shape(), y.dtype(), stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    DispatchFloat(y, [&]<DeviceType E, typename U>() {
      if constexpr (D == DeviceType::kCpu && E == DeviceType::kCpu) {
        ForRuns(x, y, [&](int64_t x_offset, int64_t y_offset, int64_t n) {
          CastKernelCpu<T>({.x = x.data<T>() + x_offset,
                            .y = y.data<U>() + y_offset,
                            .to_bfloat16 = kDTypeOf<U> == DType::kBFloat16,
                            .n = n});
        });
      } else if constexpr (D == E) {
        CastRowsKernelCuda<T, U>(BlendOf(x, y), stream);
      }
    });
  });
}

void Zero(Tensor& x, Stream& stream) {
  CheckTensor("Zero", "x", x, x.shape(), x.dtype(), stream);
  CheckContiguous("Zero", "x", x);
  if (x.device().type == DeviceType::kCpu) {
    const int64_t bytes = static_cast<int64_t>(x.bytes());
    char* const data = static_cast<char*>(x.raw());
    ParallelFor(bytes, kGrainElements * 4, [&](int64_t begin, int64_t end) {
      std::memset(data + begin, 0, static_cast<size_t>(end - begin));
    });
  } else if constexpr (kWithCuda) {
    FillWithZeros(x.raw(), x.bytes(), x.bytes(), 1, stream);
  }
}

void ZeroRanges(Tensor& x, std::span<const ElementRange> ranges, Stream& stream) {
  CheckRank("ZeroRanges", "x", x, 1);
  CheckTensor("ZeroRanges", "x", x, x.shape(), DType::kFloat32, stream);
  CheckContiguous("ZeroRanges", "x", x);
  for (const ElementRange& range : ranges) {
    DT_CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= x.elements())
        << "ZeroRanges: [" << range.begin << ", " << range.end << ") of " << x.elements();
  }
  if (x.device().type == DeviceType::kCpu) {
    for (const ElementRange& range : ranges) {
      Tensor part = x.Rows(range.begin, range.end);
      Zero(part, stream);
    }
  } else if constexpr (kWithCuda) {
    ZeroRangesCuda(x.data<float>(), ranges, stream);
  }
}

void Scale(Tensor& x, float factor, Stream& stream) {
  CheckTensor("Scale", "x", x, x.shape(), DType::kFloat32, stream);
  CheckContiguous("Scale", "x", x);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ForRuns(x, x, [&](int64_t offset, int64_t, int64_t n) {
        ScaleKernelCpu<float>({.x = x.data<float>() + offset, .factor = factor, .n = n});
      });
    } else {
      BlendRowsArgs args = BlendOf(x, x);
      args.x_factor = factor;
      CastRowsKernelCuda<float, float>(args, stream);
    }
  });
}

void AddTo(const Tensor& x, Tensor& y, Stream& stream) {
  CheckTensor("AddTo", "x", x, x.shape(), x.dtype(), stream);
  CheckTensor("AddTo", "y", y, x.shape(), x.dtype(), stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ForRuns(x, y, [&](int64_t x_offset, int64_t y_offset, int64_t n) {
        BlendKernelCpu<T>({.x = x.data<T>() + x_offset, .y = y.data<T>() + y_offset, .n = n});
      });
    } else {
      BlendRowsKernelCuda<T>(BlendOf(x, y), stream);
    }
  });
}

void MovingAverage(const Tensor& x, const Tensor& decay, Tensor& average, Stream& stream) {
  CheckTensor("MovingAverage", "x", x, x.shape(), DType::kFloat32, stream);
  CheckTensor("MovingAverage", "decay", decay, {1}, DType::kFloat32, stream);
  CheckTensor("MovingAverage", "average", average, x.shape(), DType::kFloat32, stream);
  CheckContiguous("MovingAverage", "x", x);
  CheckContiguous("MovingAverage", "average", average);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const float kept = *decay.data<float>();
      if (kept == 1.0f) return;
      ForRuns(x, average, [&](int64_t x_offset, int64_t y_offset, int64_t n) {
        BlendKernelCpu<float>({.x = x.data<float>() + x_offset,
                               .y = average.data<float>() + y_offset,
                               .x_factor = 1.0f - kept,
                               .y_factor = kept,
                               .n = n});
      });
    } else {
      BlendRowsArgs args = BlendOf(x, average);
      args.decay = decay.data<float>();
      BlendRowsKernelCuda<float>(args, stream);
    }
  });
}

void GatherRows(const Tensor& x, const Tensor& rows, Tensor& out, Stream& stream) {
  constexpr const char* kOp = "GatherRows";
  CheckRowCopy(kOp, x, rows, out, stream);
  CheckTensor(kOp, "out", out, {rows.dim(0), x.dim(1)}, x.dtype(), stream);
  if (x.device().type == DeviceType::kCpu) {
    CheckIds(kOp, "rows", rows, x.dim(0));
    // Copies bytes, so every element type works.
    const size_t row_bytes = static_cast<size_t>(x.dim(1)) * SizeOf(x.dtype());
    const int64_t size = static_cast<int64_t>(SizeOf(x.dtype()));
    const int32_t* const row = rows.data<int32_t>();
    const char* const from = static_cast<const char*>(x.raw());
    char* const to = static_cast<char*>(out.raw());
    ParallelFor(rows.dim(0), RowGrain(x.dim(1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(to + i * out.row_stride() * size, from + row[i] * x.row_stride() * size,
                    row_bytes);
      }
    });
  } else if constexpr (kWithCuda) {
    GatherRowsKernelCuda(
        {.x = RowsOf(x),
         .out = RowsOf(out),
         .rows = rows.data<int32_t>(),
         .n = rows.dim(0),
         .row_bytes = static_cast<int64_t>(static_cast<size_t>(x.dim(1)) * SizeOf(x.dtype())),
         .element_bytes = static_cast<int64_t>(SizeOf(x.dtype()))},
        stream);
  }
}

void ScatterAddRows(const Tensor& x, const Tensor& rows, Tensor& out, Stream& stream) {
  constexpr const char* kOp = "ScatterAddRows";
  CheckRowCopy(kOp, x, rows, out, stream);
  DT_CHECK_EQ(rows.dim(0), x.dim(0)) << kOp << ": one row index per row of x";
  const int64_t columns = x.dim(1);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      CheckIds(kOp, "rows", rows, out.dim(0));
      // Threads split the columns, so that each element's sum is formed in order.
      const int64_t grain = kGrainElements / (kVectorGroup * std::max<int64_t>(1, x.dim(0))) + 1;
      ParallelFor(VectorGroups(columns), grain, [&](int64_t begin, int64_t end) {
        ScatterAddRowsKernelCpu<T>({.x = RowsOf(x),
                                    .out = RowsOf(out),
                                    .rows = rows.data<int32_t>(),
                                    .n = x.dim(0),
                                    .column_begin = begin * kVectorGroup,
                                    .column_end = std::min(columns, end * kVectorGroup)});
      });
    } else {
      ScatterAddRowsKernelCuda<T>({.x = RowsOf(x),
                                   .out = RowsOf(out),
                                   .rows = rows.data<int32_t>(),
                                   .n = x.dim(0),
                                   .column_end = columns},
                                  stream);
    }
  });
}

}  // namespace dtrain
