// gemm_test.cc - matrix products against plain loops in double.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/gemm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/random_values.h"
#include "testing/tolerance.h"

namespace dtrain {
namespace {

using testing::CopyBack;
using testing::OnDevice;
using testing::TestDevice;

struct Case {
  int64_t m, n, k;
  GemmOptions options;
  int64_t padding = 0;  // columns of the storage that the matrices do not use
};

// The stored matrices of a case; c starts with known values, also in its padding.
template <typename T, typename C>
struct Operands {
  explicit Operands(const Case& test)
      : rows_a(test.options.transpose_a ? test.k : test.m),
        columns_a(test.options.transpose_a ? test.m : test.k),
        rows_b(test.options.transpose_b ? test.n : test.k),
        columns_b(test.options.transpose_b ? test.k : test.n),
        a(RandomValues<T>(rows_a * (columns_a + test.padding), 1)),
        b(RandomValues<T>(rows_b * (columns_b + test.padding), 2)),
        c(RandomValues<C>(test.m * (test.n + test.padding), 3)) {}

  int64_t rows_a, columns_a, rows_b, columns_b;
  std::vector<T> a, b;
  std::vector<C> c;
};

template <typename T>
Tensor Matrix(const std::vector<T>& values, int64_t rows, int64_t columns, int64_t padding) {
  return OnDevice(values, {rows, columns + padding}).Columns(0, columns);
}

template <typename T, typename C>
void Multiply(const Case& test, Operands<T, C>& x) {
  Stream stream(TestDevice());
  Tensor c = Matrix(x.c, test.m, test.n, test.padding);
  Gemm(Matrix(x.a, x.rows_a, x.columns_a, test.padding),
       Matrix(x.b, x.rows_b, x.columns_b, test.padding), test.options, c, stream);
  CopyBack(c, x.c);
}

template <typename T, typename C>
std::vector<double> Expected(const Case& test, const Operands<T, C>& x) {
  std::vector<double> c = ToDouble(x.c);
  const int64_t lda = x.columns_a + test.padding;
  const int64_t ldb = x.columns_b + test.padding;
  for (int64_t i = 0; i < test.m; ++i) {
    for (int64_t j = 0; j < test.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < test.k; ++p) {
        const auto at_a = static_cast<size_t>(test.options.transpose_a ? p * lda + i : i * lda + p);
        const auto at_b = static_cast<size_t>(test.options.transpose_b ? j * ldb + p : p * ldb + j);
        sum += double{float(x.a[at_a])} * double{float(x.b[at_b])};
      }
      double& out = c[static_cast<size_t>(i * (test.n + test.padding) + j)];
      out = (test.options.accumulate ? out : 0.0) + sum;
    }
  }
  return c;
}

template <typename T, typename C>
double ErrorOf(const Case& test) {
  Operands<T, C> x(test);
  const std::vector<double> expected = Expected(test, x);
  Multiply(test, x);
  return RelativeError<C>(x.c, expected);
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  const int64_t shapes[][3] = {{1, 1, 1},     {1, 33, 31},  {31, 1, 127},  {33, 127, 1},
                               {127, 33, 31}, {64, 96, 32}, {200, 64, 48}, {47, 20, 531}};
  for (const auto& shape : shapes) {
    for (int flags = 0; flags < 8; ++flags) {
      const GemmOptions options{(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
      cases.push_back({shape[0], shape[1], shape[2], options, 0});
      cases.push_back({shape[0], shape[1], shape[2], options, 8});
    }
  }
  return cases;
}

template <typename T, typename C>
void CheckAllCases() {
  for (const Case& test : AllCases()) {
    INFO(test.m << " x " << test.n << " x " << test.k << ", transposed " << test.options.transpose_a
                << test.options.transpose_b << ", accumulate " << test.options.accumulate
                << ", padding " << test.padding);
    CHECK(ErrorOf<T, C>(test) <= kTolerance<C>);
  }
}

TEST_CASE("float32 products of odd shapes, strides and transpositions match plain loops") {
  CheckAllCases<float, float>();
}

TEST_CASE("bfloat16 products written as bfloat16 match plain loops") {
  CheckAllCases<BFloat16, BFloat16>();
}

TEST_CASE("bfloat16 products written as float32 keep float32's precision") {
  CheckAllCases<BFloat16, float>();
}

// Rows, columns and summed extents beyond what one thread works on at once: 512, 2,048 at these
// extents and 1,024.
template <typename T, typename C>
void CheckLargeProducts() {
  const int threads = NumThreads();
  for (const int count : {1, 3}) {
    SetNumThreads(count);
    CHECK(ErrorOf<T, C>({1100, 70, 100, {.transpose_b = true}, 8}) <= kTolerance<C>);
    CHECK(ErrorOf<T, C>({70, 2100, 520, {.accumulate = true}, 0}) <= kTolerance<C>);
    CHECK(ErrorOf<T, C>({300, 90, 1500, {.accumulate = true}, 0}) <= kTolerance<C>);
    CHECK(ErrorOf<T, C>({80, 200, 1100, {.transpose_a = true}, 4}) <= kTolerance<C>);
    // Rows 2 KiB of float32 apart, of either side.
    CHECK(ErrorOf<T, C>({500, 70, 600, {.transpose_a = true}, 12}) <= kTolerance<C>);
    CHECK(ErrorOf<T, C>({70, 1024, 300, {.transpose_a = true, .accumulate = true}, 0}) <=
          kTolerance<C>);
  }
  SetNumThreads(threads);
}

TEST_CASE("large products match plain loops on any number of threads") {
  CheckLargeProducts<BFloat16, BFloat16>();
  CheckLargeProducts<BFloat16, float>();
  CheckLargeProducts<float, float>();
}

// Numbers of either sign whose sizes spread over eight powers of ten.
std::vector<float> SpreadValues(int64_t count, uint64_t seed) {
  std::vector<float> values = RandomValues<float>(count, seed);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] *= std::pow(10.0f, static_cast<float>(i * 7919 % 9) - 4.0f);
  }
  return values;
}

TEST_CASE("float32 products lose no more than float32 sums round off") {
  const int64_t k = GENERATE(33, 700, 2100);
  const int64_t m = 70;
  const int64_t n = 40;
  const std::vector<float> a = SpreadValues(m * k, 11);
  const std::vector<float> b = SpreadValues(n * k, 12);
  std::vector<float> c(static_cast<size_t>(m * n));
  Tensor result = OnDevice(c, {m, n});
  Stream stream(TestDevice());
  Gemm(OnDevice(a, {m, k}), OnDevice(b, {n, k}), {.transpose_b = true}, result, stream);
  CopyBack(result, c);
  double worst = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      double terms = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double term =
            double{a[static_cast<size_t>(i * k + p)]} * b[static_cast<size_t>(j * k + p)];
        sum += term;
        terms += std::abs(term);
      }
      worst = std::max(worst, std::abs(c[static_cast<size_t>(i * n + j)] - sum) / terms);
    }
  }
  CHECK(worst <= std::ldexp(1.0, -21));
}

