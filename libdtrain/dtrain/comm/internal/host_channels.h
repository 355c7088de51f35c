// host_channels.h - the shared memory of the ranks of one host, cut into channels.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_HOST_CHANNELS_H_
#define DTRAIN_COMM_INTERNAL_HOST_CHANNELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/comm/internal/shared_channel.h"
#include "dtrain/comm/internal/shared_segment.h"

namespace dtrain::internal {

// Empty until Open(), and for ever if the ranks share no memory.
class HostChannels {
 public:
  // Operations of channel 0 begin in the order in which they were made, those of channel 1 in
  // another order.
  static constexpr int kChannels = 2;

  // The size of the segment for `members` ranks.
  static size_t Bytes(int members, int64_t slot_bytes) {
    return kChannels * SharedChannel::Bytes(members, slot_bytes);
  }
  // The segment holds Bytes() of zeros. This rank is member `me`.
  void Open(const std::shared_ptr<SharedSegment>& segment, int members, int me,
            int64_t slot_bytes) {
    // Operations point to the channels, so they must not move.
    channels_.reserve(kChannels);
    const size_t bytes = SharedChannel::Bytes(members, slot_bytes);
    for (size_t c = 0; c < kChannels; ++c) {
      channels_.emplace_back(segment, c * bytes, members, me, slot_bytes);
    }
  }
  bool empty() const { return channels_.empty(); }
  SharedChannel* At(int channel) { return &channels_[static_cast<size_t>(channel)]; }

  // Counts what this rank has done. While it is unchanged, this rank waits.
  int64_t moves() const {
    int64_t moves = 0;
    for (const SharedChannel& channel : channels_) moves += channel.moves();
    return moves;
  }
  // The bytes that messages would have sent.
  int64_t bytes_sent() const {
    int64_t bytes = 0;
    for (const SharedChannel& channel : channels_) bytes += channel.bytes_sent();
    return bytes;
  }

 private:
  std::vector<SharedChannel> channels_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_HOST_CHANNELS_H_
