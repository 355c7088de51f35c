// average_checkpoints.cc - averages tensor by tensor, so that no model is in memory as a whole.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/average_checkpoints.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"
#include "dtrain/formats/safetensors.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/runs/internal/checkpoint_files.h"
#include "dtrain/runs/output_folder.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A checkpoint and the files with its weights.
struct Source {
  Checkpoint checkpoint;
  SafetensorsFile model;
  std::optional<SafetensorsFile> optimizer;

  // The tensor that evaluations use.
  StatusOr<const NamedTensor*> Weight(const NamedTensor& like) const {
    const std::string average = "average." + like.name;
    const bool is_averaged = optimizer && optimizer->Find(average) != nullptr;
    return is_averaged ? optimizer->Get(average, DType::kFloat32, like.shape)
                       : model.Get(like.name, DType::kFloat32, like.shape);
  }
};

StatusOr<Source> OpenSource(const std::string& path) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path));
  DT_ASSIGN_OR_RETURN(SafetensorsFile model, checkpoint.OpenTensors(internal::kModelFile));
  Source source{std::move(checkpoint), std::move(model), std::nullopt};
  if (source.checkpoint.Has(internal::kOptimizerFile)) {
    DT_ASSIGN_OR_RETURN(source.optimizer, source.checkpoint.OpenTensors(internal::kOptimizerFile));
  }
  return source;
}

// The checkpoints at the paths; for a run, its newest ones.
std::vector<std::string> CheckpointsOf(std::span<const std::string> paths, int64_t last) {
  std::error_code error;
  if (paths.size() != 1 || fs::exists(paths[0] + "/MANIFEST", error)) {
    return {paths.begin(), paths.end()};
  }
  const std::string folder = fs::exists(paths[0] + "/ckpt", error) ? paths[0] + "/ckpt" : paths[0];
  std::vector<int64_t> steps = ListCheckpoints(folder);
  const auto left_out = static_cast<int64_t>(steps.size()) - last;
  if (left_out > 0) steps.erase(steps.begin(), steps.begin() + left_out);
  std::vector<std::string> checkpoints;
  for (const int64_t step : steps) checkpoints.push_back(folder + "/" + CheckpointName(step));
  return checkpoints;
}

StatusOr<std::vector<Source>> OpenSources(const std::vector<std::string>& paths) {
  std::vector<Source> sources;
  std::set<fs::path> known;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!known.insert(fs::weakly_canonical(path, error)).second) {
      return UsageError(path + ": is given twice; give each checkpoint once");
    }
    DT_ASSIGN_OR_RETURN(Source source, OpenSource(path));
    sources.push_back(std::move(source));
  }
  std::ranges::stable_sort(sources, {},
                           [](const Source& source) { return source.checkpoint.step(); });
  return sources;
}

// Properties of the model that tensor shapes do not show, such as its number of heads. Older
// checkpoints lack this file.
StatusOr<std::string> ModelTextOf(const Checkpoint& checkpoint) {
  if (!checkpoint.Has(internal::kModelTextFile)) return std::string();
  return checkpoint.ReadText(internal::kModelTextFile);
}

// True if both have the same content in a file, or if either lacks it.
StatusOr<bool> HaveSame(const std::string& name, const Checkpoint& a, const Checkpoint& b) {
  if (!a.Has(name) || !b.Has(name)) return true;
  DT_ASSIGN_OR_RETURN(const std::string of_a, a.ReadText(name));
  DT_ASSIGN_OR_RETURN(const std::string of_b, b.ReadText(name));
  return of_a == of_b;
}

// Vocabularies, and lists of a task's classes or tags.
bool GivesRowsTheirMeaning(std::string_view name) {
  if (name == internal::kTrainingDataFile || name == internal::kModelTextFile) return false;
  return name.ends_with(".txt") || name.ends_with(".spm");
}

// Checks that rows of embeddings and outputs mean the same in both. Warns if the training data
// differ.
Status CheckSameMeaning(const Checkpoint& source, const Checkpoint& newest) {
  for (const std::string& name : newest.FileNames()) {
    if (!GivesRowsTheirMeaning(name)) continue;
    DT_ASSIGN_OR_RETURN(const bool is_same, HaveSame(name, source, newest));
    if (is_same) continue;
    return StorageError(absl::StrFormat("%s and %s cannot be averaged: they have a different %s",
                                        source.path(), newest.path(), name));
  }
  DT_ASSIGN_OR_RETURN(const bool is_same, HaveSame(internal::kTrainingDataFile, source, newest));
  if (!is_same) {
    LogWarning(
        absl::StrFormat("%s and %s were trained on different data (training_data.txt); their mean "
                        "may not be useful",
                        source.path(), newest.path()));
  }
  return OkStatus();
}

