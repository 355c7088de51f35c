// fingerprint.h - a 128-bit hash that tells different bytes apart, but not against an adversary.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_FINGERPRINT_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dtrain::internal {

struct Fingerprint {
  uint64_t low = 0x9e3779b97f4a7c15u;
  uint64_t high = 0xd1b54a32d192ed03u;

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;

  // Two multiply-and-fold lanes over 8-byte words. Each piece ends with its length, so that moving
  // a border between pieces changes the result.
  void Add(const void* data, size_t bytes) {
    const char* from = static_cast<const char*>(data);
    size_t left = bytes;
    for (; left >= 8; left -= 8, from += 8) {
      uint64_t word;
      std::memcpy(&word, from, 8);
      Mix(word);
    }
    uint64_t tail = 0;
    if (left > 0) std::memcpy(&tail, from, left);
    Mix(tail);
    Mix(bytes);
  }

 private:
  // One-to-one in each lane: a changed word always changes the lane.
  void Mix(uint64_t word) {
    low = (low ^ word) * 0x9fb21c651e98df25u;
    low ^= low >> 32;
    high = (high + word) * 0xff51afd7ed558ccdu;
    high ^= high >> 29;
  }
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_FINGERPRINT_H_