TEMPLATE_TEST_CASE("a number that is not finite leaves its sums not finite, and no others", "",
                   float, BFloat16) {
  const int64_t size = 96;
  std::vector<TestType> a = RandomValues<TestType>(size * size, 13);
  const std::vector<TestType> b = RandomValues<TestType>(size * size, 14);
  a[5 * 96 + 7] = TestType(std::numeric_limits<float>::infinity());
  a[9 * 96 + 1] = TestType(std::numeric_limits<float>::quiet_NaN());
  std::vector<TestType> c(a.size());
  Tensor result = OnDevice(c, {size, size});
  Stream stream(TestDevice());
  Gemm(OnDevice(a, {size, size}), OnDevice(b, {size, size}), {}, result, stream);
  CopyBack(result, c);
  for (size_t i = 0; i < c.size(); ++i) {
    const size_t row = i / static_cast<size_t>(size);
    CHECK(std::isfinite(float(c[i])) == (row != 5 && row != 9));
  }
}

// Elements that end where memory ends: reading beyond them is a fault.
template <typename T>
class EdgeOfMemory {
 public:
  explicit EdgeOfMemory(int64_t elements) {
    const size_t bytes = static_cast<size_t>(elements) * sizeof(T);
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + page;
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    std::byte* const end = static_cast<std::byte*>(memory_) + size_ - page;
    REQUIRE(mprotect(end, page, PROT_NONE) == 0);
    data_ = reinterpret_cast<T*>(end - bytes);
  }
  ~EdgeOfMemory() { munmap(memory_, size_); }
  EdgeOfMemory(const EdgeOfMemory&) = delete;
  EdgeOfMemory& operator=(const EdgeOfMemory&) = delete;

