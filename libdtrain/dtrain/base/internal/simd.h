// simd.h - SIMD vectors for CPU kernels: loads, exp, log, sums and dropout.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles (cpu_kernel.h). Everything here is in namespace
// DT_CPU_ISA, so that the linker never mixes copies of a function for different instruction sets.
//
//   for (; c + kLanes <= n; c += kLanes) Store(y + c, Exp(Load(x + c)));
//   if (c < n) StorePartial(y + c, Exp(LoadPartial(x + c, n - c)), n - c);
//
// A Vec is a GCC vector: + - * / < and ?: work lane by lane and with a float scalar. A comparison
// yields an IntVec of 0 and -1.
#ifndef DTRAIN_BASE_INTERNAL_SIMD_H_
#define DTRAIN_BASE_INTERNAL_SIMD_H_

#include <cstdint>
#include <cstring>
#include <utility>

#include "dtrain/base/dtype.h"
#include "dtrain/base/internal/shuffle.h"
#include "dtrain/base/random.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(DT_NEON)
#include <arm_neon.h>
#endif
#if defined(DT_NEON) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define DT_NEON_BF16
#endif

namespace dtrain::DT_CPU_ISA {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t UintVec __attribute__((vector_size(4 * kLanes)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * kLanes)));
typedef uint64_t LongVec __attribute__((vector_size(4 * kLanes)));
// Has as many doubles as a Vec has floats; __builtin_convertvector() converts between the two.
typedef double DoubleVec __attribute__((vector_size(8 * kLanes)));
inline constexpr int kLongLanes = kLanes / 2;

// ---- memory -----------------------------------------------------------------------------------

inline Vec Broadcast(float value) { return Vec{} + value; }

// Zero-extends each lane to 32 bits. Written with intrinsics because GCC 12 needs six instructions
// for the generic form. The masked forms avoid a false warning (GCC bug 105593).
inline UintVec ZeroExtend(HalfVec bits) {
#if defined(__AVX512F__)
  return reinterpret_cast<UintVec>(
      _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(bits)));
#elif defined(__AVX2__)
  return reinterpret_cast<UintVec>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(bits)));
#else
  return __builtin_convertvector(bits, UintVec);
#endif
}

// The lower 16 bits of each lane.
inline HalfVec LowerHalves(UintVec words) {
#if defined(__AVX512F__)
  return reinterpret_cast<HalfVec>(
      _mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(words)));
#else
  return __builtin_convertvector(words, HalfVec);
#endif
}

inline Vec Widen(HalfVec bits) { return reinterpret_cast<Vec>(ZeroExtend(bits) << 16); }

// Converts to bfloat16, rounding to nearest even; NaN stays NaN. If x86's own instruction is used,
// numbers below 2^-126 become 0.
inline HalfVec Narrow(Vec value) {
#if defined(__AVX512BF16__)
  return reinterpret_cast<HalfVec>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(value)));
#elif defined(DT_NEON_BF16)
  return reinterpret_cast<HalfVec>(vcvt_bf16_f32(reinterpret_cast<float32x4_t>(value)));
#else
  const UintVec word = reinterpret_cast<UintVec>(value);
  const UintVec upper = word >> 16;
  const UintVec rounded = (word + 0x7fffu + (upper & 1u)) >> 16;
  return LowerHalves(value == value ? rounded : upper | 0x40u);
#endif
}

// Loads and stores kLanes elements; the address need not be aligned.
inline Vec Load(const float* p) {
  Vec value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}
inline HalfVec LoadHalves(const BFloat16* p) {
  HalfVec bits;
  std::memcpy(&bits, p, sizeof(bits));
  return bits;
}
inline Vec Load(const BFloat16* p) { return Widen(LoadHalves(p)); }
inline void Store(float* p, Vec value) { std::memcpy(p, &value, sizeof(value)); }
inline void Store(BFloat16* p, Vec value) {
  const HalfVec bits = Narrow(value);
  std::memcpy(static_cast<void*>(p), &bits, sizeof(bits));
}