Status CheckAlike(const std::vector<Source>& sources) {
  const Source& newest = sources.back();
  DT_ASSIGN_OR_RETURN(const std::string text, ModelTextOf(newest.checkpoint));
  for (const Source& source : sources) {
    DT_ASSIGN_OR_RETURN(const std::string other, ModelTextOf(source.checkpoint));
    const bool is_alike = other == text || other.empty() || text.empty();
    if (!is_alike || source.model.tensors().size() != newest.model.tensors().size()) {
      return StorageError(absl::StrFormat("%s and %s cannot be averaged: they are different models",
                                          source.checkpoint.path(), newest.checkpoint.path()));
    }
    for (const NamedTensor& tensor : newest.model.tensors()) {
      DT_RETURN_IF_ERROR(source.Weight(tensor).status());
    }
    DT_RETURN_IF_ERROR(CheckSameMeaning(source.checkpoint, newest.checkpoint));
  }
  return OkStatus();
}

// The mean of a tensor over all sources, computed in double.
void Mean(const std::vector<Source>& sources, const NamedTensor& like, std::vector<float>& mean) {
  std::vector<double> sum(like.data.size() / sizeof(float), 0.0);
  mean.resize(sum.size());
  for (const Source& source : sources) {
    std::memcpy(mean.data(), (*source.Weight(like))->data.data(), like.data.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{mean[i]};
  }
  const auto count = static_cast<double>(sources.size());
  std::ranges::transform(sum, mean.begin(),
                         [count](double x) { return static_cast<float>(x / count); });
}

// Each tensor is computed only when it is written.
TensorGroup MeanOf(const std::vector<Source>& sources) {
  TensorGroup group;
  const auto mean = std::make_shared<std::vector<float>>();
  for (const NamedTensor& tensor : sources.back().model.tensors()) {
    group.tensors.push_back({.name = tensor.name,
                             .dtype = DType::kFloat32,
                             .shape = tensor.shape,
                             .data = {},
                             .fetch = [&sources, &tensor, mean]() {
                               Mean(sources, tensor, *mean);
                               return std::as_bytes(std::span<const float>(*mean));
                             }});
  }
  return group;
}

// Creates a new folder next to `folder`, without touching folders that earlier runs left there.
StatusOr<std::string> MakePartial(const std::string& folder) {
  DT_RETURN_IF_ERROR(MakeDirectories(ParentOf(folder)));
  for (int i = 1;; ++i) {
    const std::string partial = folder + ".partial" + (i == 1 ? "" : absl::StrCat("-", i));
    std::error_code error;
    if (fs::create_directory(partial, error)) return partial;
    if (error && !fs::exists(partial)) return FileError(partial, "create", error.value());
  }
}

}  // namespace

StatusOr<AveragedCheckpoints> AverageCheckpoints(std::span<const std::string> paths, int64_t last,
                                                 const std::string& output) {
  std::string folder = output;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const std::vector<std::string> checkpoints = CheckpointsOf(paths, last);
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error)) {
      return UsageError(path + ": no such run or checkpoint; check the path");
    }
  }
  if (checkpoints.size() < 2) {
    return UsageError(absl::StrFormat(
        "%s: a mean takes at least two checkpoints, and there %s; give several folders like "
        "RUN/ckpt/step-00001000, or a run that keeps more (trainer.keep_last)",
        paths.empty() ? std::string("nothing") : paths[0],
        checkpoints.empty() ? "is none" : "is one"));
  }
  DT_RETURN_IF_ERROR(CheckIsNoCheckpoint(folder));
  std::error_code error;
  if (fs::exists(folder, error)) {
    return UsageError(folder + ": already exists; name a new folder");
  }
  DT_ASSIGN_OR_RETURN(const std::vector<Source> sources, OpenSources(checkpoints));
  DT_RETURN_IF_ERROR(CheckAlike(sources));
  const Checkpoint& newest = sources.back().checkpoint;
  std::vector<CheckpointFile> files;
  files.push_back({internal::kModelFile, MeanOf(sources)});
  for (const std::string& name : newest.FileNames()) {
    // These files are only needed to continue training.
    if (absl::EndsWith(name, ".safetensors") || name == internal::kStateFile ||
        name == internal::kTrainingDataFile) {
      continue;
    }
    DT_ASSIGN_OR_RETURN(std::string text, newest.ReadText(name));
    files.push_back({name, std::move(text)});
  }
  DT_ASSIGN_OR_RETURN(const std::string partial, MakePartial(folder));
  AveragedCheckpoints result;
  result.step = newest.step();
  const StatusOr<int64_t> bytes = WriteCheckpointFiles(partial, newest.step(), files);
  if (bytes.ok()) fs::rename(partial, folder, error);
  if (!bytes.ok() || error) {
    const std::string why = error.message();
    fs::remove_all(partial, error);
    DT_RETURN_IF_ERROR(bytes.status());
    return StorageError(absl::StrFormat("%s: cannot be written: %s", folder, why));
  }
  result.bytes = *bytes;
  for (const Source& source : sources) result.paths.push_back(source.checkpoint.path());
  return result;
}

}  // namespace dtrain
