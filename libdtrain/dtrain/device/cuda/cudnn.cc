// cudnn.cc - implements fused_attention.h with cuDNN, using the graphs of cudnn-frontend.
// SPDX-License-Identifier: Apache-2.0
//
// The frontend's headers call cuDNN through a dlopen() handle, which this file sets on first use.
// If the library were linked, programs would not start on machines without it.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dtrain/device/cuda/check.h"
#include "dtrain/device/cuda/fused_attention.h"
#include "dtrain/device/cuda/shared_library.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace dtrain::cuda {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using GraphTensor = std::shared_ptr<Attributes>;

// The first version whose backward pass accepts the statistics of packed sequences.
constexpr size_t kOldestVersion = 90600;

// Identifiers of the graph's tensors: first those of AttentionTensor, then an offset tensor for
// each.
constexpr int64_t kFirstTensor = 1;
constexpr int64_t kFirstOffset = kFirstTensor + int64_t{kAttentionTensors};
constexpr int64_t kQueryLengths = kFirstOffset + int64_t{kAttentionTensors};
constexpr int64_t kKeyLengths = kQueryLengths + 1;
constexpr int64_t kScale = kKeyLengths + 1;

size_t Load() {
  // The frontend opens the CUDA runtime by this name and gets the copy that is already loaded.
  OpenSharedLibrary("libcudart.so." + std::to_string(CUDART_VERSION / 1000), "the CUDA runtime");
  fe::cudnn_dlhandle = OpenSharedLibrary("libcudnn.so." + std::to_string(CUDNN_MAJOR), "cuDNN");
  const size_t version = fe::detail::get_backend_version();
  if (version < kOldestVersion) {
    throw CudaError("cuDNN " + std::to_string(version) + " is too old: install 9.6 or later");
  }
  return version;
}

size_t LoadOnce() {
  static const size_t version = Load();
  return version;
}

void CheckCudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw CudaError(std::string(call) + ": " + fe::detail::get_error_string(status));
}

// One handle per thread and device, because a handle is bound to a stream.
cudnnHandle_t Handle(const Device& device) {
  thread_local std::map<int, cudnnHandle_t> handles;
  cudnnHandle_t& handle = handles[device.index];
  if (handle == nullptr) {
    DT_CHECK_CUDA(cudaSetDevice(device.index));
    CheckCudnn(fe::detail::create_handle(&handle), "cudnnCreate");
  }
  return handle;
}