#if defined(__AVX512BF16__)
// Stores the elements of `low`, then those of `high`, with one conversion instruction that is as
// fast as a single Narrow().
inline void StoreTwo(BFloat16* p, Vec low, Vec high) {
  const auto bits =
      _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low));
  std::memcpy(static_cast<void*>(p), &bits, sizeof(bits));
}
#endif

// Loads or stores only the first `count` < kLanes elements; the other lanes load as 0.
inline Vec LoadPartial(const float* p, int64_t count) {
  Vec value{};
  for (int i = 0; i < count; ++i) {
    float element;
    std::memcpy(&element, p + i, sizeof(element));
    value[i] = element;
  }
  return value;
}
inline HalfVec LoadHalvesPartial(const BFloat16* p, int64_t count) {
  HalfVec bits{};
  for (int i = 0; i < count; ++i) bits[i] = p[i].bits;
  return bits;
}
inline Vec LoadPartial(const BFloat16* p, int64_t count) {
  return Widen(LoadHalvesPartial(p, count));
}
inline void StorePartial(float* p, Vec value, int64_t count) {
  for (int i = 0; i < count; ++i) p[i] = value[i];
}
inline void StorePartial(BFloat16* p, Vec value, int64_t count) {
  const HalfVec bits = Narrow(value);
  for (int i = 0; i < count; ++i) p[i].bits = bits[i];
}

inline float LoadScalar(const float* p) { return *p; }
inline float LoadScalar(const BFloat16* p) {
  const uint32_t word = uint32_t{p->bits} << 16;
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

// ---- pairs of bfloat16 -------------------------------------------------------------------------

// True if the processor has an instruction for products of bfloat16 pairs. A pair occupies 32 bits
// and is stored in float arrays, but never used as a float.
#if defined(__AVX512BF16__) || defined(DT_NEON_BF16)
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif

// Each lane becomes the pair (low, high).
inline Vec MakePairs(HalfVec low, HalfVec high) {
  return reinterpret_cast<Vec>(ZeroExtend(low) | ZeroExtend(high) << 16);
}

// The same pair in all lanes.
inline Vec BroadcastPair(const float* pair) {
  uint32_t bits;
  std::memcpy(&bits, pair, sizeof(bits));
  return reinterpret_cast<Vec>(UintVec{} + bits);
}

// sums + low(a) low(b) + high(a) high(b), computed in float32. Operands below 2^-126 count as 0.
inline Vec AddPairProducts(Vec sums, Vec a, Vec b) {
#if defined(__AVX512BF16__)
  return reinterpret_cast<Vec>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sums),
                                                reinterpret_cast<__m512bh>(a),
                                                reinterpret_cast<__m512bh>(b)));
#elif defined(DT_NEON_BF16)
  return reinterpret_cast<Vec>(vbfdotq_f32(reinterpret_cast<float32x4_t>(sums),
                                           reinterpret_cast<bfloat16x8_t>(a),
                                           reinterpret_cast<bfloat16x8_t>(b)));
#else
  const auto low = [](Vec pairs) {
    return reinterpret_cast<Vec>(reinterpret_cast<UintVec>(pairs) << 16);
  };
  const auto high = [](Vec pairs) {
    return reinterpret_cast<Vec>(reinterpret_cast<UintVec>(pairs) & 0xffff0000u);
  };
  return sums + low(a) * low(b) + high(a) * high(b);
#endif
}

// ---- rows of bfloat16, two vectors at once -----------------------------------------------------
//
// Splits 2 * kLanes elements into a vector of the even ones and a vector of the odd ones. This
// takes one shift and one mask; widening neighbouring elements takes two instructions per vector.

#if defined(__AVX512BF16__)

inline constexpr int64_t kSplitLanes = 2 * kLanes;

struct SplitVec {
  Vec even, odd;
  friend SplitVec operator+(const SplitVec& a, const SplitVec& b) {
    return {a.even + b.even, a.odd + b.odd};
  }
};

inline UintVec LoadWords(const BFloat16* p) {
  UintVec words;
  std::memcpy(&words, p, sizeof(words));
  return words;
}

