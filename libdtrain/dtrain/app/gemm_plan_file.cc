// gemm_plan_file.cc - what of matrix products is measured, and on which steps.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/gemm_plan_file.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/app/internal/plan_file.h"
#include "dtrain/app/memory_plan.h"
#include "dtrain/app/nmt_options.h"
#include "dtrain/base/log.h"
#include "dtrain/base/random.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

// Micro-batches are at most as large as planned and seldom less than this share of it: sizes that
// are warmed up, in eighths.
constexpr int kSmallestEighths = 6;

// Sentence pairs of the planned mean lengths, together that share of the planned micro-batch.
TranslationBatch SampleBatch(const Seq2SeqBatch& planned, double share, int64_t vocab_size) {
  RandomStream random({.seed = 1});
  const auto pairs = std::max<int64_t>(
      1, std::llround(share * static_cast<double>(planned.target_tokens) / planned.target_length));
  const auto side = [&](int64_t tokens) {
    std::vector<int32_t> offsets;
    for (int64_t i = 0; i <= pairs; ++i) {
      offsets.push_back(static_cast<int32_t>(std::max(tokens, pairs) * i / pairs));
    }
    return Sequences(std::move(offsets));
  };
  const auto tokens_of = [&](int64_t planned_tokens) {
    return std::llround(share * static_cast<double>(planned_tokens));
  };
  TranslationBatch batch;
  batch.source = side(tokens_of(planned.source_tokens));
  batch.target = side(tokens_of(planned.target_tokens));
  const auto draw = [&](const Sequences& sequences, std::vector<int32_t>& ids) {
    ids.resize(static_cast<size_t>(sequences.tokens()));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(vocab_size)));
    }
  };
  draw(batch.source, batch.source_ids);
  draw(batch.target, batch.decoder_ids);
  draw(batch.target, batch.target_ids);
  return batch;
}

}  // namespace

absl::StatusOr<GemmPlanReport> PrepareGemmPlans(const GemmPlanOptions& options,
                                                const Device& device, Communicator& comm,
                                                const std::function<void()>& warm_up) {
  SetGemmTuning(options.tuning);
  if (options.tuning != GemmTuning::kMeasure || device.type == DeviceType::kCpu) {
    return GemmPlanReport();
  }
  return internal::PreparePlans({.what = "matrix products",
                                 .library = "cuBLASLt",
                                 .count = CountGemmPlans,
                                 .print = PrintGemmPlans,
                                 .use = UseGemmPlans},
                                options.path, device, comm, [&] {
                                  const MeasureGemms measure;
                                  warm_up();
                                });
}

absl::Status PrepareTranslationGemms(const proto::NmtConfig& config, const std::string& run_dir,
                                     const MemoryPlan& memory, const Device& device,
                                     Seq2SeqTransformer& model, Communicator& comm) {
  const ContextOptions context_options =
      ContextOptionsOf(config.trainer(), comm.rank(), memory.recompute);
  const auto warm_up = [&] {
    Context context(device, context_options);
    context.set_training(true);
    for (int eighths = kSmallestEighths; eighths <= 8; ++eighths) {
      model.Forward(SampleBatch(memory.batch, eighths / 8.0, model.options().vocab_size), 1.0F,
                    context);
      model.Backward(context);
    }
    Tensor gradients = model.parameters().gradients();
    Zero(gradients, context.stream());
    context.stream().Synchronize();
  };
  DT_ASSIGN_OR_RETURN(
      const GemmPlanReport report,
      PrepareGemmPlans(GemmPlanOptionsOf(config.kernels(), run_dir), device, comm, warm_up));
  if (comm.is_root() && report.read + report.measured > 0) {
    LogInfo(absl::StrFormat("plans of matrix products: %d measured before, %d now", report.read,
                            report.measured));
  }
  return absl::OkStatus();
}

}  // namespace dtrain
