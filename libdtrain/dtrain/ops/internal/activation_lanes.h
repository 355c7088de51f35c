// activation_lanes.h - activations and their derivatives as vectors, for CPU kernels.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles, like simd.h.
#ifndef DTRAIN_OPS_INTERNAL_ACTIVATION_LANES_H_
#define DTRAIN_OPS_INTERNAL_ACTIVATION_LANES_H_

#include <cstdint>

#include "dtrain/base/internal/simd.h"
#include "dtrain/ops/activation.h"

namespace dtrain::DT_CPU_ISA {

// Each activation has Value(x) and Derivative(x). Both return NaN for NaN.
struct Relu {
  static Vec Value(Vec x) { return x < 0.0f ? Vec{} : x; }
  static Vec Derivative(Vec x) { return x <= 0.0f ? Vec{} : Broadcast(1.0f); }
};

// The normal distribution function Phi, and exp(-x^2 / 2), which its density needs too:
//   Phi(-|x|) = erfc(z) / 2, erfc(z) = exp(-z^2) P(t), t = 1 / (1 + 0.35 z), z = |x| / sqrt(2)
// (the form of Abramowitz and Stegun 7.1.26). P is the minimax polynomial of degree 7 of exp(z^2)
// erfc(z) over z in [0, 5], with an error of at most 3.5e-8.
struct Normal {
  explicit Normal(Vec x) {
    const Vec z = Abs(x) * 0.70710678f;
    const Vec t = Reciprocal(z * 0.35f + 1.0f);
    Vec p = t * -0.215855625f + 0.861380228f;
    p = p * t - 0.86718698f;
    p = p * t + 0.897320175f;
    p = p * t - 0.150654664f;
    p = p * t + 0.291262488f;
    p = p * t + 0.182734738f;
    p = p * t + 0.000999606878f;
    exponential = Exp(x * x * -0.5f);
    const Vec tail = 0.5f * p * exponential;
    phi = x < 0.0f ? tail : 1.0f - tail;
  }
  Vec phi;
  Vec exponential;
};

struct GeluErf {
  static Vec Value(Vec x) { return x * Normal(x).phi; }
  static Vec Derivative(Vec x) {
    const Normal normal(x);
    return normal.phi + x * normal.exponential * 0.39894228f;  // 1 / sqrt(2 pi)
  }
};

#if defined(__AVX512F__)

// Approximates a function on [0, 5.49] by cubics on 32 intervals around i * kStep, each through
// Chebyshev points; 0 beyond. Two registers hold one coefficient of all intervals, and one
// instruction looks it up. The cubics are polynomials in x itself. Near 0 none of their terms is
// much larger than the function, so the sum is accurate to 1e-7 in float.
class CubicTable {
 public:
  static constexpr double kStep = 0.18;
  static constexpr float kEnd = 5.5f;

  template <typename Function>
  explicit CubicTable(const Function& function) {
    for (int i = 0; i < 31; ++i) {
      double at[4];
      double difference[4];  // divided differences of Newton's interpolation
      for (int k = 0; k < 4; ++k) {
        at[k] = kStep * (i + 0.5 * __builtin_cos((2 * k + 1) * 3.14159265358979324 / 8));
        difference[k] = function(at[k]);
      }
      for (int order = 1; order < 4; ++order) {
        for (int k = 3; k >= order; --k) {
          difference[k] = (difference[k] - difference[k - 1]) / (at[k] - at[k - order]);
        }
      }
      double power[4] = {difference[3]};
      for (int k = 2; k >= 0; --k) {
        for (int j = 3; j > 0; --j) power[j] = power[j - 1] - at[k] * power[j];
        power[0] = difference[k] - at[k] * power[0];
      }
      for (int k = 0; k < 4; ++k) coefficients_[k][i] = static_cast<float>(power[k]);
    }
  }

  // The coefficients in registers, for use inside a loop.
  class Registers {
   public:
    explicit Registers(const CubicTable& table) {
      for (int k = 0; k < 4; ++k) {
        low_[k] = Load(table.coefficients_[k]);
        high_[k] = Load(table.coefficients_[k] + kLanes);
      }
    }
    // x in [0, kEnd]
    Vec At(Vec x) const {
      constexpr float kWhole = 8388608.0f;  // 2^23: from here on, floats are whole numbers
      const Vec stretch = x * static_cast<float>(1.0 / kStep) + kWhole;
      auto y = LookUp(3, stretch);
      for (int k = 2; k >= 0; --k) {
        y = _mm512_fmadd_ps(y, reinterpret_cast<__m512>(x), LookUp(k, stretch));
      }
      return reinterpret_cast<Vec>(y);
    }

   private:
    // Looks up by the lowest five bits of every lane.
    __m512 LookUp(int power, Vec stretch) const {
      return _mm512_permutex2var_ps(reinterpret_cast<__m512>(low_[power]),
                                    reinterpret_cast<__m512i>(stretch),
                                    reinterpret_cast<__m512>(high_[power]));
    }

    Vec low_[4], high_[4];
  };