inline SplitVec Split(UintVec words) {
  return {reinterpret_cast<Vec>(words << 16), reinterpret_cast<Vec>(words & 0xffff0000u)};
}

// Joins both vectors again; rounds like Narrow().
inline UintVec Join(const SplitVec& value) {
  typedef uint16_t Words __attribute__((vector_size(64)));
  constexpr Words kInTurns = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                              8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  // First all even elements, then all odd ones.
  const auto halves = _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(value.odd),
                                          reinterpret_cast<__m512>(value.even));
  return reinterpret_cast<UintVec>(_mm512_permutexvar_epi16(reinterpret_cast<__m512i>(kInTurns),
                                                            reinterpret_cast<__m512i>(halves)));
}

inline void StoreWords(BFloat16* p, UintVec words) {
  std::memcpy(static_cast<void*>(p), &words, sizeof(words));
}

#endif

// ---- arithmetic -------------------------------------------------------------------------------

// Prevents the optimiser, which may reorder sums in these files, from merging `value` into a later
// sum. (__builtin_assoc_barrier has the same effect, but GCC 12 splits a vector into lanes for it.)
inline Vec SumBarrier(Vec value) {
#if defined(__x86_64__)
  asm("" : "+v"(value));
#elif defined(__aarch64__)
  asm("" : "+w"(value));
#endif
  return value;
}

