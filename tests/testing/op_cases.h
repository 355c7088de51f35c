// op_cases.h - tensors for op tests: random fills, values as doubles, comparison, gradients.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_OP_CASES_H_
#define DTRAIN_TESTS_TESTING_OP_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/tensor.h"
#include "testing/test_device.h"
#include "testing/tolerance.h"

namespace dtrain::testing {

using Values = std::vector<double>;

// Both the device and the test read and write its tensors in place.
inline Arena& TestArena() {
  static const std::shared_ptr<Arena> arena =
      Arena::Create(TestDevice(), "test", size_t{1} << 32, ArenaMemory::kPinned);
  return *arena;
}

// One element, while no op is running: FinishOps() first, once for all of them, as it waits for the
// device.
inline double ReadElement(const Tensor& x, int64_t index) {
  switch (x.dtype()) {
    case DType::kFloat32:
      return static_cast<double>(x.data<float>()[index]);
    case DType::kBFloat16:
      return static_cast<double>(static_cast<float>(x.data<BFloat16>()[index]));
    case DType::kFloat16:
      return static_cast<double>(static_cast<float>(x.data<Float16>()[index]));
    case DType::kFloat64:
      return x.data<double>()[index];
    default:
      return x.data<int32_t>()[index];
  }
}

inline void WriteElement(Tensor& x, int64_t index, double value) {
  switch (x.dtype()) {
    case DType::kFloat32:
      x.data<float>()[index] = static_cast<float>(value);
      return;
    case DType::kBFloat16:
      x.data<BFloat16>()[index] = BFloat16(static_cast<float>(value));
      return;
    case DType::kFloat16:
      x.data<Float16>()[index] = Float16(static_cast<float>(value));
      return;
    case DType::kFloat64:
      x.data<double>()[index] = value;
      return;
    default:
      x.data<int32_t>()[index] = static_cast<int32_t>(value);
  }
}

inline double ValueAt(const Tensor& x, int64_t index) {
  FinishOps();
  return ReadElement(x, index);
}

inline void SetAt(Tensor& x, int64_t index, double value) {
  FinishOps();
  WriteElement(x, index, value);
}

inline int64_t RowsOfTensor(const Tensor& x) { return x.shape().rank() == 0 ? 1 : x.dim(0); }

// Calls body(index in memory, running number) for every element, after all ops.
template <typename Body>
void ForElements(const Tensor& x, const Body& body) {
  FinishOps();
  const int64_t rows = RowsOfTensor(x);
  const int64_t columns = rows == 0 ? 0 : x.elements() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) body(r * x.row_stride() + c, r * columns + c);
  }
}

// All elements, row by row.
inline Values ValuesOf(const Tensor& x) {
  Values values(static_cast<size_t>(x.elements()));
  ForElements(x,
              [&](int64_t at, int64_t i) { values[static_cast<size_t>(i)] = ReadElement(x, at); });
  return values;
}

inline Tensor Filled(const Shape& shape, DType dtype, double value) {
  Tensor x = Empty(TestArena(), shape, dtype);
  ForElements(x, [&](int64_t at, int64_t) { WriteElement(x, at, value); });
  return x;
}

inline Tensor FromValues(const Shape& shape, DType dtype, const Values& values) {
  Tensor x = Empty(TestArena(), shape, dtype);
  ForElements(x,
              [&](int64_t at, int64_t i) { WriteElement(x, at, values[static_cast<size_t>(i)]); });
  return x;
}

// Uniform in [low, high); `site` tells the tensors of one test apart.
inline Tensor Random(const Shape& shape, DType dtype, uint32_t site, double low = -2.0,
                     double high = 2.0) {
  RandomStream random({.seed = 1234, .site = site});
  Tensor x = Empty(TestArena(), shape, dtype);
  ForElements(x, [&](int64_t at, int64_t) {
    WriteElement(x, at, low + (high - low) * static_cast<double>(random.NextUniform()));
  });
  return x;
}