  T* data() const { return data_; }

 private:
  size_t size_;
  void* memory_;
  T* data_;
};

TEMPLATE_TEST_CASE("products read and write nothing behind their matrices", "", float, BFloat16) {
  if (TestDevice().type != DeviceType::kCpu) return;
  const auto [m, n, k] = GENERATE(table<int64_t, int64_t, int64_t>(
      {{70, 42, 100}, {65, 33, 33}, {96, 64, 64}, {75, 81, 1101}, {3, 5, 7}}));
  const bool transpose_a = GENERATE(false, true);
  const bool transpose_b = GENERATE(false, true);
  const EdgeOfMemory<TestType> a(m * k);
  const EdgeOfMemory<TestType> b(k * n);
  const EdgeOfMemory<TestType> c(m * n);
  std::fill_n(a.data(), m * k, TestType(1.0f));
  std::fill_n(b.data(), k * n, TestType(0.5f));
  Tensor result = Tensor::View(c.data(), {m, n});
  Stream stream;
  Gemm(Tensor::View(a.data(), transpose_a ? Shape{k, m} : Shape{m, k}),
       Tensor::View(b.data(), transpose_b ? Shape{n, k} : Shape{k, n}),
       {.transpose_a = transpose_a, .transpose_b = transpose_b}, result, stream);
  const auto expected = static_cast<float>(TestType(0.5f * static_cast<float>(k)));
  CHECK(std::all_of(c.data(), c.data() + m * n,
                    [&](TestType x) { return static_cast<float>(x) == expected; }));
}

template <typename T>
double LinearError(int64_t rows, int64_t in, int64_t out, bool with_bias) {
  std::vector<T> x = RandomValues<T>(rows * in, 4);
  std::vector<T> weight = RandomValues<T>(out * in, 5);
  std::vector<T> bias = RandomValues<T>(out, 6, 3.0f);
  std::vector<T> y(static_cast<size_t>(rows * out));
  Tensor result = OnDevice(y, {rows, out});
  Stream stream(TestDevice());
  LinearForward(OnDevice(x, {rows, in}), OnDevice(weight, {out, in}),
                with_bias ? OnDevice(bias, {out}) : Tensor(), result, stream);
  CopyBack(result, y);
  std::vector<double> expected;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = with_bias ? double{float(bias[static_cast<size_t>(o)])} : 0.0;
      for (int64_t i = 0; i < in; ++i) {
        sum += double{float(x[static_cast<size_t>(r * in + i)])} *
               double{float(weight[static_cast<size_t>(o * in + i)])};
      }
      expected.push_back(sum);
    }
  }
  return RelativeError<T>(y, expected);
}

TEMPLATE_TEST_CASE("a linear layer adds its bias to every row", "", float, BFloat16) {
  for (const int64_t rows : {1, 31, 127, 300}) {
    CHECK(LinearError<TestType>(rows, 33, 31, true) <= kTolerance<TestType>);
    CHECK(LinearError<TestType>(rows, 64, 96, true) <= kTolerance<TestType>);
    CHECK(LinearError<TestType>(rows, 64, 96, false) <= kTolerance<TestType>);
  }
  CHECK(LinearError<TestType>(300, 1100, 40, true) <= kTolerance<TestType>);
}

TEST_CASE("float16 products match the reference on a GPU") {
  if (TestDevice().type == DeviceType::kCpu) return;  // the CPU has no float16
  CheckAllCases<Float16, Float16>();
  CheckAllCases<Float16, float>();
  CHECK(LinearError<Float16>(31, 64, 96, true) <= kTolerance<Float16>);
}

TEMPLATE_TEST_CASE("a product repeats its bits from run to run", "", float, BFloat16) {
  const Case test{301, 96, 64, {.transpose_b = true}, 0};
  Operands<TestType, float> first(test);
  Operands<TestType, float> again(test);
  Multiply(test, first);
  Multiply(test, again);
  CHECK(first.c == again.c);
}

