// shard.h - options for opening shards, and a view of the ids in them; shared by all shards.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_SHARD_H_
#define DTRAIN_DATA_SHARD_H_

#include <algorithm>
#include <cstdint>
#include <optional>

namespace dtrain {

struct ShardOpenOptions {
  // If set, the shard must have been made with this vocabulary.
  std::optional<uint64_t> vocab_hash = std::nullopt;
  bool verify_checksum = true;  // reads the whole file, at some GB/s
};

// A view of stored ids, uint16 or uint32 each. Valid as long as the shard.
class TokenView {
 public:
  TokenView() = default;
  TokenView(const void* ids, int64_t size, bool wide) : ids_(ids), size_(size), wide_(wide) {}
  int64_t size() const { return size_; }
  int32_t operator[](int64_t i) const { return wide_ ? wide()[i] : int32_t{narrow()[i]}; }

  // Ids [begin, begin + count), which must be within the view.
  TokenView Part(int64_t begin, int64_t count) const {
    const auto* bytes = static_cast<const char*>(ids_);
    return {bytes + begin * (wide_ ? 4 : 2), count, wide_};
  }
  // True if all ids are in [0, bound).
  bool AllBelow(int64_t bound) const {
    const auto largest_of = [this](const auto* ids) {
      uint32_t largest = 0;
      for (int64_t i = 0; i < size_; ++i)
        largest = std::max(largest, static_cast<uint32_t>(ids[i]));
      return int64_t{largest};
    };
    return size_ == 0 || (wide_ ? largest_of(wide()) : largest_of(narrow())) < bound;
  }

 private:
  const int32_t* wide() const { return static_cast<const int32_t*>(ids_); }
  const uint16_t* narrow() const { return static_cast<const uint16_t*>(ids_); }

  const void* ids_ = nullptr;
  int64_t size_ = 0;
  bool wide_ = false;
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_SHARD_H_
