// nccl_link.h - one communicator of NCCL that never blocks, in whatever state it ends.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_NCCL_LINK_H_
#define DTRAIN_COMM_INTERNAL_NCCL_LINK_H_

#include <string>

#include "dtrain/comm/internal/nccl_library.h"

namespace dtrain::internal {

class NcclLink {
 public:
  // Begins to connect `size` ranks on the thread's current GPU.
  NcclLink(const NcclLibrary& nccl, const NcclUniqueId& id, int size, int rank);
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  // Aborts it where Finish() has not ended it.
  ~NcclLink();

  NcclHandle handle() const { return handle_; }
  int size() const { return size_; }
  // kInProgress while it connects or takes in a collective: then nothing may be issued. Any other
  // than kSuccess is an error, also of collectives that the device works on.
  NcclResult State() const;
  // NCCL's words, with the last thing that went wrong.
  std::string ErrorText(NcclResult result) const;
  // Ends what still travels in an orderly way; false where there was an error, or it takes too
  // long.
  bool Finish();
  // Ends all its collectives at once, and waits for the stream they are in: where another link's
  // collective keeps that from moving, until that link is aborted too, by another thread. Only
  // State() and ErrorText() may follow.
  void Abort();

 private:
  const NcclLibrary& nccl_;
  int size_;
  NcclHandle handle_ = nullptr;
  NcclResult failure_ = NcclResult::kSuccess;  // where there is no handle
  std::string last_words_;
  bool is_finished_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NCCL_LINK_H_