// Returns b if a or b is NaN. (GCC 12 compiles the generic form to two instructions.)
inline Vec Max(Vec a, Vec b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(
      _mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Vec>(
      _mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a > b ? a : b;
#endif
}
inline Vec Min(Vec a, Vec b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(
      _mm512_maskz_min_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Vec>(
      _mm256_min_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a < b ? a : b;
#endif
}

inline Vec Abs(Vec x) { return reinterpret_cast<Vec>(reinterpret_cast<UintVec>(x) & 0x7fffffffu); }

// 1 / x for x >= 1 with an error of one or two roundings; NaN for NaN. If a division is slower,
// this uses the processor's estimate and one Newton step.
inline Vec Reciprocal(Vec x) {
#if defined(__AVX512F__)
  const Vec held = Min(Broadcast(8e37f), x);  // infinity would give infinity * 0 = NaN
  const Vec y =
      reinterpret_cast<Vec>(_mm512_maskz_rcp14_ps(0xffff, reinterpret_cast<__m512>(held)));
  return y + y * SumBarrier(1.0f - held * y);
#else
  return 1.0f / x;
#endif
}

inline constexpr float kMinusInfinity = -__builtin_inff();

inline IntVec LaneNumbers() {
  IntVec lanes{};
  for (int i = 0; i < kLanes; ++i) lanes[i] = i;
  return lanes;
}

// The lanes of `x` for columns below `valid`, and `other` in the remaining lanes. Lane 0 is column
// `begin`.
inline Vec Below(int64_t begin, int64_t valid, Vec x, float other) {
  if (begin + kLanes <= valid) return x;
  return LaneNumbers() < static_cast<int32_t>(valid - begin) ? x : Broadcast(other);
}

// The compiler turns the loop into the vector instruction, which rounds correctly.
inline Vec Sqrt(Vec x) {
#if defined(DT_NEON)
  return reinterpret_cast<Vec>(vsqrtq_f32(reinterpret_cast<float32x4_t>(x)));
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

#if defined(__AVX512F__)
typedef float HalfOfVec __attribute__((vector_size(32)));
inline HalfOfVec LowHalf(Vec v) { return PartOf<HalfOfVec, 0, 1, 2, 3, 4, 5, 6, 7>(v); }
inline HalfOfVec HighHalf(Vec v) { return PartOf<HalfOfVec, 8, 9, 10, 11, 12, 13, 14, 15>(v); }
#elif defined(__AVX2__)
typedef Vec HalfOfVec;
inline HalfOfVec LowHalf(Vec v) { return v; }
#endif

#if defined(__AVX2__)
typedef float QuarterVec __attribute__((vector_size(16)));
inline QuarterVec LowQuarter(HalfOfVec v) { return PartOf<QuarterVec, 0, 1, 2, 3>(v); }
inline QuarterVec HighQuarter(HalfOfVec v) { return PartOf<QuarterVec, 4, 5, 6, 7>(v); }
#else
typedef Vec QuarterVec;
#endif

inline float HorizontalSum(Vec v) {
#if defined(DT_NEON)
  return vaddvq_f32(reinterpret_cast<float32x4_t>(v));
#else
#if defined(__AVX512F__)
  const HalfOfVec half = LowHalf(v) + HighHalf(v);
  const QuarterVec q = LowQuarter(half) + HighQuarter(half);
#elif defined(__AVX2__)
  const QuarterVec q = LowQuarter(v) + HighQuarter(v);
#else
  const QuarterVec q = v;
#endif
  return (q[0] + q[2]) + (q[1] + q[3]);
#endif
}

// One step of HorizontalSums(): adds the off-diagonal kStep x kStep blocks of rows a and b to the
// diagonal ones.
template <int kStep, int... kLane>
inline Vec AddBlocks(const Vec& a, const Vec& b, std::integer_sequence<int, kLane...> /*lanes*/) {
#if defined(DT_NEON)
  // Adds neighbours, a's before b's: two steps of this end in the same order.
  return reinterpret_cast<Vec>(
      vpaddq_f32(reinterpret_cast<float32x4_t>(a), reinterpret_cast<float32x4_t>(b)));
#else
  return Shuffle<((kLane & kStep) != 0 ? kLane + kLanes : kLane)...>(a, b) +
         Shuffle<((kLane & kStep) != 0 ? kLane - kStep + kLanes : kLane + kStep)...>(a, b);
#endif
}

// Lane r of the result is the sum of all lanes of rows[r]. Overwrites the rows.
template <int kStep = 1>
inline Vec HorizontalSums(Vec (&rows)[kLanes]) {
  if constexpr (kStep == kLanes) {
    return rows[0];
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes; i += 2 * kStep) {
      rows[i] =
          AddBlocks<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, kLanes>{});
    }
    return HorizontalSums<2 * kStep>(rows);
  }
}

inline double HorizontalSum(const DoubleVec& v) {
  double sum = 0.0;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

inline float HorizontalMax(Vec v) {
#if defined(DT_NEON)
  return vmaxnmvq_f32(reinterpret_cast<float32x4_t>(v));
#else
#if defined(__AVX512F__)
  const HalfOfVec low = LowHalf(v);
  const HalfOfVec high = HighHalf(v);
  const HalfOfVec half = low > high ? low : high;
  const QuarterVec a = LowQuarter(half);
  const QuarterVec b = HighQuarter(half);
  const QuarterVec q = a > b ? a : b;
#elif defined(__AVX2__)
  const QuarterVec a = LowQuarter(v);
  const QuarterVec b = HighQuarter(v);
  const QuarterVec q = a > b ? a : b;
#else
  const QuarterVec q = v;
#endif
  const float even = q[0] > q[2] ? q[0] : q[2];
  const float odd = q[1] > q[3] ? q[1] : q[3];
  return even > odd ? even : odd;
#endif
}

#if defined(DT_NEON)
// x, at least `least` and at most `most`; NaN stays NaN.
inline Vec Held(Vec x, float least, float most) {
  return reinterpret_cast<Vec>(vminq_f32(
      vmaxq_f32(reinterpret_cast<float32x4_t>(x), vdupq_n_f32(least)), vdupq_n_f32(most)));
}
#endif

inline constexpr float kLog2E = 1.44269504f;

// e^x with a relative error below 2e-7 for x in [-87, 88.7]; 0 below, infinity above, NaN for NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 p(r), where p is the minimax polynomial of
// degree 4.
inline Vec Exp(Vec x) {
  constexpr float kLog2High = 0.693359375f;  // few bits, so that n * kLog2High is exact
  constexpr float kLog2Low = -2.12194442e-4f;
  const auto polynomial = [](Vec r) {
    Vec p = r * 1.395080704e-3f + 8.369073272e-3f;
    p = p * r + 4.166620225e-2f;
    p = p * r + 1.666651666e-1f;
    p = p * r + 0.5f;
    return SumBarrier(p * r * r + r);
  };
#if defined(__AVX512F__)
  const __mmask16 counts =
      _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
  x = Min(Broadcast(89.0f), x);
  const Vec n = reinterpret_cast<Vec>(
      _mm512_maskz_roundscale_ps(0xffff, reinterpret_cast<__m512>(x * kLog2E), 0));
  const Vec r = SumBarrier(x - n * kLog2High) - n * kLog2Low;
  return reinterpret_cast<Vec>(_mm512_maskz_scalef_ps(
      counts, reinterpret_cast<__m512>(polynomial(r) + 1.0f), reinterpret_cast<__m512>(n)));
#else
#if defined(DT_NEON)
  x = Held(x, -87.0f, 89.0f);
  const IntVec n = reinterpret_cast<IntVec>(
      vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(x * kLog2E)));  // to nearest
  const Vec nf = __builtin_convertvector(n, Vec);
#else
  x = Min(Broadcast(89.0f), Max(Broadcast(-87.0f), x));
  // A float this large has no fraction, so the sum rounds to nearest. Its lowest bits are n's.
  constexpr float kRound = 0x1.8p23f;
  const Vec rounded = SumBarrier(x * kLog2E + kRound);
  const IntVec n = reinterpret_cast<IntVec>(rounded);
  const Vec nf = SumBarrier(rounded - kRound);
#endif
  const Vec r = SumBarrier(x - nf * kLog2High) - nf * kLog2Low;
  const Vec p = polynomial(r);
  // Uses 2^(n - 1), which a float can hold for every n here; 2^n would overflow for n = 128. For n
  // = -126 it is 0.
  const Vec power = reinterpret_cast<Vec>((n + 126) << 23);
  return SumBarrier(p * 2.0f + 2.0f) * power;
#endif
}

// 2^x for results that are rounded to bfloat16. The relative error is below 1e-5 for x in [-125,
// 127], and 2^0 is exactly 1. Below that range the result is (nearly) 0, above it infinity; NaN for
// NaN.
//
// 2^x = 2^floor(x) 2^r with 0 <= r < 1; 2^r is the minimax polynomial of degree 4.
inline Vec RoundedExp2(Vec x) {
  [[maybe_unused]] const auto polynomial = [](Vec r) {
    Vec p = r * 0.01342668431f + 0.05224247414f;
    p = p * r + 0.2412802048f;
    p = p * r + 0.6930448449f;
    return p * r + 1.0f;
  };
#if defined(__AVX512DQ__)
  constexpr int kLessFloor = 9;  // round down, without floating-point exceptions
  const Vec r = reinterpret_cast<Vec>(
      _mm512_maskz_reduce_ps(0xffff, reinterpret_cast<__m512>(x), kLessFloor));
  return reinterpret_cast<Vec>(_mm512_maskz_scalef_ps(
      0xffff, reinterpret_cast<__m512>(polynomial(r)), reinterpret_cast<__m512>(x)));
#elif defined(DT_NEON)
  x = Held(x, -127.0f, 128.0f);  // whose powers are 0 and infinity below
  const Vec floor = reinterpret_cast<Vec>(vrndmq_f32(reinterpret_cast<float32x4_t>(x)));
  const IntVec n = __builtin_convertvector(floor, IntVec);
  return polynomial(x - floor) * reinterpret_cast<Vec>((n + 127) << 23);
#else
  return Exp(x * 0.69314718f);
#endif
}

// The natural logarithm of x >= 2^-126, with a relative error of 2e-7 (absolute near x = 1).
//
// x = 2^n (1 + f) with -0.3 < f < 0.42; log(1 + f) = f - f^2 / 2 + f^3 p(f), where p is the minimax
// polynomial of degree 6.
inline Vec Log(Vec x) {
  const IntVec word = reinterpret_cast<IntVec>(x);
  const IntVec n = (word - 0x3f3504f3) >> 23;  // exponent that puts 1 + f between sqrt(1/2) and
                                               // sqrt(2)
  const Vec f = reinterpret_cast<Vec>(word - (n << 23)) - 1.0f;
  Vec p = f * 0.08700436354f - 0.1426748633f;
  p = p * f + 0.1491476744f;
  p = p * f - 0.1657758504f;
  p = p * f + 0.199630633f;
  p = p * f - 0.2500133812f;
  p = p * f + 0.3333390951f;
  const Vec square = f * f;
  return SumBarrier((p * f - 0.5f) * square + f) + __builtin_convertvector(n, Vec) * 0.693147181f;
}

// ---- dropout ----------------------------------------------------------------------------------

// Multiplies the lower 32 bits of each lane to a 64-bit product.
inline LongVec MultiplyLow(LongVec a, LongVec b) {
#if defined(__AVX512F__)
  // The unmasked form causes a false warning in GCC 12 (bug 105593).
  return reinterpret_cast<LongVec>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<LongVec>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__x86_64__)
  return reinterpret_cast<LongVec>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#elif defined(DT_NEON)
  return reinterpret_cast<LongVec>(vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)),
                                             vmovn_u64(reinterpret_cast<uint64x2_t>(b))));
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// Philox<kDropoutRounds>(key, index) of base/random.h for one index per lane: words 0 and 1 in
// `low`, words 2 and 3 in `high`. During the rounds, the upper halves of the state hold garbage
// that no product reads.
inline void PhiloxLanes(const RandomKey& key, LongVec index, LongVec& low, LongVec& high) {
  const LongVec m0 = LongVec{} + 0xD2511F53u;
  const LongVec m1 = LongVec{} + 0xCD9E8D57u;
  LongVec c0 = index;
  LongVec c1 = index >> 32;
  LongVec c2 = LongVec{} + key.step;
  LongVec c3 = LongVec{} + key.site;
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < kDropoutRounds; ++round) {
    const LongVec p0 = MultiplyLow(c0, m0);
    const LongVec p1 = MultiplyLow(c2, m1);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  low = (c0 & 0xffffffffu) | (c1 << 32);
  high = (c2 & 0xffffffffu) | (c3 << 32);
}

