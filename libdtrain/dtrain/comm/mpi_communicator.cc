// mpi_communicator.cc - the transport over non-blocking MPI messages.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/mpi_communicator.h"

#include <mpi.h>

#include <array>
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

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm comm) : comm_(comm) {}
  ~MpiTransport() override { MPI_Comm_free(&comm_); }

  Request Send(int peer, int tag, const void* data, size_t bytes) override {
    const Request request = FreeSlot();
    slots_[static_cast<size_t>(request)] = {MPI_REQUEST_NULL, -1, 0};
    DT_MPI(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, At(request)));
    bytes_sent_ += static_cast<int64_t>(bytes);
    return request;
  }

  Request Receive(int peer, int tag, void* data, size_t bytes) override {
    const Request request = FreeSlot();
    slots_[static_cast<size_t>(request)] = {MPI_REQUEST_NULL, peer, bytes};
    DT_MPI(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, At(request)));
    return request;
  }

  bool Done(Request request) override {
    const Slot slot = slots_[static_cast<size_t>(request)];
    int flag = 0;
    MPI_Status status;
    DT_MPI(MPI_Test(At(request), &flag, &status));
    if (flag == 0) return false;
    free_.push_back(request);
    ++finished_;
    if (slot.sender >= 0) CheckLength(slot, status);
    return true;
  }

  void Cancel(Request request) override {
    MPI_Cancel(At(request));
    MPI_Request_free(At(request));
    free_.push_back(request);
  }

 private:
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    int sender = -1;  // of a receive
    size_t bytes = 0;
  };

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

  MPI_Comm comm_;
  std::vector<Slot> slots_;
  std::vector<Request> free_;
};

}  // namespace
}  // namespace internal

std::unique_ptr<Communicator> MakeMpiCommunicator(const CommunicatorOptions& options) {
  MPI_Comm comm = MPI_COMM_NULL;
  DT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  DT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
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
      std::make_unique<internal::MpiTransport>(comm), rank, std::move(hosts), options);
}

}  // namespace dtrain
