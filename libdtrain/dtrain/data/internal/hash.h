// hash.h - 64-bit hashes that are the same on every machine, and a set of hashes.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_HASH_H_
#define DTRAIN_DATA_INTERNAL_HASH_H_

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace dtrain::internal {

// Combines two words: the halves of their 128-bit product. The constants are primes near 2^64 /
// phi.
inline uint64_t MixHash(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xC2B2AE3D27D4EB4Fu);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Not cryptographic: collisions are possible, with a probability of 2^-64 per pair.
inline uint64_t StableHash(std::string_view bytes, uint64_t seed = 0) {
  uint64_t hash = MixHash(seed + 1, bytes.size() + 1);
  while (bytes.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = MixHash(hash, word);
    bytes.remove_prefix(8);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, bytes.data(), bytes.size());
  return MixHash(MixHash(hash, tail), 0x165667B19E3779F9u);
}

// A set of hashes: open addressing, 8 bytes per slot, at most half full.
class HashSet {
 public:
  // Returns true if `hash` was not in the set.
  bool Insert(uint64_t hash) {
    if (hash == 0) hash = 1;  // 0 marks a free slot
    if (2 * (size_ + 1) > slots_.size()) Grow();
    uint64_t& slot = *Find(hash);
    if (slot == hash) return false;
    slot = hash;
    ++size_;
    return true;
  }
  bool Contains(uint64_t hash) const {
    if (hash == 0) hash = 1;
    return size_ > 0 && *const_cast<HashSet*>(this)->Find(hash) == hash;
  }

 private:
  uint64_t* Find(uint64_t hash) {
    const size_t mask = slots_.size() - 1;
    size_t i = static_cast<size_t>(hash) & mask;
    while (slots_[i] != 0 && slots_[i] != hash) i = (i + 1) & mask;
    return &slots_[i];
  }
  void Grow() {
    std::vector<uint64_t> old(slots_.empty() ? 1024 : 2 * slots_.size());
    old.swap(slots_);
    for (const uint64_t hash : old) {
      if (hash != 0) *Find(hash) = hash;
    }
  }

  std::vector<uint64_t> slots_;
  size_t size_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_HASH_H_