// Keeps the bits of each half of a word that dropout compares.
inline LongVec ComparedBits(LongVec words) { return words & 0x7fff7fff7fff7fffu; }

// Writes the 8 random 15-bit numbers of each lane's draw, lane by lane.
inline void StoreDraws(LongVec low, LongVec high, uint16_t* draws) {
#if defined(__AVX512F__)
  const LongVec a = Shuffle<0, 8, 1, 9, 2, 10, 3, 11>(low, high);
  const LongVec b = Shuffle<4, 12, 5, 13, 6, 14, 7, 15>(low, high);
#elif defined(__AVX2__)
  const LongVec a = Shuffle<0, 4, 1, 5>(low, high);
  const LongVec b = Shuffle<2, 6, 3, 7>(low, high);
#else
  const LongVec a = Shuffle<0, 2>(low, high);
  const LongVec b = Shuffle<1, 3>(low, high);
#endif
  std::memcpy(draws, &a, sizeof(a));
  std::memcpy(draws + 4 * kLongLanes, &b, sizeof(b));
}

// The vector 0, 1, 2, ...
inline LongVec CountLanes() {
  LongVec count{};
  for (int lane = 0; lane < kLongLanes; ++lane) count[lane] = static_cast<uint64_t>(lane);
  return count;
}

