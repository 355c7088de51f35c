// fused_attention_missing.cc - fused_attention.h in builds without cuDNN's headers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/cuda/fused_attention.h"

namespace dtrain::cuda {

std::unique_ptr<FusedAttention> FusedAttention::Make(const FusedAttentionShape&, const Device&,
                                                     std::string&) {
  throw CudaError(WhyNoFusedAttention());
}

std::string WhyNoFusedAttention() {
  return "this program was built without cuDNN's headers: pip install nvidia-cudnn-frontend "
         "nvidia-cudnn-cu13, or give cmake DTRAIN_CUDNN_FRONTEND_DIR and DTRAIN_CUDNN_DIR, and "
         "build with -DDTRAIN_CUDNN=ON";
}

size_t FusedAttentionVersion() { return 0; }

}  // namespace dtrain::cuda
