// kernel_plans.h - puts a run's section `kernels` in force, on each rank before it trains.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_KERNEL_PLANS_H_
#define DTRAIN_TASKS_SHARED_KERNEL_PLANS_H_

#include <functional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/launch/gemm_plan_file.h"
#include "dtrain/models/bert_costs.h"
#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/pretraining/head_costs.h"

namespace dtrain::proto {
class KernelConfig;
}  // namespace dtrain::proto

namespace dtrain {

class BertClassifier;
class BertQuestionAnswering;
class Seq2SeqTransformer;

// Plans in the run's directory unless the section names another.
GemmPlanOptions GemmPlanOptionsOf(const proto::KernelConfig& config, const std::string& run_dir);

// Of any program: what has to be measured is measured on what `warm_up` computes
// (launch/gemm_plan_file.h). Collective.
Status PrepareKernels(const proto::KernelConfig& config, const std::string& run_dir,
                      const Device& device, Communicator& comm,
                      const std::function<void()>& warm_up);

// Training steps of a model on its device, for PrepareKernels(): of the sizes that micro-batches
// planned like `batch` have. Gradients are zero afterwards. The model outlives the result, and
// nobody listens to its parameters yet.
std::function<void()> WarmUpSteps(Seq2SeqTransformer& model, const Seq2SeqBatch& batch,
                                  const Device& device, const ContextOptions& options);
std::function<void()> WarmUpSteps(BertClassifier& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options);
std::function<void()> WarmUpSteps(BertPretraining& model, const MaskedBertBatch& batch,
                                  const Device& device, const ContextOptions& options);
std::function<void()> WarmUpSteps(BertQuestionAnswering& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_KERNEL_PLANS_H_