// DrawDropout() may write up to this many elements more than requested.
inline constexpr int kDrawPadding = 8 * kLongLanes;

// Draws the random bits of the elements of `count` draws from `first` on (ops/dropout.h). draws:
// [count * 8], followed by kDrawPadding elements that may be overwritten.
inline void DrawDropout(const RandomKey& key, uint64_t first, int64_t count, uint16_t* draws) {
  for (int64_t done = 0; done < count; done += kLongLanes) {
    LongVec low;
    LongVec high;
    PhiloxLanes(key, CountLanes() + (first + static_cast<uint64_t>(done)), low, high);
    StoreDraws(ComparedBits(low), ComparedBits(high), draws + done * 8);
  }
}

// The lanes' even words, then their odd words: `from` first, then `then`, for each four lanes (or
// all, if there are fewer).
inline LongVec EvenWords(LongVec from, LongVec then) {
  const auto a = reinterpret_cast<UintVec>(from);
  const auto b = reinterpret_cast<UintVec>(then);
#if defined(__AVX512F__)
  return reinterpret_cast<LongVec>(
      Shuffle<0, 2, 4, 6, 16, 18, 20, 22, 8, 10, 12, 14, 24, 26, 28, 30>(a, b));
#elif defined(__AVX2__)
  return reinterpret_cast<LongVec>(Shuffle<0, 2, 4, 6, 8, 10, 12, 14>(a, b));
#else
  return reinterpret_cast<LongVec>(Shuffle<0, 2, 4, 6>(a, b));
#endif
}

