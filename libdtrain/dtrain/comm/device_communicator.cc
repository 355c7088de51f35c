// device_communicator.cc - all ranks take NCCL, or none does and all know why.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/device_communicator.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/internal/nccl_communicator.h"

namespace dtrain {
namespace {

using internal::NcclCommunicator;
using internal::NcclIds;
using internal::NcclLibrary;
using internal::NcclResult;
using internal::NcclUniqueId;
using internal::RankGroups;

// What every rank tells the others first. Plain bytes.
struct Hello {
  int version = 0;
  NcclIds ids;
  std::array<char, 256> objection{};
};

bool WantsHierarchy(const Communicator& comm, const RankGroups& groups) {
  return !groups.cross.empty() && comm.options().algorithm != AllReduceAlgorithm::kFlat;
}

// Of the groups whose first rank this is: an id costs its maker a thread and a socket that wait for
// the group.
std::string MakeIds(const Communicator& comm, const NcclLibrary& nccl, NcclIds& ids) {
  const RankGroups groups = internal::FindRankGroups(comm.topology());
  const int rank = comm.rank();
  std::vector<NcclUniqueId*> mine;
  if (rank == 0) mine.push_back(&ids.world);
  if (WantsHierarchy(comm, groups)) {
    if (rank == groups.host[0]) mine.push_back(&ids.host);
    if (rank == groups.cross[0]) mine.push_back(&ids.cross);
  }
  for (NcclUniqueId* const id : mine) {
    const NcclResult result = nccl.GetUniqueId(id);
    if (result != NcclResult::kSuccess) {
      return absl::StrCat("NCCL makes no id: ", nccl.GetErrorString(result), ": ",
                          nccl.GetLastError(nullptr));
    }
  }
  return "";
}

// Why this rank cannot, or "".
std::string Objection(const Communicator& comm, const Device& device, Hello& hello) {
  if (device.type == DeviceType::kCpu) return "it computes on the CPU";
  if (!comm.options().nccl) return "DTRAIN_NCCL=off";
  const StatusOr<const NcclLibrary*> nccl = NcclLibrary::Get();
  if (!nccl.ok()) return std::string(nccl.status().message());
  static_cast<void>((*nccl)->GetVersion(&hello.version));
  return MakeIds(comm, **nccl, hello.ids);
}

// Of this rank's groups.
NcclIds FindIds(const Communicator& comm, const std::vector<Hello>& hellos) {
  const RankGroups groups = internal::FindRankGroups(comm.topology());
  const auto of = [&](int rank) -> const NcclIds& { return hellos[static_cast<size_t>(rank)].ids; };
  NcclIds ids = {.world = of(0).world, .host = {}, .cross = {}};
  // NCCL_COMM_ID makes all ids one address, where groups that connect at the same time would meet.
  const bool is_one_address = std::memcmp(&of(0).world, &of(0).host, sizeof(NcclUniqueId)) == 0;
  if (!WantsHierarchy(comm, groups) || is_one_address) return ids;
  ids.host = of(groups.host[0]).host;
  ids.cross = of(groups.cross[0]).cross;
  ids.hierarchical = true;
  return ids;
}

// The first objection of any rank.
std::string FindObjection(const Communicator& comm, const std::vector<Hello>& hellos) {
  for (int r = 0; r < comm.size(); ++r) {
    const Hello& hello = hellos[static_cast<size_t>(r)];
    if (hello.objection[0] != '\0') {
      return absl::StrCat(comm.topology().RankName(r), ": ", hello.objection.data());
    }
    if (hello.version != hellos[0].version) {
      return absl::StrFormat("%s has NCCL %s, %s has %s: install the same on all hosts",
                             comm.topology().RankName(0),
                             internal::NcclVersionName(hellos[0].version),
                             comm.topology().RankName(r), internal::NcclVersionName(hello.version));
    }
  }
  return "";
}

}  // namespace

std::string internal::NcclVersionName(int version) {
  return absl::StrFormat("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

StatusOr<std::string> NcclVersion() {
  DT_ASSIGN_OR_RETURN(const NcclLibrary* nccl, NcclLibrary::Get());
  int version = 0;
  static_cast<void>(nccl->GetVersion(&version));
  return internal::NcclVersionName(version);
}

std::unique_ptr<DeviceCommunicator> MakeDeviceCommunicator(Communicator& comm, const Device& device,
                                                           std::string* why) {
  Hello mine;
  const std::string objection = Objection(comm, device, mine);
  std::strncpy(mine.objection.data(), objection.c_str(), mine.objection.size() - 1);
  const std::vector<Hello> hellos = AllGather(comm, mine);
  *why = FindObjection(comm, hellos);
  if (!why->empty()) return nullptr;

  auto gpus = std::make_unique<NcclCommunicator>(comm, device, **NcclLibrary::Get());
  const std::vector<std::string> errors =
      AllGatherStrings(comm, gpus->Connect(FindIds(comm, hellos)));
  for (int r = 0; r < comm.size() && why->empty(); ++r) {
    const std::string& error = errors[static_cast<size_t>(r)];
    if (!error.empty()) *why = absl::StrCat(comm.topology().RankName(r), ": ", error);
  }
  if (!why->empty()) {
    gpus->Abort();
    return nullptr;
  }
  gpus->Prove();
  return gpus;
}

}  // namespace dtrain