 private:
  alignas(64) float coefficients_[4][32] = {};
};

// GeluErf with an error of 1e-6, for results that are rounded to bfloat16. With h(x) = x Phi(-x):
//   gelu(x) = max(x, 0) - h(|x|), gelu'(x) = 1 - h'(x) for x >= 0, h'(-x) for x < 0.
// This takes half the instructions of the exact form.
class RoundedGeluErf {
 public:
  Vec Value(Vec x) const { return ValueOf(x, Held(x)); }
  Vec Derivative(Vec x) const {
    const Vec slope = slope_.At(Held(x));
    return x < 0.0f ? slope : 1.0f - slope;
  }

#if defined(__AVX512BF16__)
  // Handles kSplitLanes elements of a row at once. Magnitudes are clamped as integers, which have
  // the same order as the values they encode.
  void Values(const BFloat16* from, BFloat16* to) const {
    const UintVec words = LoadWords(from);
    const SplitVec x = Split(words);
    const SplitVec held = Split(reinterpret_cast<UintVec>(_mm512_min_epu16(
        reinterpret_cast<__m512i>(words & 0x7fff7fffu), _mm512_set1_epi16(kEndBits))));
    StoreWords(to, Join({ValueOf(x.even, held.even), ValueOf(x.odd, held.odd)}));
  }
#endif

 private:
  static Vec Held(Vec x) { return Min(Broadcast(CubicTable::kEnd), Abs(x)); }
  Vec ValueOf(Vec x, Vec held) const { return Max(Vec{}, x) - value_.At(held); }

#if defined(__AVX512BF16__)
  static constexpr int16_t kEndBits = 0x40b0;  // CubicTable::kEnd in bfloat16
#endif

  static const CubicTable& ValueTable() {
    static const CubicTable table(
        [](double a) { return a * 0.5 * __builtin_erfc(a * 0.70710678118654752); });
    return table;
  }
  static const CubicTable& SlopeTable() {
    static const CubicTable table([](double a) {
      return 0.5 * __builtin_erfc(a * 0.70710678118654752) -
             a * 0.39894228040143268 * __builtin_exp(-0.5 * a * a);
    });
    return table;
  }

  const CubicTable::Registers value_{ValueTable()};
  const CubicTable::Registers slope_{SlopeTable()};
};

#else

typedef GeluErf RoundedGeluErf;

#endif

// (1 + tanh(u)) / 2 = sigmoid(2 u) = 1 / (1 + e) with e = exp(-2 u). This form stays accurate for
// very negative x; 1 - sigmoid = e sigmoid stays accurate for large x.
struct GeluTanh {
  static constexpr float kTwoRootTwoOverPi = 1.5957691f;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;

  // e, clamped to where sigmoid is practically 0 and e * sigmoid is still finite.
  static Vec Exponential(Vec x) {
    const Vec power = x * (x * x * kCubic + 1.0f) * -kTwoRootTwoOverPi;
    return Exp(power > 80.0f ? Broadcast(80.0f) : power);
  }
  static Vec Value(Vec x) { return x * Reciprocal(1.0f + Exponential(x)); }
  static Vec Derivative(Vec x) {
    // Beyond these limits the derivative is 0 or 1, and the slope times the remainder would
    // overflow.
    x = x > 30.0f ? Broadcast(30.0f) : x;
    x = x < -30.0f ? Broadcast(-30.0f) : x;
    const Vec e = Exponential(x);
    const Vec s = Reciprocal(1.0f + e);
    const Vec slope = (x * x * (3.0f * kCubic) + 1.0f) * kTwoRootTwoOverPi;
    return s + x * s * (e * s) * slope;
  }
};

// Near 0, x + x^3 Q(x^2), where the quotient would cancel. Q is the minimax polynomial for x^2 up
// to 0.4.
struct Tanh {
  static Vec Value(Vec x) {
    const Vec square = x * x;
    Vec q = square * -0.006045165097f + 0.02096132911f;
    q = q * square - 0.05384326318f;
    q = q * square + 0.1333271885f;
    q = q * square - 0.3333332843f;
    const Vec near = x + x * square * q;
    const Vec e = Exp((x < 0.0f ? x : -x) * 2.0f);
    const Vec far = (1.0f - e) / (1.0f + e);
    return square < 0.4f ? near : (x < 0.0f ? -far : far);
  }
  static Vec Derivative(Vec x) {
    const Vec t = Value(x);
    return 1.0f - t * t;
  }
};

// x sigmoid(x) = x / (1 + e) with e = exp(-x), in the form of GeluTanh.
struct Swish {
  // x, clamped to where the sigmoid is practically 0 or 1 and e is finite.
  static Vec Held(Vec x) {
    x = x > 80.0f ? Broadcast(80.0f) : x;
    return x < -80.0f ? Broadcast(-80.0f) : x;
  }
  static Vec Value(Vec x) { return x * Reciprocal(1.0f + Exp(-Held(x))); }
  static Vec Derivative(Vec x) {
    x = Held(x);
    const Vec e = Exp(-x);
    const Vec s = Reciprocal(1.0f + e);
    return s + x * s * (e * s);
  }
};

// Calls body.operator()<A>() with the functions of the activation, for elements of type T.
template <typename T, typename Body>
inline void WithActivation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kRelu:
      return body.template operator()<Relu>();
    case Activation::kGeluErf:
      if constexpr (sizeof(T) == sizeof(BFloat16))
        return body.template operator()<RoundedGeluErf>();
      return body.template operator()<GeluErf>();
    case Activation::kGeluTanh:
      return body.template operator()<GeluTanh>();
    case Activation::kTanh:
      return body.template operator()<Tanh>();
    case Activation::kSwish:
      return body.template operator()<Swish>();
  }
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_ACTIVATION_LANES_H_