// A copy of `values` on TestDevice(), and the way back.
template <typename T>
Tensor OnDevice(const std::vector<T>& values, const Shape& shape) {
  FinishOps();
  Tensor x = Empty(TestArena(), shape, kDTypeOf<T>);
  if (!values.empty()) std::memcpy(x.raw(), values.data(), values.size() * sizeof(T));
  return x;
}
template <typename T>
void CopyBack(const Tensor& x, std::vector<T>& values) {
  FinishOps();
  if (!values.empty()) std::memcpy(values.data(), x.raw(), values.size() * sizeof(T));
}

// Whole numbers in [0, bound).
inline Tensor RandomIds(int64_t count, uint32_t bound, uint32_t site) {
  RandomStream random({.seed = 99, .site = site});
  Tensor x = Empty(TestArena(), {count}, DType::kInt32);
  FinishOps();
  for (int64_t i = 0; i < count; ++i) WriteElement(x, i, random.NextBelow(bound));
  return x;
}

// The same values as columns of a wider matrix of 77.
inline Tensor InsideOf(int64_t width, int64_t first, const Tensor& x) {
  Tensor wide = Filled({x.dim(0), width}, x.dtype(), 77.0);
  Tensor view = wide.Columns(first, first + x.dim(1));
  const Values values = ValuesOf(x);
  ForElements(
      view, [&](int64_t at, int64_t i) { WriteElement(view, at, values[static_cast<size_t>(i)]); });
  return view;
}

// The same values in rows that lie further apart, between columns of 77: not aligned, and aligned
// to 16 bytes.
inline Tensor Strided(const Tensor& x) { return InsideOf(x.dim(1) + 5, 2, x); }
inline Tensor StridedAligned(const Tensor& x) {
  return InsideOf((x.dim(1) + 7) / 8 * 8 + 16, 8, x);
}
enum class Margins { kOdd, kAligned };
inline Tensor Strided(const Tensor& x, Margins margins) {
  return margins == Margins::kOdd ? Strided(x) : StridedAligned(x);
}

// That the columns around a Strided() or StridedAligned() view still hold 77.
inline bool MarginsUntouched(const Tensor& view) {
  FinishOps();
  for (int64_t r = 0; r < view.dim(0); ++r) {
    const int64_t row = r * view.row_stride();
    for (const int64_t c : {int64_t{-2}, int64_t{-1}, view.dim(1), view.dim(1) + 2}) {
      if (ReadElement(view, row + c) != 77.0) return false;
    }
  }
  return true;
}

inline Tensor Copy(const Tensor& x) { return FromValues(x.shape(), x.dtype(), ValuesOf(x)); }

// Largest |a - b| / (1 + |b|); infinity where NaN or infinity meets something else.
inline double Difference(const Values& a, const Values& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]) / (1.0 + std::abs(b[i]));
    worst = std::isfinite(difference) ? std::max(worst, difference)
                                      : std::numeric_limits<double>::infinity();
  }
  return worst;
}
inline double Difference(const Tensor& a, const Values& b) { return Difference(ValuesOf(a), b); }

inline bool SameBits(const Tensor& a, const Tensor& b) {
  FinishOps();
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// d f / d x[i] by central differences. f is smooth and works in double.
inline Values NumericGradient(const std::function<double(const Values&)>& f, Values x,
                              double step = 1e-4) {
  Values gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + step;
    const double up = f(x);
    x[i] = at - step;
    gradient[i] = (up - f(x)) / (2.0 * step);
    x[i] = at;
  }
  return gradient;
}

inline double Dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Values Plus(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// x: rows of `columns` columns.
inline Values ColumnSums(const Values& x, int64_t columns) {
  Values sums(static_cast<size_t>(columns));
  for (size_t e = 0; e < x.size(); ++e) sums[e % sums.size()] += x[e];
  return sums;
}

// Runs `body` with that many compute threads.
template <typename Body>
void WithThreads(int count, const Body& body) {
  const int before = NumThreads();
  SetNumThreads(count);
  body();
  SetNumThreads(before);
}

// The message of the exception that `body` throws, or "".
template <typename Body>
std::string MessageOf(const Body& body) {
  try {
    body();
  } catch (const CheckError& error) {
    return error.what();
  }
  return "";
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_OP_CASES_H_
