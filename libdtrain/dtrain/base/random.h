// random.h - Philox4x32 random numbers: the same key gives the same numbers anywhere.
// SPDX-License-Identifier: Apache-2.0
//
//   RandomStream random({.seed = 7, .step = 3});
//   const uint32_t die = 1 + random.NextBelow(6);  // the same on every machine
//
// Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), section 3.3.
//
// Philox() has no state. Dropout computes the numbers of (seed, step, site, element) in forward,
// again in backward and again when it recomputes, and gets the same numbers on any number of
// threads.
#ifndef DTRAIN_BASE_RANDOM_H_
#define DTRAIN_BASE_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace dtrain {

// Identifies one sequence of random numbers. `site` is unique for each place that draws (a layer
// and a purpose). `step` changes from one draw to the next.
struct RandomKey {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;
};

namespace internal {

// All 64 bits of a product. CUDA's compiler makes one instruction of this statement, but two of the
// expression, of which one adds the product of the upper halves, 0.
constexpr uint64_t WideProduct(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    uint64_t product = 0;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
  }
#endif
  return uint64_t{a} * b;
}

}  // namespace internal

// Ten rounds have a wide margin of safety. Dropout draws with seven, the fewest with which
// Philox4x32 passes all tests of TestU01's BigCrush (Salmon et al., table 2).
inline constexpr int kPhiloxRounds = 10;
inline constexpr int kDropoutRounds = 7;

// 128 random bits: element `index` of the sequence `key`. Counter words: {index low, index high,
// step, site}; key words: {seed low, seed high}. Another number of rounds gives another sequence.
template <int kRounds = kPhiloxRounds>
constexpr std::array<uint32_t, 4> Philox(const RandomKey& key, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index);
  uint32_t c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = key.step;
  uint32_t c3 = key.site;
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = internal::WideProduct(0xD2511F53u, c0);
    const uint64_t p1 = internal::WideProduct(0xCD9E8D57u, c2);
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// A random number generator with state, for initialisers, shuffles and tests.
class RandomStream {
 public:
  // Starts after `drawn` 32-bit numbers of the sequence, to continue where another stream stopped.
  explicit RandomStream(const RandomKey& key, uint64_t drawn = 0) : key_(key), index_(drawn / 4) {
    if (drawn % 4 == 0) return;
    block_ = Philox(key_, index_++);
    used_ = static_cast<int>(drawn % 4);
  }

  // Number of 32-bit numbers drawn so far, including those that NextBelow() rejected.
  uint64_t drawn() const { return 4 * index_ - 4 + static_cast<uint64_t>(used_); }

  // The next 32 random bits.
  uint32_t NextUint32() {
    if (used_ == 4) {
      block_ = Philox(key_, index_++);
      used_ = 0;
    }
    return block_[static_cast<size_t>(used_++)];
  }
  // Uniform in [0, 1), with 24 random bits.
  float NextUniform() { return static_cast<float>(NextUint32() >> 8) * 0x1.0p-24f; }
  // Uniform in [0, bound), without bias (Lemire's multiplication with rejection). bound > 0.
  uint32_t NextBelow(uint32_t bound) {
    for (;;) {
      const uint64_t product = uint64_t{NextUint32()} * bound;
      if (static_cast<uint32_t>(product) >= (0u - bound) % bound) {
        return static_cast<uint32_t>(product >> 32);
      }
    }
  }

 private:
  RandomKey key_;
  uint64_t index_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_RANDOM_H_
