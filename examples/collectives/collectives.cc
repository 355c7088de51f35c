// collectives.cc - trains on plain std::vector<float> with named collectives, as with Horovod.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 collectives [TRACE_FOLDER]
//
// Linear regression, so that all of it is here: weights broadcast from rank 0, gradients summed by
// name in any order while others are still computed, ranks that run out of data, and a metric
// gathered at the end. The weights printed are those of one rank, but for the order of sums. With a
// folder, each rank writes a timeline there (docs/timeline.md).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "dtrain/dtrain.h"

namespace {

using namespace dtrain;

constexpr int64_t kInputs = 4;
constexpr int64_t kRows = 4'001;       // the last update has one row: the other ranks have none
constexpr int64_t kUpdateRows = 16;    // over all ranks
constexpr float kLearningRate = 0.2f;  // of the mean over the update's rows

struct Row {
  std::vector<float> inputs;
  float target = 0.0f;
};

// The same on every rank: 1 x0 + 2 x1 + 3 x2 + 4 x3 - 0.5, with some noise.
Row MakeRow(int64_t number) {
  RandomStream random({.seed = 3, .step = static_cast<uint32_t>(number)});
  Row row{.inputs = std::vector<float>(kInputs), .target = -0.5f};
  for (int64_t i = 0; i < kInputs; ++i) {
    float& input = row.inputs[static_cast<size_t>(i)];
    input = 2.0f * random.NextUniform() - 1.0f;
    row.target += static_cast<float>(i + 1) * input;
  }
  row.target += 0.1f * (random.NextUniform() - 0.5f);
  return row;
}

// A view of the vector's memory, which stays where it is while a collective works on it.
Tensor View(std::vector<float>& values) {
  return Tensor::View(values.data(), {static_cast<int64_t>(values.size())});
}

float Error(const Row& row, const std::vector<float>& weight, const std::vector<float>& bias) {
  float said = bias[0];
  for (size_t i = 0; i < weight.size(); ++i) said += weight[i] * row.inputs[i];
  return said - row.target;
}

// The rank's rows, an update at a time, until it has no more.
Status Train(std::vector<float>& weight, std::vector<float>& bias, Collectives& collectives,
             StepTimeline& timeline) {
  // Sums and a count: averages divide by all ranks, those without rows included.
  const ReduceOptions sum{.op = ReduceOp::kSum};
  const int rank = collectives.rank(), size = collectives.size();
  for (int64_t begin = 0; begin + rank < std::min(begin + kUpdateRows, kRows);
       begin += kUpdateRows) {
    timeline.EndUpdate();
    const Timeline::Span span(timeline.spans(), "step", kComputeLane, begin / kUpdateRows);
    std::vector<float> d_weight(kInputs), d_bias(1), count(1);
    for (int64_t i = begin + rank; i < std::min(begin + kUpdateRows, kRows); i += size) {
      const Row row = MakeRow(i);
      const float error = Error(row, weight, bias);
      for (size_t k = 0; k < d_weight.size(); ++k) d_weight[k] += error * row.inputs[k];
      d_bias[0] += error;
      count[0] += 1.0f;
    }
    // All at once, and the odd ranks in another order: names tell what belongs together.
    std::vector<NamedGradient> ready = {
        {"weight", View(d_weight)}, {"bias", View(d_bias)}, {"count", View(count)}};
    if (rank % 2 == 1) std::reverse(ready.begin(), ready.end());
    std::vector<CollectiveHandle> handles;
    for (const NamedGradient& gradient : ready) {
      handles.push_back(collectives.AllReduce(gradient.name, gradient.tensor, sum));
    }
    DT_RETURN_IF_ERROR(WaitAll(handles));
    const float rate = kLearningRate / count[0];
    for (size_t k = 0; k < weight.size(); ++k) weight[k] -= rate * d_weight[k];
    bias[0] -= rate * d_bias[0];
  }
  return OkStatus();
}

Status Run(Runtime& runtime, const std::string& trace_folder) {
  StepTimeline timeline(runtime.comm, {.directory = trace_folder});
  if (!trace_folder.empty()) timeline.Start();
  Collectives collectives(runtime.comm, {.timeline = &timeline.spans()});
  std::vector<float> weight(kInputs), bias(1);
  if (collectives.rank() == 0) std::fill(weight.begin(), weight.end(), 0.5f);
  const auto broadcast = [&](int root) {
    return WaitAll({collectives.Broadcast("weight", View(weight), root),
                    collectives.Broadcast("bias", View(bias), root)});
  };
  DT_RETURN_IF_ERROR(broadcast(0));
  DT_RETURN_IF_ERROR(Train(weight, bias, collectives, timeline));
  // Until the last rank is here, this one adds nothing to the others' sums. It has not made their
  // last updates either: the weights are those of the rank that joined last.
  DT_ASSIGN_OR_RETURN(const int last, collectives.Join());
  DT_RETURN_IF_ERROR(broadcast(last));
  // Ranks gather different numbers of values, in the order of the ranks.
  std::vector<float> errors;
  for (int64_t i = kRows + collectives.rank(); i < kRows + 101; i += collectives.size()) {
    errors.push_back(Error(MakeRow(i), weight, bias));
  }
  const CollectiveHandle gathered = collectives.AllGather("errors", View(errors));
  DT_RETURN_IF_ERROR(gathered.Wait());
  double squares = 0.0;
  const int64_t rows = gathered.output().elements();
  for (int64_t i = 0; i < rows; ++i) {
    squares += std::pow(gathered.output().data<float>()[i], 2.0);
  }
  if (collectives.rank() == 0) {
    std::printf("weights %.6f %.6f %.6f %.6f bias %.6f, rmse %.6f of %d rows\n", weight[0],
                weight[1], weight[2], weight[3], bias[0],
                std::sqrt(squares / static_cast<double>(rows)), static_cast<int>(rows));
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string trace_folder = argc > 1 ? argv[1] : "";
  return dtrain::RunOnRanks(argc, argv, {}, OkStatus(),
                            [&](Runtime& runtime) { return Run(runtime, trace_folder); });
}
