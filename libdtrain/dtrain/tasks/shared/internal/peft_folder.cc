// peft_folder.cc - the names and settings that peft expects.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/peft_folder.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/tasks/shared/internal/hf_folder.h"
#include "nlohmann/json.hpp"

namespace dtrain::internal {
namespace {

// Their name of the task; null where they have none.
nlohmann::ordered_json TaskTypeOf(const std::string& task) {
  static const std::pair<const char*, const char*> kTypes[] = {
      {"SequenceClassification", "SEQ_CLS"},
      {"TokenClassification", "TOKEN_CLS"},
      {"QuestionAnswering", "QUESTION_ANS"},
      {"Translation", "SEQ_2_SEQ_LM"}};
  for (const auto& [name, type] : kTypes) {
    if (task == name) return type;
  }
  return nullptr;
}

// The outermost module that is trained as a whole: of "classifier.out_proj.weight" it is
// "classifier", of "bert.pooler.dense.weight" it is "bert.pooler".
std::string ModuleOf(const std::string& name, std::string_view encoder) {
  const std::string prefix = absl::StrCat(ToAbsl(encoder), ".");
  const size_t begin = name.starts_with(prefix) ? prefix.size() : 0;
  return name.substr(0, name.find('.', begin));
}

}  // namespace

Status NoAdapters() {
  return UsageError(
      "--adapter: the model has no adapters, because it was trained without model.lora; leave "
      "--adapter out");
}

Status WritePeftFolder(const PeftExport& model, const std::string& directory, bool overwrite) {
  const FrozenParameters& frozen = FrozenOf(model.parameters);
  if (frozen.adapters().empty()) return NoAdapters();
  std::vector<NamedTensor> tensors;
  std::set<std::string> modules;
  for (Parameter* parameter : model.parameters.in_backward_order()) {
    tensors.push_back(
        HfTensor(absl::StrCat("base_model.model.", parameter->name()), parameter->master()));
    if (!frozen.IsFactor(*parameter)) modules.insert(ModuleOf(parameter->name(), model.encoder));
  }
  nlohmann::ordered_json targets = nlohmann::ordered_json::array();
  for (const LowRankAdapter& adapter : frozen.adapters()) {
    const std::string& weight = adapter.weight->name();
    targets.push_back(weight.substr(0, weight.rfind('.')));
  }
  const nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", TaskTypeOf(model.task)},
      {"base_model_name_or_path", model.base},
      {"r", model.low_rank.rank},
      {"lora_alpha", ShortestDecimal(model.low_rank.alpha)},
      {"lora_dropout", 0.0},
      {"target_modules", std::move(targets)},
      {"modules_to_save",
       modules.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(modules)},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true}};
  const std::vector<HfFile> files = {{kAdapterConfigFile, JsonText(config, 2) + "\n"}};
  return WriteHfFolder(directory, overwrite, tensors, files, kAdapterWeightsFile);
}

}  // namespace dtrain::internal