// An update's first product overwrites a weight gradient; the next ones are added.
TEMPLATE_TEST_CASE("a weight gradient that is overwritten has the bits of one added to zeros", "",
                   float, BFloat16) {
  const bool on_cpu = TestDevice().type == DeviceType::kCpu;
  const int64_t wide = on_cpu ? 1536 : 96;  // elsewhere the work may be emulated
  for (const Case& shape : {Case{wide, 512, 1037, {.transpose_a = true}, 0},
                            Case{256, 256, 300, {.transpose_a = true}, 0},
                            Case{40, 33, 17, {.transpose_a = true}, 3}}) {
    if (!on_cpu && shape.k > 300) continue;
    Operands<TestType, float> overwritten(shape);
    Multiply(shape, overwritten);
    Case adds = shape;
    adds.options.accumulate = true;
    Operands<TestType, float> added(adds);
    std::fill(added.c.begin(), added.c.end(), 0.0f);
    Multiply(adds, added);
    for (int64_t row = 0; row < shape.m; ++row) {
      const auto begin = static_cast<std::ptrdiff_t>(row * (shape.n + shape.padding));
      const auto end = begin + static_cast<std::ptrdiff_t>(shape.n);
      REQUIRE(std::equal(added.c.begin() + begin, added.c.begin() + end,
                         overwritten.c.begin() + begin));
    }
  }
}

TEST_CASE("a thread count beyond the rows still covers them all") {
  const int threads = NumThreads();
  SetNumThreads(3);
  const Case rows{49, 40, 24, {.transpose_b = true}, 0};
  const Case weights{49, 40, 70, {.transpose_a = true, .accumulate = true}, 0};
  CHECK(ErrorOf<BFloat16, float>(rows) <= kTolerance<float>);
  CHECK(ErrorOf<BFloat16, float>(weights) <= kTolerance<float>);
  CHECK(ErrorOf<float, float>(rows) <= kTolerance<float>);
  SetNumThreads(threads);
}

TEMPLATE_TEST_CASE("empty extents give zeros or nothing", "", float, BFloat16) {
  CHECK(ErrorOf<TestType, float>({5, 7, 0, {}, 0}) == 0);
  CHECK(ErrorOf<TestType, float>({5, 7, 0, {.accumulate = true}, 4}) == 0);
  CHECK(ErrorOf<TestType, float>({0, 7, 3, {}, 0}) == 0);
  CHECK(ErrorOf<TestType, float>({5, 0, 3, {}, 0}) == 0);
}

TEST_CASE("products refuse shapes and types that do not fit") {
  std::vector<float> values(64);
  std::vector<BFloat16> narrow(64);
  Stream stream;
  const Tensor a = Tensor::View(values.data(), {4, 3});
  const Tensor b = Tensor::View(values.data(), {3, 5});
  Tensor c = Tensor::View(values.data(), {4, 5});
  Tensor wrong = Tensor::View(values.data(), {5, 4});
  Tensor vector = Tensor::View(values.data(), {20});
  Tensor narrow_c = Tensor::View(narrow.data(), {4, 5});
  const Tensor narrow_b = Tensor::View(narrow.data(), {3, 5});
  CHECK_THROWS_WITH(Gemm(a, a, {}, c, stream),
                    Catch::Contains("must have as many columns as op(b) has rows"));
  CHECK_THROWS_WITH(Gemm(a, b, {}, wrong, stream),
                    Catch::Contains("c must have as many rows as op(a)"));
  CHECK_THROWS_WITH(Gemm(a, b, {}, vector, stream), Catch::Contains("c is a matrix"));
  CHECK_THROWS_WITH(Gemm(a, narrow_b, {}, c, stream), Catch::Contains("must have the same type"));
  CHECK_THROWS_WITH(Gemm(a, b, {}, narrow_c, stream), Catch::Contains("c holds bfloat16"));
  CHECK_THROWS_WITH(LinearForward(a, b, {}, c, stream), Catch::Contains("weight is [out, in]"));
  const Tensor weight = Tensor::View(values.data(), {5, 3});
  CHECK_THROWS_WITH(LinearForward(a, weight, Tensor::View(values.data(), {4}), c, stream),
                    Catch::Contains("one entry per output"));
}

}  // namespace
}  // namespace dtrain
