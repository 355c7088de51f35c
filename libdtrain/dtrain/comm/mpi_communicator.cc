// mpi_communicator.cc - the transport over non-blocking MPI messages.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/mpi_communicator.h"

#include <mpi.h>

#include <array>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/comm/internal/mpi_error.h"
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
  MPI_Comm comm = MPI_COMM_NULL;
  int tag_limit = 0;

  MpiMessages() {
    DT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    DT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int* limit = nullptr;
    int found = 0;
    DT_MPI(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&limit), &found));
    tag_limit = found != 0 ? *limit : 32767;
  }
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;
  ~MpiMessages() {
    int finalized = 0;  // a communicator may outlive its environment
    MPI_Finalized(&finalized);
    if (finalized == 0) MPI_Comm_free(&comm);
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
    slots_[static_cast<size_t>(request)] = {MPI_REQUEST_NULL, -1, 0};
    DT_MPI(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, WorldRank(peer), first_tag_ + tag,
                     messages_->comm, At(request)));
    bytes_sent_ += static_cast<int64_t>(bytes);
    return request;
  }

  Request Receive(int peer, int tag, void* data, size_t bytes) override {
    const std::lock_guard lock(MpiLock());
    const Request request = FreeSlot();
    slots_[static_cast<size_t>(request)] = {MPI_REQUEST_NULL, WorldRank(peer), bytes};
    DT_MPI(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, WorldRank(peer), first_tag_ + tag,
                     messages_->comm, At(request)));
    return request;
  }

  bool Done(Request request) override {
    const Slot slot = slots_[static_cast<size_t>(request)];
    int flag = 0;
    MPI_Status status;
    {
      const std::lock_guard lock(MpiLock());
      const int result = MPI_Test(At(request), &flag, &status);
      if (slot.sender >= 0) CheckNotTruncated(slot, result);
      ThrowOnMpiError(result, "MPI_Test");
      if (flag != 0 && slot.sender >= 0) CheckLength(slot, status);
    }
    if (flag == 0) return false;
    free_.push_back(request);
    ++finished_;
    return true;
  }

  void Cancel(Request request) override {
    const std::lock_guard lock(MpiLock());
    MPI_Cancel(At(request));
    MPI_Request_free(At(request));
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
    MPI_Request request = MPI_REQUEST_NULL;
    int sender = -1;  // of a receive, in the world
    size_t bytes = 0;
  };

  // Says who it was where MPI says only that a message was longer than its memory.
  static void CheckNotTruncated(const Slot& slot, int result) {
    int kind = MPI_SUCCESS;
    if (result != MPI_SUCCESS) MPI_Error_class(result, &kind);
    if (kind != MPI_ERR_TRUNCATE) return;
    throw CommError(absl::StrFormat(
        "rank %d sent more than the %d bytes that were expected: the ranks are out of step",
        slot.sender, slot.bytes));
  }
  static void CheckLength(const Slot& slot, const MPI_Status& status) {
    int bytes = 0;
    DT_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
    if (static_cast<size_t>(bytes) == slot.bytes) return;
    throw CommError(
        absl::StrFormat("rank %d sent %d bytes where %d were expected: the ranks are out of step",
                        slot.sender, bytes, slot.bytes));
  }

  MPI_Request* At(Request request) { return &slots_[static_cast<size_t>(request)].request; }
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
  auto messages = std::make_shared<internal::MpiMessages>();
  MPI_Comm comm = messages->comm;
  int rank = 0;
  int size = 0;
  DT_MPI(MPI_Comm_rank(comm, &rank));
  DT_MPI(MPI_Comm_size(comm, &size));
  using HostName = std::array<char, MPI_MAX_PROCESSOR_NAME>;
  HostName mine{};
  int length = 0;
  DT_MPI(MPI_Get_processor_name(mine.data(), &length));
  std::vector<HostName> names(static_cast<size_t>(size));
  DT_MPI(MPI_Allgather(mine.data(), MPI_MAX_PROCESSOR_NAME, MPI_BYTE, names.data(),
                       MPI_MAX_PROCESSOR_NAME, MPI_BYTE, comm));
  std::vector<std::string> hosts;
  for (const HostName& name : names) hosts.emplace_back(name.data());
  return std::make_unique<internal::TransportCommunicator>(
      std::make_unique<internal::MpiTransport>(std::move(messages), size), rank, std::move(hosts),
      options);
}

}  // namespace dtrain
