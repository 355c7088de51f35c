// activations.cuh - the activations of ops/activation.h and their gradients on the GPU.
// SPDX-License-Identifier: Apache-2.0
//
// Each activation has Value(x) and Gradient(x, d), which is d times the derivative at x. All return
// NaN for NaN. The formulas are those of activation_lanes.h, but with the GPU's fast
// exponential and reciprocal. Their error is a few units in the last place of values below 1.
// GeluErfShortFunction is less exact, for types that would not show it.
#ifndef DTRAIN_OPS_INTERNAL_ACTIVATIONS_CUH_
#define DTRAIN_OPS_INTERNAL_ACTIVATIONS_CUH_

#include "dtrain/device/cuda/ptx.cuh"
#include "dtrain/ops/activation.h"

namespace dtrain {

inline constexpr float kLog2E = 1.44269504f;

struct ReluFunction {
  __device__ __forceinline__ static float Value(float x) { return x < 0.0f ? 0.0f : x; }
  __device__ __forceinline__ static float Gradient(float x, float d) {
    return x <= 0.0f ? 0.0f : d;
  }
};

// The normal distribution function and exp(-x^2 / 2). Phi(-|x|) = P(t) exp(-x^2 / 2) / 2 with t = 1
// / (1 + 0.35 |x| / sqrt(2)); P includes the factor 1/2. This takes one exponential and one
// reciprocal; erff() and expf() would take two exponentials.
struct NormalFunction {
  __device__ __forceinline__ explicit NormalFunction(float x) {
    const float t = FastReciprocal(fabsf(x) * (0.35f * 0.70710678f) + 1.0f);
    float p = t * -0.1079278125f + 0.430690114f;
    p = p * t - 0.43359349f;
    p = p * t + 0.4486600875f;
    p = p * t - 0.075327332f;
    p = p * t + 0.145631244f;
    p = p * t + 0.091367369f;
    p = p * t + 0.0004998034395f;
    exponential = FastExp2(x * x * (-0.5f * kLog2E));
    const float tail = p * exponential;
    phi = x < 0.0f ? tail : 1.0f - tail;
  }
  float phi;
  float exponential;
};

struct GeluErfFunction {
  __device__ __forceinline__ static float Value(float x) { return x * NormalFunction(x).phi; }
  __device__ __forceinline__ static float Gradient(float x, float d) {
    const NormalFunction normal(x);
    return d * (normal.phi + x * normal.exponential * 0.39894228f);  // 1 / sqrt(2 pi)
  }
};

// Gelu for 16-bit types: y = x s(x) with s = 1 / (1 + 2^-z), z = x P(x^2). The error of y is below
// 2.6e-5, a fifth of a unit in the last place of a bfloat16 value above 0.01. The gradient is the
// derivative of this y, s + y (1 - s) ln2 dz/dx, and 1.1e-4 off gelu's. This takes 8 and 14
// instructions, where erf takes 17 and 20: less time than the memory needs. P's coefficients make
// the largest error of y least for x^2 <= 25; beyond, s is 0 or 1 to float's precision.
struct GeluErfShortFunction {
  static constexpr float kLinear = 2.30112043f, kCubic = 0.106776773f, kFifth = -0.00101448806f;
  static constexpr float kLn2 = 0.69314718f;

  __device__ __forceinline__ static float Square(float x) { return fminf(x * x, 25.0f); }
  __device__ __forceinline__ static float Share(float x, float square) {
    const float p = square * (square * kFifth + kCubic) + kLinear;
    return FastReciprocal(1.0f + FastExp2(-x * p));
  }
  __device__ __forceinline__ static float Value(float x) { return x * Share(x, Square(x)); }
  __device__ __forceinline__ static float Gradient(float x, float d) {
    const float square = Square(x);
    const float s = Share(x, square);
    const float slope =
        square * (square * (5.0f * kFifth * kLn2) + 3.0f * kCubic * kLn2) + kLinear * kLn2;
    // In this order a factor of 0 is there before x grows.
    return d * (x * s * (1.0f - s) * slope + s);
  }
};

// (1 + tanh(u)) / 2 = 1 / (1 + e) with e = exp(-2 u). This form stays accurate for very negative x.
struct GeluTanhFunction {
  static constexpr float kTwoRootTwoOverPi = 1.5957691f;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;

  // e, clamped to where the quotient is practically 0 and e times it is still finite.
  __device__ __forceinline__ static float Exponential(float x) {
    const float power = x * (x * x * kCubic + 1.0f) * (-kTwoRootTwoOverPi * kLog2E);
    return FastExp2(power > 115.0f ? 115.0f : power);
  }
  __device__ __forceinline__ static float Value(float x) {
    return x * FastReciprocal(1.0f + Exponential(x));
  }
  __device__ __forceinline__ static float Gradient(float x, float d) {
    // Beyond these limits the derivative is 0 or 1, and the slope times the remainder would
    // overflow.
    x = x > 30.0f ? 30.0f : (x < -30.0f ? -30.0f : x);
    const float e = Exponential(x);
    const float s = FastReciprocal(1.0f + e);
    const float slope = (x * x * (3.0f * kCubic) + 1.0f) * kTwoRootTwoOverPi;
    return d * (s + x * s * (e * s) * slope);
  }
};

// Near 0, x + x^3 Q(x^2), where the quotient would cancel.
struct TanhFunction {
  __device__ __forceinline__ static float Value(float x) {
    const float square = x * x;
    float q = square * -0.006045165097f + 0.02096132911f;
    q = q * square - 0.05384326318f;
    q = q * square + 0.1333271885f;
    q = q * square - 0.3333332843f;
    const float near = x + x * square * q;
    const float e = FastExp2(fabsf(x) * (-2.0f * kLog2E));
    const float far = (1.0f - e) * FastReciprocal(1.0f + e);
    return square < 0.4f ? near : (x < 0.0f ? -far : far);
  }
  __device__ __forceinline__ static float Gradient(float x, float d) {
    const float t = Value(x);
    return d * (1.0f - t * t);
  }
};

// x sigmoid(x) = x / (1 + e) with e = exp(-x), in the form of GeluTanhFunction.
struct SwishFunction {
  // x, clamped to where the sigmoid is practically 0 or 1 and e is finite.
  __device__ __forceinline__ static float Held(float x) {
    return x > 80.0f ? 80.0f : (x < -80.0f ? -80.0f : x);
  }
  __device__ __forceinline__ static float Value(float x) {
    return x * FastReciprocal(1.0f + FastExp2(Held(x) * -kLog2E));
  }
  __device__ __forceinline__ static float Gradient(float x, float d) {
    x = Held(x);
    const float e = FastExp2(x * -kLog2E);
    const float s = FastReciprocal(1.0f + e);
    return d * (s + x * s * (e * s));
  }
};

// Calls body.operator()<A>() with the functions of the activation, for elements of type T.
template <typename T, typename Body>
void WithActivation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kRelu:
      return body.template operator()<ReluFunction>();
    case Activation::kGeluErf:
      if constexpr (sizeof(T) == 2) {
        return body.template operator()<GeluErfShortFunction>();
      } else {
        return body.template operator()<GeluErfFunction>();
      }
    case Activation::kGeluTanh:
      return body.template operator()<GeluTanhFunction>();
    case Activation::kTanh:
      return body.template operator()<TanhFunction>();
    case Activation::kSwish:
      return body.template operator()<SwishFunction>();
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ACTIVATIONS_CUH_
