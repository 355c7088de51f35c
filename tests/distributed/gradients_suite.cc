// gradients_suite.cc - orders, passes, unused parameters, wire types, replicas; what any rank does.
// SPDX-License-Identifier: Apache-2.0
#include "distributed/gradients_suite.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dtrain/distributed/adasum.h"
#include "dtrain/distributed/broadcast.h"
#include "dtrain/distributed/distributed_gradients.h"
#include "dtrain/distributed/replica_check.h"

namespace dtrain::testing {
namespace {

using Values = std::vector<float>;

constexpr int kStrides[] = {1, 2, 4, 5};  // without a common divisor with 9

Tensor View(Values& values) {
  return Tensor::View(values.data(), {static_cast<int64_t>(values.size())});
}

// Means are rounded where the number of ranks is no power of two.
bool AllAre(const Values& values, float expected) {
  return std::all_of(values.begin(), values.end(), [&](float value) {
    return std::abs(value - expected) <= 1e-6f * std::abs(expected);
  });
}

float MeanRank(const Communicator& comm) { return static_cast<float>(comm.size() - 1) / 2; }

std::string AnyOrder(Communicator& comm) {
  Collectives collectives(comm);
  std::vector<Values> tensors;
  std::vector<NamedGradient> named;
  for (size_t i = 0; i < 9; ++i) tensors.emplace_back(i * 100 + 1);
  for (Values& tensor : tensors) named.push_back({std::to_string(named.size()), View(tensor)});
  DistributedGradients gradients(named, collectives);
  for (int step = 0; step < 3; ++step) {
    for (Values& tensor : tensors) {
      tensor.assign(tensor.size(), static_cast<float>(comm.rank() + step));
    }
    for (int i = 0; i < 9; ++i) gradients.Ready((i * kStrides[comm.rank()] + step) % 9);
    if (!gradients.Synchronize().ok()) return "an error";
    for (const Values& tensor : tensors) {
      if (!AllAre(tensor, MeanRank(comm) + static_cast<float>(step))) return "values";
    }
  }
  return "";
}

std::string Unused(Communicator& comm) {
  const int user = comm.size() - 1;
  Collectives collectives(comm);
  Values used(5, 3.0f);
  Values branch(5, comm.rank() == user ? 2.0f * static_cast<float>(comm.size()) : 0.0f);
  DistributedGradients gradients({{"used", View(used)}, {"branch", View(branch)}}, collectives);
  gradients.Ready(0);
  if (comm.rank() == user) gradients.Ready(1);
  if (!gradients.Synchronize().ok()) return "an error";
  return AllAre(used, 3.0f) && AllAre(branch, 2.0f) ? "" : "values";
}

std::string TwoModels(Communicator& comm) {
  Collectives collectives(comm);
  Values generator(7);
  Values discriminator(3);
  DistributedGradients first({{"g", View(generator)}}, collectives);
  DistributedGradients second({{"d", View(discriminator)}}, collectives);
  for (int step = 0; step < 4; ++step) {
    generator.assign(7, static_cast<float>(comm.rank()));
    discriminator.assign(3, 9.0f);
    DistributedGradients& trained = step % 2 == 0 ? first : second;
    trained.Ready(0);
    if (!trained.Synchronize().ok()) return "an error";
    const float expected = step % 2 == 0 ? MeanRank(comm) : static_cast<float>(comm.rank());
    if (!AllAre(generator, expected) || !AllAre(discriminator, 9.0f)) return "values";
  }
  return "";
}

std::string Clipped(Communicator& comm) {
  Collectives collectives(comm);
  Values gradient(4, comm.rank() == 0 ? 10.0f : 30.0f);
  DistributedGradients gradients({{"w", View(gradient)}}, collectives);
  gradients.Ready(0);
  if (!gradients.Synchronize().ok()) return "an error";
  for (float& g : gradient) g = std::min(g, 5.0f);
  // The next step reduces what it is given, not the clipped values again.
  const Values clipped = gradient;
  gradient.assign(4, 1.0f);
  gradients.Ready(0);
  if (!gradients.Synchronize().ok()) return "an error";
  return clipped == Values(4, 5.0f) && AllAre(gradient, 1.0f) ? "" : "values";
}

std::string Names(Communicator& comm) {
  Collectives collectives(comm);
  Values a(3);
  const auto error_of = [&](const std::vector<NamedGradient>& named) -> std::string {
    try {
      const DistributedGradients gradients(named, collectives);
    } catch (const CheckError& error) {
      return error.what();
    }
    return "";
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  if (!contains(error_of({{"w", View(a)}, {"w", View(a)}}), "two gradients are named \"w\"")) {
    return "a name twice";
  }
  return contains(error_of({{"w", View(a)}, {"", View(a)}}), "gradient 1 has no name") ? ""
                                                                                       : "no name";
}

std::string PassesOf(Communicator& comm, ReduceOp op, DType wire_type) {
  Collectives collectives(comm);
  Values gradient(4, 0.0f);
  DistributedGradients gradients(
      {{"w", View(gradient)}}, collectives,
      {.op = op, .passes_per_step = 4, .average_passes = true, .wire_type = wire_type});
  for (int pass = 0; pass < 4; ++pass) {
    for (float& g : gradient) g += static_cast<float>(pass + comm.rank());
    gradients.Ready(0);
  }
  try {
    gradients.Ready(0);
    return "a fifth pass was taken";
  } catch (const CheckError& error) {
    if (std::string(error.what()).find("had all its passes") == std::string::npos) {
      return error.what();
    }
  }
  if (!gradients.Synchronize().ok()) return "an error";
  if (collectives.statistics().tensors != 1) return "not one reduction";
  const float mean = 1.5f + MeanRank(comm);
  const auto size = static_cast<float>(comm.size());
  return AllAre(gradient, op == ReduceOp::kSum ? size * mean : mean) ? "" : "values";
}

// All values are exact in 16 bits.
std::string Passes(Communicator& comm) {
  for (const DType wire : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kSum}) {
      const std::string wrong = PassesOf(comm, op, wire);
      if (!wrong.empty()) {
        return wrong + " of " + std::string(Name(op)) + " as " + std::string(Name(wire));
      }
    }
  }
  return "";
}

std::string Wire(Communicator& comm, DType wire_type) {
  Collectives collectives(comm);
  Values ones(1000, 1.0f);
  std::vector<double> wide(10, 1.0);
  std::vector<int32_t> whole(10, 100003);
  Values large(10, 60000.0f);  // the sum would pass the largest float16
  DistributedGradients gradients(
      {{"ones", View(ones)}, {"wide", Tensor::View(wide.data(), {10})}, {"large", View(large)}},
      collectives, {.wire_type = wire_type, .predivide_factor = 4});
  DistributedGradients integers({{"whole", Tensor::View(whole.data(), {10})}}, collectives,
                                {.op = ReduceOp::kSum, .wire_type = wire_type});
  if (!gradients.Synchronize().ok() || !integers.Synchronize().ok()) return "an error";
  if (std::abs(ones[7] - 1.0f) > 1e-8f || std::abs(wide[7] - 1.0) > 1e-8) return "ones";
  if (whole != std::vector<int32_t>(10, 100003 * comm.size())) return "integers were rounded";
  return std::abs(large[0] - 60000.0f) < 300 ? "" : "overflow";
}
std::string Float16Wire(Communicator& comm) { return Wire(comm, DType::kFloat16); }
std::string BFloat16Wire(Communicator& comm) { return Wire(comm, DType::kBFloat16); }

std::string Joined(Communicator& comm) {
  const auto rank = static_cast<size_t>(comm.rank());
  const auto size = static_cast<size_t>(comm.size());
  Values orthogonal(5, 0.0f);
  orthogonal[rank] = static_cast<float>(rank + 1);
  Values equal = {3.0f, -4.0f, 1e-30f};
  Values huge(3, 1e38f);
  Values tiny(3, 1e-44f);
  Values none(4, 0.0f);
  Values mixed = {1.0f, rank % 2 == 0 ? 1.0f : 0.0f};
  const Status status = Adasum(std::vector<Tensor>{View(orthogonal), View(equal), View(huge),
                                                   View(tiny), View(none), View(mixed)},
                               comm);
  if (size == 3) {
    const bool refused = status.code() == ExitCode::kUsage;
    return refused && orthogonal[(rank + 1) % size] == 0.0f ? "" : "three ranks";
  }
  if (!status.ok()) return std::string(status.message());
  for (size_t i = 0; i < orthogonal.size(); ++i) {
    if (orthogonal[i] != (i < size ? static_cast<float>(i + 1) : 0.0f)) return "orthogonal";
  }
  if (equal != Values{3.0f, -4.0f, 1e-30f}) return "equal";
  if (huge != Values(3, 1e38f) || tiny != Values(3, 1e-44f)) return "huge or tiny";
  if (none != Values(4, 0.0f)) return "none";
  // (1, 1) and (1, 0): 3/4 of the first and 1/2 of the second; again by pairs that are equal.
  if (size > 1 && mixed != Values{1.25f, 0.75f}) return "mixed";
  return std::string(CheckReplicas({View(mixed)}, "joined", comm).message());
}

std::string BroadcastOfTraining(Communicator& comm) {
  const int root = comm.size() - 1;
  ParameterSet parameters;
  Scope(parameters, "m").Add("w", {3, 5}, Initializer::Normal(1.0f));
  // Another seed on each rank: other weights.
  parameters.Allocate({}, DType::kBFloat16, static_cast<uint64_t>(comm.rank()) + 1);
  Adam adam(parameters, {.ema_decay = 0.5f});
  adam.set_steps(100 + comm.rank());
  Stream stream{Device{}};
  for (int i = 0; i <= comm.rank(); ++i) adam.Step(0.1f, 1.0f, stream);
  BroadcastParameters(parameters, comm, root);
  BroadcastOptimizerState(adam, comm, root);
  if (adam.steps() != 101 + 2 * root) return "the number of updates";
  const Status status = CheckReplicas({parameters.weights(), parameters.compute_weights(),
                                       adam.first_moments(), adam.second_moments(), adam.average()},
                                      "after the broadcast", comm);
  return std::string(status.message());
}

std::string ChangedReplica(Communicator& comm) {
  ParameterSet parameters;
  const Scope scope(parameters, "m");
  scope.Add("first", {3, 5}, Initializer::Normal(1.0f));
  Parameter& second = scope.Add("second", {7}, Initializer::Normal(1.0f));
  parameters.Allocate({}, DType::kFloat32, 1);
  Stream stream{Device{}};
  if (const Status equal = CheckReplicas(parameters, "at the start", comm, stream); !equal.ok()) {
    return std::string(equal.message());
  }
  // With two ranks the first one's values count as right.
  const int wrong = comm.size() - 1;
  if (comm.rank() == wrong) {
    float& weight = second.master().data<float>()[6];
    weight = std::nextafter(weight, 1e9f);
  }
  const Status status = CheckReplicas(parameters, "after update 7", comm, stream);
  if (comm.size() == 1) return std::string(status.message());
  const std::string expected = "the replicas differ after update 7: rank " + std::to_string(wrong);
  const std::string message(status.message());
  return message.starts_with(expected) && message.find("m.second") != std::string::npos
             ? ""
             : "\"" + message + "\"";
}

}  // namespace

const std::vector<CommunicatorCase>& GradientCases() {
  static const std::vector<CommunicatorCase> cases = {
      {"gradients ready in another order on each rank are averaged", AnyOrder},
      {"27: floats travel as fp16 and come back, other types as they are", Float16Wire},
      {"27: floats travel as bf16 and come back, other types as they are", BFloat16Wire},
      {"28: parameters that some ranks did not use take part as zeros", Unused},
      {"29: two models take turns on one queue", TwoModels},
      {"30: what is clipped after the reduction is what the step uses, once", Clipped},
      {"31: gradients without a name or with another's are refused", Names},
      {"32: a broadcast makes the weights and the optimizer those of the root",
       BroadcastOfTraining},
      {"34: several passes make one reduction, of their mean where asked", Passes},
      {"37: Adasum adds what is orthogonal, averages what is equal, and stays finite", Joined},
      {"a changed weight is found, with its rank and its name", ChangedReplica},
  };
  return cases;
}

}  // namespace dtrain::testing
