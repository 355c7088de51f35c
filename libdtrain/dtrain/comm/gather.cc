// gather.cc - objects of each rank as byte ranges of one all-gather.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/gather.h"

#include <algorithm>
#include <cstddef>

namespace dtrain {

void internal::AllGatherBlocks(Communicator& comm, void* all, int64_t bytes_each) {
  std::vector<int64_t> offsets(static_cast<size_t>(comm.size()) + 1);
  for (size_t r = 0; r < offsets.size(); ++r) offsets[r] = static_cast<int64_t>(r) * bytes_each;
  comm.StartAllGatherV(all, offsets)->Wait();
}

std::vector<std::string> AllGatherStrings(Communicator& comm, std::string_view text) {
  const std::vector<int64_t> lengths = AllGather(comm, static_cast<int64_t>(text.size()));
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  std::string all(static_cast<size_t>(offsets.back()), '\0');
  std::copy(text.begin(), text.end(), all.begin() + offsets[static_cast<size_t>(comm.rank())]);
  comm.StartAllGatherV(all.data(), offsets)->Wait();
  std::vector<std::string> texts;
  for (size_t r = 0; r < lengths.size(); ++r) {
    texts.push_back(all.substr(static_cast<size_t>(offsets[r]), static_cast<size_t>(lengths[r])));
  }
  return texts;
}

std::string BroadcastString(Communicator& comm, std::string_view text, int root) {
  int64_t length = static_cast<int64_t>(text.size());
  comm.Broadcast(&length, sizeof(length), root);
  std::string copy(static_cast<size_t>(length), '\0');
  if (comm.rank() == root) copy = text;
  comm.Broadcast(copy.data(), length, root);
  return copy;
}

}  // namespace dtrain
