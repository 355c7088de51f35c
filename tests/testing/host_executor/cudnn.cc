// cudnn.cc - the emulated GPU's cuDNN: attention as plain loops, strict about what it is given.
// SPDX-License-Identifier: Apache-2.0
//
// As cuDNN does it finds rows by offsets, strides and lengths in the device's memory alone, and
// reads the statistics that forward left.
#include "testing/host_executor/cudnn.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/dtype.h"
#include "dtrain/device/cuda/error.h"
#include "testing/host_executor/cublaslt.h"
#include "testing/host_executor/streams.h"

namespace dtrain::host_executor {
namespace {

using cuda::AttentionTensor;
using cuda::FusedAttentionOperands;
using cuda::FusedAttentionShape;
using Row = std::vector<double>;

// One execution of a graph.
template <typename T>
class Execution {
 public:
  Execution(const FusedAttentionShape& shape, const FusedAttentionOperands& operands)
      : shape_(shape), operands_(operands) {}

  void Run() {
    CheckLengths();
    for (sequence_ = 0; sequence_ < shape_.sequences; ++sequence_) {
      for (head_ = 0; head_ < shape_.num_heads; ++head_) shape_.backward ? Backward() : Forward();
    }
  }

 private:
  int64_t queries() const { return operands_.query_lengths[sequence_]; }
  int64_t keys() const { return operands_.key_lengths[sequence_]; }

  void CheckLengths() {
    int64_t query_tokens = 0;
    int64_t key_tokens = 0;
    for (sequence_ = 0; sequence_ < shape_.sequences; ++sequence_) {
      DT_CHECK(queries() >= 0 && queries() <= shape_.max_queries);
      DT_CHECK(keys() >= 0 && keys() <= shape_.max_keys);
      query_tokens += queries();
      key_tokens += keys();
    }
    DT_CHECK_LE(query_tokens, shape_.query_tokens);
    DT_CHECK_LE(key_tokens, shape_.key_tokens);
  }

  // Elements from the tensor's begin to a row of the sequence and head.
  int64_t At(AttentionTensor tensor, int64_t row) const {
    const auto t = static_cast<size_t>(tensor);
    const int64_t width = tensor == AttentionTensor::kLogSumExp ? 1 : shape_.head_dim;
    return operands_.offsets[t][sequence_] + row * shape_.strides[t] + head_ * width;
  }
  template <typename Element>
  Element* Begin(AttentionTensor tensor) const {
    return static_cast<Element*>(operands_.tensors[static_cast<size_t>(tensor)]);
  }
  Row Read(AttentionTensor tensor, int64_t row) const {
    const T* const begin = Begin<T>(tensor) + At(tensor, row);
    Row values;
    for (int64_t d = 0; d < shape_.head_dim; ++d) {
      values.push_back(static_cast<double>(static_cast<float>(begin[d])));
    }
    return values;
  }
  void Write(AttentionTensor tensor, int64_t row, const Row& values) const {
    T* const begin = Begin<T>(tensor) + At(tensor, row);
    for (size_t d = 0; d < values.size(); ++d) begin[d] = T(static_cast<float>(values[d]));
  }
  float& LogSumExp(int64_t row) const {
    return Begin<float>(AttentionTensor::kLogSumExp)[At(AttentionTensor::kLogSumExp, row)];
  }

