// train_state.cc - parameters as named tensors, the rest as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/train_state.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/broadcast.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/runs/internal/checkpoint_files.h"

namespace dtrain {
namespace {

using internal::kModelFile;
using internal::kOptimizerFile;
using internal::kStateFile;

// The part of a flat arena that belongs to a parameter.
std::span<std::byte> Slice(const Tensor& flat, const Parameter& parameter) {
  return {reinterpret_cast<std::byte*>(flat.data<float>() + parameter.offset()),
          static_cast<size_t>(parameter.shape().elements()) * sizeof(float)};
}

void AddTensors(const std::vector<Parameter*>& parameters, const Tensor& flat,
                std::string_view prefix, TensorGroup& group) {
  Stream stream(flat.device());
  SynchronizeDevice(flat.device());
  const Tensor& host = group.owners.emplace_back(ToHost(flat, stream));
  for (const Parameter* parameter : parameters) {
    const std::span<const int64_t> dims = parameter->shape().dims();
    group.tensors.push_back({.name = std::string(prefix) + parameter->name(),
                             .dtype = DType::kFloat32,
                             .shape = {dims.begin(), dims.end()},
                             .data = Slice(host, *parameter)});
  }
}

using State = OptimizerShards::State;

std::string_view PrefixOf(State state) {
  switch (state) {
    case State::kFirstMoments:
      return "m.";
    case State::kSecondMoments:
      return "v.";
    case State::kAverage:
      return "average.";
  }
  return "";
}

std::vector<State> StatesOf(Adam& adam) {
  std::vector<State> states = {State::kFirstMoments, State::kSecondMoments};
  if (adam.average()) states.push_back(State::kAverage);
  return states;
}

ParameterRange RangeOf(const Parameter& parameter) {
  return {parameter.offset(), parameter.offset() + parameter.shape().elements()};
}

// One of the states, from all ranks, when its turn to be written has come.
void AddShardedTensors(const ParameterSet& parameters, State state, Adam& adam,
                       OptimizerShards& shards, TensorGroup& group) {
  const auto buffer = std::make_shared<std::vector<std::byte>>();
  for (const Parameter* parameter : parameters.in_backward_order()) {
    const std::span<const int64_t> dims = parameter->shape().dims();
    group.tensors.push_back(
        {.name = std::string(PrefixOf(state)) + parameter->name(),
         .dtype = DType::kFloat32,
         .shape = {dims.begin(), dims.end()},
         .data = {},
         .fetch = [&adam, &shards, state, parameter, buffer]() -> std::span<const std::byte> {
           const ParameterRange range = RangeOf(*parameter);
           buffer->resize(static_cast<size_t>(range.elements()) * sizeof(float));
           shards.Fetch(adam, state, range, *buffer);
           return *buffer;
         }});
  }
}

Status ReadShardedTensors(const SafetensorsFile& file, const ParameterSet& parameters,
                          std::string_view prefix, State state, Adam& adam,
                          OptimizerShards& shards) {
  for (const Parameter* parameter : parameters.in_backward_order()) {
    DT_ASSIGN_OR_RETURN(const NamedTensor* tensor,
                        file.Get(std::string(prefix) + parameter->name(), DType::kFloat32,
                                 parameter->shape().dims()));
    shards.Store(adam, state, RangeOf(*parameter), tensor->data);
  }
  return OkStatus();
}

Status ReadTensor(const SafetensorsFile& file, const Parameter& parameter, std::string_view prefix,
                  Tensor& flat, Stream& stream) {
  DT_ASSIGN_OR_RETURN(
      const NamedTensor* tensor,
      file.Get(std::string(prefix) + parameter.name(), DType::kFloat32, parameter.shape().dims()));
  CopyToDevice(Slice(flat, parameter).data(), tensor->data.data(), tensor->data.size(), stream);
  return OkStatus();
}

Status ReadTensors(const SafetensorsFile& file, const std::vector<Parameter*>& parameters,
                   std::string_view prefix, Tensor& flat) {
  if (parameters.empty()) return OkStatus();
  Stream stream(flat.device());
  for (const Parameter* parameter : parameters) {
    DT_RETURN_IF_ERROR(ReadTensor(file, *parameter, prefix, flat, stream));
  }
  stream.Synchronize();
  return OkStatus();
}

bool HoldsAverage(const SafetensorsFile& optimizer, const ParameterSet& parameters) {
  const Parameter& first = *parameters.in_backward_order().front();
  return optimizer.Find("average." + first.name()) != nullptr;
}

// A tensor the model does not have means another model: refused rather than left out.
Status RefuseForeignTensors(const SafetensorsFile& file, ParameterSet& parameters) {
  for (const NamedTensor& tensor : file.tensors()) {
    if (parameters.Find(tensor.name) == nullptr) {
      return StorageError(absl::StrFormat(
          "%s: holds the tensor %s, which this model does not have; use the checkpoint with the "
          "model configuration it was written with",
          file.path(), tensor.name));
    }
  }
  return OkStatus();
}

nlohmann::ordered_json ToJson(const std::optional<SampleOrder>& order) {
  if (!order) return nullptr;
  return {{"shuffle", order->shuffle},
          {"seed", order->seed},
          {"length_window", order->length_window},
          {"tokens_per_batch", order->tokens_per_batch},
          {"samples_per_batch", order->samples_per_batch},
          {"unit", static_cast<int>(order->unit)}};
}

std::optional<SampleOrder> OrderFromJson(const nlohmann::json& json) {
  if (json.is_null()) return std::nullopt;
  return SampleOrder{.shuffle = json.at("shuffle").get<bool>(),
                     .seed = json.at("seed").get<uint64_t>(),
                     .length_window = json.at("length_window").get<int64_t>(),
                     .tokens_per_batch = json.at("tokens_per_batch").get<int64_t>(),
                     .samples_per_batch = json.at("samples_per_batch").get<int64_t>(),
                     .unit = static_cast<BudgetUnit>(json.at("unit").get<int>())};
}

}  // namespace

std::string StateToJson(const TrainState& state) {
  const nlohmann::ordered_json json = {{"version", 1},
                                       {"step", state.step},
                                       {"optimizer_steps", state.optimizer_steps},
                                       {"epoch", state.position.epoch},
                                       {"sample", state.position.sample},
                                       {"sample_order", ToJson(state.position.order)},
                                       {"target_tokens", state.target_tokens},
                                       {"skipped", state.skipped},
                                       {"seconds", state.seconds},
                                       {"best_metric_name", state.best_metric_name},
                                       {"best_metric", state.best_metric},
                                       {"best_step", state.best_step},
                                       {"early_stop_metric_name", state.early_stop_metric_name},
                                       {"early_stop_best", state.early_stop_best},
                                       {"early_stop_step", state.early_stop_step},
                                       {"stalled_evaluations", state.stalled_evaluations},
                                       {"evaluation_due", state.evaluation_due},
                                       {"evaluated_step", state.evaluated_step},
                                       {"evaluation", state.evaluation},
                                       {"updates_per_epoch", state.epoch_count.updates_per_epoch},
                                       {"epochs_from_step", state.epoch_count.from_step},
                                       {"epochs_from_epochs", state.epoch_count.from_epochs},
                                       {"loss_scale", state.loss_scaler.scale},
                                       {"loss_scale_good_updates", state.loss_scaler.good_updates}};
  return internal::JsonText(json, 2) + "\n";
}

StatusOr<TrainState> StateFromJson(const std::string& text, const std::string& path) {
  TrainState state;
  try {
    const nlohmann::json json = internal::ParseJsonOrThrow<nlohmann::json>(text);
    if (json.at("version").get<int>() != 1) {
      return StorageError(
          absl::StrFormat("%s/%s: written by another version of dtrain", path, kStateFile));
    }
    json.at("step").get_to(state.step);
    json.at("optimizer_steps").get_to(state.optimizer_steps);
    json.at("epoch").get_to(state.position.epoch);
    json.at("sample").get_to(state.position.sample);
    // Older ones have none.
    state.position.order = OrderFromJson(json.value("sample_order", nlohmann::json()));
    json.at("target_tokens").get_to(state.target_tokens);
    json.at("skipped").get_to(state.skipped);
    json.at("seconds").get_to(state.seconds);
    state.best_metric_name = json.value("best_metric_name", "");  // older ones have none
    json.at("best_metric").get_to(state.best_metric);
    json.at("best_step").get_to(state.best_step);
    state.early_stop_metric_name = json.value("early_stop_metric_name", "");
    json.at("early_stop_best").get_to(state.early_stop_best);
    json.at("early_stop_step").get_to(state.early_stop_step);
    json.at("stalled_evaluations").get_to(state.stalled_evaluations);
    json.at("evaluation_due").get_to(state.evaluation_due);
    // Older ones have none.
    state.evaluated_step = json.value("evaluated_step", int64_t{-1});
    state.evaluation = json.value("evaluation", "");
    state.epoch_count = {.updates_per_epoch = json.value("updates_per_epoch", int64_t{0}),
                         .from_step = json.value("epochs_from_step", int64_t{0}),
                         .from_epochs = json.value("epochs_from_epochs", 0.0)};
    json.at("loss_scale").get_to(state.loss_scaler.scale);
    json.at("loss_scale_good_updates").get_to(state.loss_scaler.good_updates);
  } catch (const nlohmann::json::exception& error) {
    return StorageError(absl::StrFormat("%s/%s: %s", path, kStateFile, error.what()));
  }
  return state;
}

std::vector<CheckpointFile> MakeCheckpointFiles(const TrainState& state, ParameterSet& parameters,
                                                Adam& adam, const std::vector<NamedFile>& files,
                                                OptimizerShards* shards) {
  parameters.CheckAllocated();
  TensorGroup model;
  AddTensors(parameters.in_backward_order(), parameters.weights(), "", model);
  FrozenParameters& frozen = FrozenOf(parameters);
  if (frozen.weights()) AddTensors(frozen.order(), frozen.weights(), "", model);
  TensorGroup optimizer;
  for (const State kind : StatesOf(adam)) {
    if (shards != nullptr) {
      AddShardedTensors(parameters, kind, adam, *shards, optimizer);
    } else {
      AddTensors(parameters.in_backward_order(), OptimizerShards::TensorOf(adam, kind),
                 PrefixOf(kind), optimizer);
    }
  }
  TrainState written = state;
  written.optimizer_steps = adam.steps();
  std::vector<CheckpointFile> result;
  result.push_back({kModelFile, std::move(model)});
  result.push_back({kOptimizerFile, std::move(optimizer)});
  result.push_back({kStateFile, StateToJson(written)});
  for (const NamedFile& file : files) result.push_back({file.name, file.contents});
  return result;
}

Status RestoreCheckpoint(const Checkpoint& checkpoint, ParameterSet& parameters, Adam& adam,
                         TrainState& state, OptimizerShards* shards) {
  parameters.CheckAllocated();
  DT_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(kStateFile));
  DT_ASSIGN_OR_RETURN(const TrainState restored, StateFromJson(text, checkpoint.path()));
  DT_ASSIGN_OR_RETURN(const SafetensorsFile model, checkpoint.OpenTensors(kModelFile));
  DT_ASSIGN_OR_RETURN(const SafetensorsFile optimizer, checkpoint.OpenTensors(kOptimizerFile));
  DT_RETURN_IF_ERROR(RefuseForeignTensors(model, parameters));
  const std::vector<Parameter*>& trained = parameters.in_backward_order();
  FrozenParameters& frozen = FrozenOf(parameters);
  DT_RETURN_IF_ERROR(ReadTensors(model, trained, "", parameters.weights()));
  DT_RETURN_IF_ERROR(ReadTensors(model, frozen.order(), "", frozen.weights()));
  const bool has_average = HoldsAverage(optimizer, parameters);
  if (has_average && !adam.average()) {
    LogWarning(checkpoint.path() +
               ": the average of the weights is dropped, because optimizer.ema_decay is 0 here");
  }
  for (const State kind : StatesOf(adam)) {
    const bool begins = kind == State::kAverage && !has_average;
    if (begins) {
      LogWarning(checkpoint.path() +
                 ": was written without optimizer.ema_decay: the average begins at its weights");
    }
    const SafetensorsFile& file = begins ? model : optimizer;
    const std::string_view prefix = begins ? "" : PrefixOf(kind);
    DT_RETURN_IF_ERROR(
        shards != nullptr
            ? ReadShardedTensors(file, parameters, prefix, kind, adam, *shards)
            : ReadTensors(file, trained, prefix, OptimizerShards::TensorOf(adam, kind)));
  }
  parameters.RefreshComputeWeights();
  adam.set_steps(restored.optimizer_steps);
  state = restored;
  return OkStatus();
}

