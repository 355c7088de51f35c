// nccl_links.h - the NCCL communicators of one rank: all ranks, its host, across hosts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_NCCL_LINKS_H_
#define DTRAIN_COMM_INTERNAL_NCCL_LINKS_H_

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtrain/comm/internal/nccl_library.h"
#include "dtrain/comm/internal/nccl_link.h"
#include "dtrain/comm/internal/nccl_phases.h"

namespace dtrain::internal {

class NcclLinks {
 public:
  explicit NcclLinks(const NcclLibrary& nccl) : nccl_(nccl) {}

  // Begins to connect `group`, the ranks of this kind of link in ascending order. This rank is
  // `rank`. The link is in use as soon as its State() is kSuccess.
  const NcclLink& Connect(NcclLinkKind kind, const NcclUniqueId& id, const std::vector<int>& group,
                          int rank);
  // Puts the pieces in the stream, as one NCCL group. Returns "" or NCCL's error.
  std::string Launch(std::span<const NcclPiece> pieces, void* stream);
  // True while NCCL takes the pieces in.
  bool IsBusy(std::span<const NcclPiece> pieces) const;
  // The error of the first link that has one, or "".
  std::string FindError() const;
  // Ends what still travels in an orderly way. False if a link had an error or took too long.
  bool Finish();
  // Ends all collectives of all links at once. Nothing may be launched afterwards.
  void Abort();

 private:
  // A connected link and this rank's place in it.
  struct Member {
    std::unique_ptr<NcclLink> link;
    int place = 0;
  };

  const Member& At(NcclLinkKind kind) const { return links_[static_cast<size_t>(kind)]; }
  NcclResult LaunchPiece(const NcclPiece& piece, void* stream);

  const NcclLibrary& nccl_;
  std::array<Member, kNcclLinks> links_;  // by NcclLinkKind; the latter two may be absent
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NCCL_LINKS_H_