  static double Dot(const Row& a, const Row& b) {
    double sum = 0.0;
    for (size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
    return sum;
  }
  static void AddTo(Row& sum, double factor, const Row& x) {
    for (size_t d = 0; d < x.size(); ++d) sum[d] += factor * x[d];
  }
  Row Zeros() const { return Row(static_cast<size_t>(shape_.head_dim)); }

  Row Scores(int64_t query) const {
    const Row q = Read(AttentionTensor::kQ, query);
    Row scores;
    for (int64_t j = 0; j < (shape_.causal ? std::min(query + 1, keys()) : keys()); ++j) {
      scores.push_back(double{operands_.scale} * Dot(q, Read(AttentionTensor::kK, j)));
    }
    return scores;
  }

  void Forward() {
    for (int64_t i = 0; i < queries(); ++i) {
      const Row scores = Scores(i);
      const double maximum = *std::max_element(scores.begin(), scores.end());
      double sum = 0.0;
      for (const double score : scores) sum += std::exp(score - maximum);
      const double log_sum_exp = maximum + std::log(sum);
      Row out = Zeros();
      for (size_t j = 0; j < scores.size(); ++j) {
        AddTo(out, std::exp(scores[j] - log_sum_exp),
              Read(AttentionTensor::kV, static_cast<int64_t>(j)));
      }
      Write(AttentionTensor::kOut, i, out);
      LogSumExp(i) = static_cast<float>(log_sum_exp);
    }
  }

  void Backward() {
    std::vector<Row> dk(static_cast<size_t>(keys()), Zeros());
    std::vector<Row> dv = dk;
    for (int64_t i = 0; i < queries(); ++i) {
      const Row scores = Scores(i);
      const Row q = Read(AttentionTensor::kQ, i);
      const Row d_out = Read(AttentionTensor::kDOut, i);
      const double delta = Dot(d_out, Read(AttentionTensor::kOut, i));
      Row dq = Zeros();
      for (size_t j = 0; j < scores.size(); ++j) {
        const auto key = static_cast<int64_t>(j);
        const double p = std::exp(scores[j] - double{LogSumExp(i)});
        const double ds =
            double{operands_.scale} * p * (Dot(d_out, Read(AttentionTensor::kV, key)) - delta);
        AddTo(dq, ds, Read(AttentionTensor::kK, key));
        AddTo(dk[j], ds, q);
        AddTo(dv[j], p, d_out);
      }
      Write(AttentionTensor::kDQ, i, dq);
    }
    for (size_t j = 0; j < dk.size(); ++j) {
      Write(AttentionTensor::kDK, static_cast<int64_t>(j), dk[j]);
      Write(AttentionTensor::kDV, static_cast<int64_t>(j), dv[j]);
    }
  }

  const FusedAttentionShape& shape_;
  const FusedAttentionOperands& operands_;
  int64_t sequence_ = 0, head_ = 0;
};

class Emulation final : public cuda::FusedAttention {
 public:
  explicit Emulation(const FusedAttentionShape& shape)
      : shape_(shape), workspace_bytes_(Cudnn().workspace_bytes) {}

  size_t workspace_bytes() const override { return workspace_bytes_; }

  void Run(const FusedAttentionOperands& operands, Stream& stream) override {
    if (reinterpret_cast<uintptr_t>(operands.workspace) % 256 != 0) {
      throw CudaError("the emulated cuDNN's workspace is not aligned");
    }
    Submit(stream.handle(), [shape = shape_, operands, bytes = workspace_bytes_] {
      std::memset(operands.workspace, 0xff, bytes);
      if (shape.type == DType::kFloat16) {
        Execution<Float16>(shape, operands).Run();
      } else {
        Execution<BFloat16>(shape, operands).Run();
      }
      AdvanceClock(Cudnn().seconds(shape));
    });
    Cudnn().last = shape_;
    ++Cudnn().runs;
  }

 private:
  FusedAttentionShape shape_;
  size_t workspace_bytes_;
};

}  // namespace

CudnnSettings& Cudnn() {
  thread_local CudnnSettings settings;
  return settings;
}

}  // namespace dtrain::host_executor

namespace dtrain::cuda {

std::unique_ptr<FusedAttention> FusedAttention::Make(const FusedAttentionShape& shape,
                                                     const Device&, std::string& why) {
  host_executor::CudnnSettings& settings = host_executor::Cudnn();
  if (!settings.missing.empty()) throw CudaError(settings.missing);
  ++settings.graphs;
  if (settings.supports(shape)) return std::make_unique<host_executor::Emulation>(shape);
  why = "not supported by the emulation";
  return nullptr;
}

std::string WhyNoFusedAttention() { return host_executor::Cudnn().missing; }

size_t FusedAttentionVersion() { return host_executor::Cudnn().version; }

}  // namespace dtrain::cuda