Status ShareRestored(const Status& restored, ParameterSet& parameters, Adam& adam,
                     TrainState& state, Communicator& comm, const OptimizerShards* shards) {
  DT_RETURN_IF_ERROR(ShareRootStatus(restored, "load a checkpoint", comm));
  BroadcastParameters(parameters, comm);
  DT_ASSIGN_OR_RETURN(state, StateFromJson(BroadcastString(comm, StateToJson(state)), "root"));
  if (shards == nullptr) {
    BroadcastOptimizerState(adam, comm);
  } else {
    adam.set_steps(state.optimizer_steps);
    // Before the first update it is the weights: here the root's, no longer this rank's own.
    if (adam.steps() == 0) {
      Stream stream(parameters.weights().device());
      adam.BeginAverage(stream);
      stream.Synchronize();
    }
  }
  return OkStatus();
}

StatusOr<bool> ResumeCheckpoint(const std::string& directory, ParameterSet& parameters, Adam& adam,
                                TrainState& state, Communicator& comm, OptimizerShards* shards) {
  bool found = false;
  const auto restore = [&]() -> Status {
    DT_ASSIGN_OR_RETURN(const std::optional<Checkpoint> latest, FindLatestGood(directory));
    if (!latest) return OkStatus();
    found = true;
    DT_RETURN_IF_ERROR(RestoreCheckpoint(*latest, parameters, adam, state, shards));
    PutAsideNewer(directory, latest->step());
    return OkStatus();
  };
  Status restored;
  if (comm.is_root()) {
    restored = restore();
    if (shards != nullptr) shards->Dismiss();
  } else if (shards != nullptr) {
    shards->Serve(adam);
  }
  DT_RETURN_IF_ERROR(ShareRestored(restored, parameters, adam, state, comm, shards));
  return comm.AllReduceValue<int32_t>(found ? 1 : 0, ReduceOp::kMax) == 1;
}

