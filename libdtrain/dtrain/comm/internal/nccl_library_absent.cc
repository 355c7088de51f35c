// nccl_library_absent.cc - what a build with DTRAIN_NCCL=OFF says of NCCL.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_library.h"

namespace dtrain::internal {

StatusOr<const NcclLibrary*> NcclLibrary::Get() {
  return CommunicationError("this build has no NCCL; configure it with -DDTRAIN_NCCL=AUTO");
}

}  // namespace dtrain::internal
