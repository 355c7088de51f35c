// mpi_communicator.cc - the transport over non-blocking MPI messages.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/comm/internal/mpi_library.h"
#include "dtrain/comm/internal/transport.h"
#include "dtrain/comm/internal/transport_communicator.h"

namespace dtrain {
namespace internal {
namespace {

// MPI is one per process, started for one caller at a time (MPI_THREAD_SERIALIZED); each of our
// calls returns at once.
std::mutex& MpiLock() {
  static std::mutex mutex;
  return mutex;
}

// A duplicate of MPI_COMM_WORLD, freed with the last transport on it.
struct MpiMessages {
  MpiLibrary& mpi;
  MpiLibrary::Handle comm;
  int tag_limit = 0;

  explicit MpiMessages(MpiLibrary& library)
      : mpi(library), comm(mpi.Duplicate(mpi.World())), tag_limit(mpi.LargestTag(comm)) {}
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;
  ~MpiMessages() {
    // A communicator may outlive its environment.
    if (mpi.Phase() == MpiLibrary::Life::kUp) mpi.Free(&comm);
  }
};

// Contexts are ranges of tags on one MPI communicator.
class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<MpiMessages> messages, int size)
      : messages_(std::move(messages)), ranks_(static_cast<size_t>(size)) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  Request Send(int peer, int tag, const void* data, size_t bytes) override {
    const std::lock_guard lock(MpiLock());
    const Request request = FreeSlot();
    At(request) = {messages_->mpi.Send(data, static_cast<int>(bytes), WorldRank(peer),
                                       first_tag_ + tag, messages_->comm),
                   -1, 0};
    bytes_sent_ += static_cast<int64_t>(bytes);
    return request;
  }

  Request Receive(int peer, int tag, void* data, size_t bytes) override {
    const std::lock_guard lock(MpiLock());
    const Request request = FreeSlot();
    At(request) = {messages_->mpi.Receive(data, static_cast<int>(bytes), WorldRank(peer),
                                          first_tag_ + tag, messages_->comm),
                   WorldRank(peer), bytes};
    return request;
  }

  bool Done(Request request) override {
    {
      const std::lock_guard lock(MpiLock());
      Slot& slot = At(request);
      const bool is_receive = slot.sender >= 0;
      int received = 0;
      const auto state = messages_->mpi.Test(&slot.request, is_receive ? &received : nullptr);
      if (state == MpiLibrary::State::kPending) return false;
      if (is_receive) CheckLength(slot, state, received);
    }
    free_.push_back(request);
    ++finished_;
    return true;
  }

  void Cancel(Request request) override {
    const std::lock_guard lock(MpiLock());
    messages_->mpi.Cancel(&At(request).request);
    free_.push_back(request);
  }

  std::unique_ptr<Transport> Split(std::span<const int> ranks, int context) override {
    if (context >= messages_->tag_limit / kTags) {
      throw CommError(absl::StrFormat("MPI has tags for %d communicators only: make fewer",
                                      messages_->tag_limit / kTags));
    }
    return std::unique_ptr<Transport>(new MpiTransport(*this, ranks, context));
  }

 private:
  MpiTransport(const MpiTransport& from, std::span<const int> ranks, int context)
      : Transport(from.next_context_), messages_(from.messages_), first_tag_(context * kTags) {
    for (const int r : ranks) ranks_.push_back(from.WorldRank(r));
  }

  struct Slot {
    MpiLibrary::Handle request;
    int sender = -1;  // of a receive, in the world
    size_t bytes = 0;
  };

  static void CheckLength(const Slot& slot, MpiLibrary::State state, int received) {
    if (state == MpiLibrary::State::kTruncated) {
      throw CommError(absl::StrFormat(
          "rank %d sent more than the %d bytes that were expected: the ranks are out of step",
          slot.sender, slot.bytes));
    }
    if (static_cast<size_t>(received) == slot.bytes) return;
    throw CommError(
        absl::StrFormat("rank %d sent %d bytes where %d were expected: the ranks are out of step",
                        slot.sender, received, slot.bytes));
  }

  Slot& At(Request request) { return slots_[static_cast<size_t>(request)]; }
  Request FreeSlot() {
    if (free_.empty()) {
      slots_.emplace_back();
      return static_cast<Request>(slots_.size()) - 1;
    }
    const Request request = free_.back();
    free_.pop_back();
    return request;
  }

  int WorldRank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }

  std::shared_ptr<MpiMessages> messages_;
  std::vector<int> ranks_;  // in MPI_COMM_WORLD
  int first_tag_ = 0;
  std::vector<Slot> slots_;
  std::vector<Request> free_;
};

}  // namespace
}  // namespace internal

std::unique_ptr<Communicator> MakeMpiCommunicator(const CommunicatorOptions& options) {
  internal::MpiLibrary* const mpi = internal::OpenedMpiLibrary();
  if (mpi == nullptr) throw CommError("MPI is not started: make an Environment first");
  auto messages = std::make_shared<internal::MpiMessages>(*mpi);
  const int size = mpi->Size(messages->comm);
  const int rank = mpi->Rank(messages->comm);
  using HostName = std::array<char, 257>;
  HostName mine{};
  const std::string name = mpi->ProcessorName();
  std::copy_n(name.begin(), std::min(name.size(), mine.size() - 1), mine.begin());
  std::vector<HostName> names(static_cast<size_t>(size));
  mpi->AllGather(mine.data(), names.data(), static_cast<int>(sizeof(HostName)), messages->comm);
  std::vector<std::string> hosts;
  for (const HostName& host : names) hosts.emplace_back(host.data());
  return std::make_unique<internal::TransportCommunicator>(
      std::make_unique<internal::MpiTransport>(std::move(messages), size), rank, std::move(hosts),
      options);
}

}  // namespace dtrain