// Draws the random bits of attention's probabilities (ops/dropout.h) for 16 queries and `blocks`
// blocks of 16 keys. The lower eight queries have the rows first_row, first_row + row_step, ..., of
// draws_of_row draws each. first_draw: the first key's draw in its row. draws: [16, stride], stride
// >= blocks * 16 and a multiple of 4 * kLongLanes.
inline void DrawScores(const RandomKey& key, uint32_t first_row, uint32_t row_step,
                       uint32_t draws_of_row, uint64_t first_draw, int64_t blocks, int64_t stride,
                       uint16_t* draws) {
  constexpr int64_t kDrawsOfBlock = 4;
  constexpr int64_t kWholeBlocks = kLongLanes < kDrawsOfBlock ? 1 : kLongLanes / kDrawsOfBlock;
  for (int64_t query = 0; query < 8; ++query) {
    uint16_t* const lower = draws + query * stride;
    uint16_t* const upper = lower + 8 * stride;
    const uint64_t first = uint64_t{first_row} * draws_of_row + first_draw;
    for (int64_t block = 0; block < blocks; block += kWholeBlocks) {
      for (int64_t draw = 0; draw < kDrawsOfBlock; draw += kLongLanes) {
        LongVec low;
        LongVec high;
        PhiloxLanes(key,
                    CountLanes() + (first + static_cast<uint64_t>(block * kDrawsOfBlock + draw)),
                    low, high);
        low = ComparedBits(low);
        high = ComparedBits(high);
        const LongVec of_lower = EvenWords(low, high);
        const LongVec of_upper = EvenWords(low >> 32, high >> 32);
        uint16_t* const to_lower = lower + block * 16 + 2 * draw;
        uint16_t* const to_upper = upper + block * 16 + 2 * draw;
        if constexpr (kLongLanes >= kDrawsOfBlock) {
          std::memcpy(to_lower, &of_lower, sizeof(of_lower));
          std::memcpy(to_upper, &of_upper, sizeof(of_upper));
        } else {
          // Half a vector is of the first eight keys, half of the others.
          constexpr size_t kHalf = sizeof(LongVec) / 2;
          const auto* const lower_bytes = reinterpret_cast<const char*>(&of_lower);
          const auto* const upper_bytes = reinterpret_cast<const char*>(&of_upper);
          std::memcpy(to_lower, lower_bytes, kHalf);
          std::memcpy(to_lower + 8, lower_bytes + kHalf, kHalf);
          std::memcpy(to_upper, upper_bytes, kHalf);
          std::memcpy(to_upper + 8, upper_bytes + kHalf, kHalf);
        }
      }
    }
    first_row += row_step;
  }
}

// `scale` in each lane whose element is kept, 0 if it is dropped.
inline Vec KeepScale(const uint16_t* draws, uint32_t threshold, float scale) {
  HalfVec bits;
  std::memcpy(&bits, draws, sizeof(bits));
  return ZeroExtend(bits) < threshold ? Vec{} : Broadcast(scale);
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_BASE_INTERNAL_SIMD_H_
