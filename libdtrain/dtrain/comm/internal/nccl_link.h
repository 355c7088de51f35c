// nccl_link.h - one NCCL communicator, which never blocks and may end in any state.
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
  // Aborts the link unless Finish() has ended it.
  ~NcclLink();

  NcclHandle handle() const { return handle_; }
  int size() const { return size_; }
  // kInProgress while the link connects or takes in a collective; then nothing may be issued. Any
  // other value except kSuccess is an error, which may come from a collective on the device.
  NcclResult State() const;
  // NCCL's text, with its last error.
  std::string ErrorText(NcclResult result) const;
  // Ends what still travels in an orderly way. False if there was an error, or if it takes too
  // long.
  bool Finish();
  // Ends all collectives at once and waits for their stream. If a collective of another link blocks
  // that stream, another thread must abort that link too. Afterwards only State() and ErrorText()
  // may be called.
  void Abort();

 private:
  const NcclLibrary& nccl_;
  int size_;
  NcclHandle handle_ = nullptr;
  NcclResult failure_ = NcclResult::kSuccess;  // the state if there is no handle
  std::string last_words_;
  bool is_finished_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NCCL_LINK_H_