Status LoadWeights(const Checkpoint& checkpoint, ParameterSet& parameters,
                   bool adapters_may_be_new) {
  parameters.CheckAllocated();
  DT_ASSIGN_OR_RETURN(const SafetensorsFile model, checkpoint.OpenTensors(kModelFile));
  DT_RETURN_IF_ERROR(RefuseForeignTensors(model, parameters));
  std::optional<SafetensorsFile> optimizer;
  if (checkpoint.Has(kOptimizerFile)) {
    DT_ASSIGN_OR_RETURN(optimizer, checkpoint.OpenTensors(kOptimizerFile));
  }
  FrozenParameters& frozen = FrozenOf(parameters);
  Stream stream(parameters.weights().device());
  for (const Parameter* parameter : parameters.all()) {
    const bool may_be_new = adapters_may_be_new && frozen.IsFactor(*parameter);
    if (may_be_new && model.Find(parameter->name()) == nullptr) continue;
    const std::string average = "average." + parameter->name();
    const bool has_average = optimizer && optimizer->Find(average) != nullptr;
    Tensor& flat = parameter->is_frozen() ? frozen.weights() : parameters.weights();
    DT_RETURN_IF_ERROR(ReadTensor(has_average ? *optimizer : model, *parameter,
                                  has_average ? "average." : "", flat, stream));
  }
  stream.Synchronize();
  parameters.RefreshComputeWeights();
  return OkStatus();
}

}  // namespace dtrain