class Builder {
 public:
  explicit Builder(const FusedAttentionShape& shape) : shape_(shape) {
    graph_
        .set_io_data_type(shape.type == DType::kFloat16 ? fe::DataType_t::HALF
                                                        : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  fe::graph::Graph Forward() {
    auto options = fe::graph::SDPA_attributes().set_generate_stats(true);
    Set(options);
    const GraphTensor q = Input(AttentionTensor::kQ);
    const GraphTensor k = Input(AttentionTensor::kK);
    const GraphTensor v = Input(AttentionTensor::kV);
    const auto [out, statistics] = graph_.sdpa(q, k, v, options);
    Output(out, AttentionTensor::kOut);
    Output(statistics, AttentionTensor::kLogSumExp);
    return std::move(graph_);
  }

  fe::graph::Graph Backward() {
    auto options = fe::graph::SDPA_backward_attributes().set_deterministic_algorithm(true);
    Set(options);
    options.set_max_total_seq_len_q(shape_.query_tokens)
        .set_max_total_seq_len_kv(shape_.key_tokens);
    const GraphTensor q = Input(AttentionTensor::kQ);
    const GraphTensor k = Input(AttentionTensor::kK);
    const GraphTensor v = Input(AttentionTensor::kV);
    const GraphTensor out = Input(AttentionTensor::kOut);
    const GraphTensor d_out = Input(AttentionTensor::kDOut);
    const GraphTensor statistics = Input(AttentionTensor::kLogSumExp);
    const auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, out, d_out, statistics, options);
    Output(dq, AttentionTensor::kDQ);
    Output(dk, AttentionTensor::kDK);
    Output(dv, AttentionTensor::kDV);
    return std::move(graph_);
  }

 private:
  GraphTensor Numbers(int64_t uid, int64_t count, fe::DataType_t type) {
    return graph_.tensor(Attributes()
                             .set_uid(uid)
                             .set_dim({count, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }

  template <typename Options>
  void Set(Options& options) {
    options.set_padding_mask(true)
        .set_seq_len_q(Numbers(kQueryLengths, shape_.sequences, fe::DataType_t::INT32))
        .set_seq_len_kv(Numbers(kKeyLengths, shape_.sequences, fe::DataType_t::INT32))
        .set_attn_scale(graph_.tensor(Attributes()
                                          .set_uid(kScale)
                                          .set_dim({1, 1, 1, 1})
                                          .set_stride({1, 1, 1, 1})
                                          .set_is_pass_by_value(true)
                                          .set_data_type(fe::DataType_t::FLOAT)));
    if (shape_.causal) options.set_causal_mask(true);
  }

  void Describe(Attributes& tensor, AttentionTensor which) {
    const auto index = static_cast<int64_t>(which);
    const int64_t row = shape_.strides[static_cast<size_t>(which)];
    const int64_t rows = IsOfKeys(which) ? shape_.max_keys : shape_.max_queries;
    const bool is_statistics = which == AttentionTensor::kLogSumExp;
    const int64_t dim = is_statistics ? 1 : shape_.head_dim;
    tensor.set_uid(kFirstTensor + index)
        .set_dim({shape_.sequences, shape_.num_heads, rows, dim})
        .set_stride({rows * row, dim, row, 1})
        .set_ragged_offset(
            Numbers(kFirstOffset + index, shape_.sequences + 1, fe::DataType_t::INT64));
    if (is_statistics) tensor.set_data_type(fe::DataType_t::FLOAT);
  }

  GraphTensor Input(AttentionTensor which) {
    Attributes tensor;
    Describe(tensor, which);
    return graph_.tensor(tensor);
  }

  void Output(const GraphTensor& tensor, AttentionTensor which) {
    tensor->set_output(true);
    Describe(*tensor, which);
  }

  FusedAttentionShape shape_;
  fe::graph::Graph graph_;
};

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention(const FusedAttentionShape& shape, const Device& device)
      : shape_(shape),
        graph_(shape.backward ? Builder(shape).Backward() : Builder(shape).Forward()),
        device_(device) {}

  // Returns cuDNN's reason why the graph cannot run, or an empty string.
  std::string Build() {
    const cudnnHandle_t handle = Handle(device_);
    fe::error_t error = graph_.validate();
    if (error.is_good()) error = graph_.build_operation_graph(handle);
    if (error.is_good()) error = graph_.create_execution_plans({fe::HeurMode_t::A});
    if (error.is_good()) error = graph_.check_support(handle);
    if (error.is_good()) {
      error = graph_.build_plans(handle, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
    }
    int64_t bytes = 0;
    if (error.is_good()) error = graph_.get_workspace_size(bytes);
    workspace_bytes_ = static_cast<size_t>(bytes);
    return error.is_good() ? "" : error.get_message();
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

  void Run(const FusedAttentionOperands& operands, Stream& stream) override {
    float scale = operands.scale;
    std::unordered_map<int64_t, void*> pointers = {
        {kQueryLengths, const_cast<int32_t*>(operands.query_lengths)},
        {kKeyLengths, const_cast<int32_t*>(operands.key_lengths)},
        {kScale, &scale}};
    for (size_t i = 0; i < shape_.tensors(); ++i) {
      pointers[kFirstTensor + static_cast<int64_t>(i)] = operands.tensors[i];
      pointers[kFirstOffset + static_cast<int64_t>(i)] = const_cast<int64_t*>(operands.offsets[i]);
    }
    const cudnnHandle_t handle = Handle(device_);
    CheckCudnn(fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream.handle())),
               "cudnnSetStream");
    fe::error_t error = graph_.execute(handle, pointers, operands.workspace);
    if (error.is_bad()) throw CudaError("cuDNN's attention: " + error.get_message());
  }

 private:
  FusedAttentionShape shape_;
  fe::graph::Graph graph_;
  Device device_;
  size_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<FusedAttention> FusedAttention::Make(const FusedAttentionShape& shape,
                                                     const Device& device, std::string& why) {
  LoadOnce();
  DT_CHECK_CUDA(cudaSetDevice(device.index));
  auto attention = std::make_unique<CudnnAttention>(shape, device);
  why = attention->Build();
  if (!why.empty()) return nullptr;
  return attention;
}

std::string WhyNoFusedAttention() {
  try {
    LoadOnce();
    return "";
  } catch (const CudaError& error) {
    return std::string(error.what()) + "; install it with: pip install nvidia-cudnn-cu13";
  }
}

size_t FusedAttentionVersion() { return WhyNoFusedAttention().empty() ? LoadOnce() : 0; }

}  // namespace dtrain::cuda
