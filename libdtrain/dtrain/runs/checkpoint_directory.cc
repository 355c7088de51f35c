// checkpoint_directory.cc - publishes checkpoints by renaming; rotates and finds them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/checkpoint_directory.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/runs/internal/unused_path.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kBestPrefix = "best-";
constexpr std::string_view kFormerPrefix = "former-best-";
constexpr std::string_view kLast = "last";

// Names of the entries of a folder; empty if it cannot be read.
std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  return names;
}

// A metric may contain the name of a dev set or label, so characters that file names cannot have
// are escaped.
std::string BestLink(std::string_view metric) {
  return std::string(kBestPrefix) +
         absl::StrReplaceAll(ToAbsl(metric), {{"%", "%25"}, {"/", "%2F"}});
}

void RemoveOrWarn(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) LogWarning(absl::StrFormat("%s: cannot delete: %s", path, error.message()));
}

// Renames a file that is no longer used to `aside`, or a similar free name, and logs it.
void PutAside(const std::string& path, const std::string& aside) {
  std::error_code error;
  const bool is_taken = fs::exists(fs::symlink_status(aside, error));
  const std::string kept = is_taken ? internal::UnusedPathBeside(aside) : aside;
  if (::rename(path.c_str(), kept.c_str()) != 0) {
    LogWarning(std::string(FileError(path, "rename", errno).message()));
    return;
  }
  LogWarning(absl::StrFormat("%s is kept as %s; delete it when you no longer need it",
                             fs::path(path).filename().string(), kept));
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

// If there is a folder in the link's place, it is a copy of a checkpoint, from a run that was
// copied with its links followed.
Status LinkTo(const std::string& name, const std::string& link) {
  if (IsFolder(link)) RemoveOrWarn(link);
  return ReplaceLink(name, link);
}

std::optional<int64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  name.remove_prefix(kStepPrefix.size());
  int64_t step = 0;
  const auto result = std::from_chars(name.data(), name.data() + name.size(), step);
  if (result.ec != std::errc() || result.ptr != name.data() + name.size()) return std::nullopt;
  return step;
}

uint64_t ContentBytes(const CheckpointFile& file) {
  if (const auto* text = std::get_if<std::string>(&file.content)) return text->size();
  uint64_t bytes = 0;
  for (const NamedTensor& tensor : std::get<TensorGroup>(file.content).tensors) {
    bytes += static_cast<uint64_t>(tensor.bytes()) + tensor.name.size();
  }
  return bytes;
}

double Mebibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrFormat("step-%08d", step); }

std::vector<int64_t> ListCheckpoints(const std::string& path) {
  std::vector<int64_t> steps;
  for (const std::string& name : NamesIn(path)) {
    if (const auto step = StepOf(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

StatusOr<CheckpointDirectory> CheckpointDirectory::Open(const std::string& path,
                                                        const CheckpointRotation& rotation) {
  DT_CHECK_GE(rotation.keep_last, 1);
  DT_RETURN_IF_ERROR(MakeDirectories(path));
  for (const std::string& name : NamesIn(path)) {
    if (name.starts_with(kTemporaryPrefix)) RemoveOrWarn(absl::StrFormat("%s/%s", path, name));
  }
  return CheckpointDirectory(path, rotation);
}

Status CheckpointDirectory::CheckSpace(std::span<const CheckpointFile> files) const {
  uint64_t needed = uint64_t{64} << 10;  // for headers, the manifest and partly filled blocks
  for (const CheckpointFile& file : files) needed += ContentBytes(file);
  std::error_code error;
  const fs::space_info space = fs::space(path_, error);
  if (error || space.available >= needed) return OkStatus();
  return StorageError(absl::StrFormat(
      "%s: a checkpoint needs %.1f MiB, but only %.1f MiB are free; free some space and run the "
      "same command again",
      path_, Mebibytes(needed), Mebibytes(space.available)));
}

Status CheckpointDirectory::Publish(const std::string& temporary, const std::string& name) const {
  const std::string path = path_ + "/" + name;
  if (fs::exists(path)) {
    // Exchanging the two folders keeps a checkpoint of this step available at every moment.
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
      RemoveOrWarn(temporary);
      return SyncDirectory(path_);
    }
    RemoveOrWarn(path);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return FileError(path, "create", errno);
  }
  return SyncDirectory(path_);
}

StatusOr<SavedCheckpoint> CheckpointDirectory::Save(int64_t step,
                                                    std::span<const CheckpointFile> files,
                                                    std::string_view best_metric) {
  DT_CHECK_GE(step, 0);
  const Timer timer;
  const std::string name = CheckpointName(step);
  const std::string temporary = path_ + "/" + std::string(kTemporaryPrefix) + name;
  DT_RETURN_IF_ERROR(CheckSpace(files));
  RemoveOrWarn(temporary);
  DT_RETURN_IF_ERROR(MakeDirectories(temporary));
  const StatusOr<int64_t> bytes = WriteCheckpointFiles(temporary, step, files);
  const Status status = bytes.ok() ? Publish(temporary, name) : bytes.status();
  if (!status.ok()) {
    // The incomplete data would only use up disk space.
    RemoveOrWarn(temporary);
    return Annotate(status, "the checkpoint of step " + std::to_string(step) + " is not saved");
  }
  // Before deleting anything, because linked checkpoints are kept.
  if (!best_metric.empty()) {
    DT_RETURN_IF_ERROR(LinkTo(name, path_ + "/" + BestLink(best_metric)));
  }
  DT_RETURN_IF_ERROR(LinkTo(name, path_ + "/" + std::string(kLast)));
  Rotate();
  return SavedCheckpoint{path_ + "/" + name, *bytes, timer.Seconds()};
}

Status CheckpointDirectory::MarkBest(std::string_view metric, int64_t step) {
  const std::string name = CheckpointName(step);
  DT_CHECK(Has(step)) << "only a saved checkpoint can be the best";
  const std::string link = path_ + "/" + BestLink(metric);
  if (LinkTarget(link) == name) return OkStatus();
  DT_RETURN_IF_ERROR(LinkTo(name, link));
  Rotate();
  return OkStatus();
}

void CheckpointDirectory::KeepBestOnlyBy(std::string_view metric) {
  for (const std::string& name : NamesIn(path_)) {
    const bool is_kept = !metric.empty() && name == BestLink(metric);
    if (!name.starts_with(kBestPrefix) || is_kept) continue;
    const std::string path = path_ + "/" + name;
    const std::string target = LinkTarget(path);
    std::error_code error;
    if (!target.empty() && !fs::exists(path_ + "/" + target, error)) {
      RemoveOrWarn(path);
    } else {
      PutAside(path,
               absl::StrCat(path_, "/", ToAbsl(kFormerPrefix), name.substr(kBestPrefix.size())));
    }
  }
}

bool CheckpointDirectory::Has(int64_t step) const {
  std::error_code error;
  return fs::exists(path_ + "/" + CheckpointName(step), error);
}

void CheckpointDirectory::Rotate() const {
  std::set<std::string> linked;
  for (const std::string& name : NamesIn(path_)) {
    const bool is_mark = name.starts_with(kBestPrefix) || name.starts_with(kFormerPrefix);
    if (name != kLast && !is_mark) continue;
    linked.insert(fs::path(LinkTarget(path_ + "/" + name)).filename().string());
  }
  std::vector<int64_t> steps = ListCheckpoints(path_);
  if (steps.size() <= static_cast<size_t>(rotation_.keep_last)) return;
  steps.resize(steps.size() - static_cast<size_t>(rotation_.keep_last));
  for (const int64_t step : steps) {
    const std::string name = CheckpointName(step);
    if (linked.contains(name)) continue;
    if (rotation_.keep_every > 0 && step % rotation_.keep_every == 0) continue;
    // Renamed first, so that an interrupted deletion does not leave half a checkpoint under its
    // name.
    const std::string doomed = path_ + "/" + std::string(kTemporaryPrefix) + "delete-" + name;
    std::error_code error;
    fs::rename(path_ + "/" + name, doomed, error);
    RemoveOrWarn(error ? path_ + "/" + name : doomed);
    LogInfo(absl::StrFormat("deleted checkpoint %s: not among the last %d and not the best", name,
                            rotation_.keep_last));
  }
}

void PutAsideNewer(const std::string& path, int64_t step) {
  for (const int64_t newer : ListCheckpoints(path)) {
    if (newer <= step) continue;
    const std::string name = CheckpointName(newer);
    PutAside(absl::StrCat(path, "/", name), absl::StrCat(path, "/.refused-", name));
  }
}

namespace {

// A checkpoint that cannot be used.
struct Refusal {
  std::string name;  // of its folder
  std::string what;  // for messages
  Status status;
};

// FindLatestGood(), where `best` was refused before.
StatusOr<std::optional<Checkpoint>> FindLatest(const std::string& path,
                                               const std::optional<Refusal>& best) {
  std::vector<int64_t> steps = ListCheckpoints(path);
  std::reverse(steps.begin(), steps.end());
  std::vector<Refusal> refusals;
  std::string used;
  std::optional<Checkpoint> found;
  if (best && !StepOf(best->name)) refusals.push_back(*best);
  for (const int64_t step : steps) {
    const std::string name = CheckpointName(step);
    if (best && best->name == name) {
      refusals.push_back(*best);
      continue;
    }
    StatusOr<Checkpoint> checkpoint = Checkpoint::Open(absl::StrCat(path, "/", name));
    if (checkpoint.ok()) {
      used = name;
      found = *std::move(checkpoint);
      break;
    }
    refusals.push_back({name, absl::StrCat("checkpoint ", name), checkpoint.status()});
  }
  // One that is older than the one used is refused all the same.
  const bool is_older =
      best && std::none_of(refusals.begin(), refusals.end(),
                           [&](const Refusal& r) { return r.name == best->name; });
  if (is_older) refusals.push_back(*best);
  for (size_t i = 0; i < refusals.size(); ++i) {
    const bool is_last = i + 1 == refusals.size();
    LogWarning(absl::StrFormat(
        "%s is refused: %s%s", refusals[i].what, ToAbsl(refusals[i].status.message()),
        is_last && found ? absl::StrCat("; ", used, " is used instead") : ""));
  }
  if (found || refusals.empty()) return found;
  return Annotate(refusals.front().status,
                  absl::StrFormat("%s: none of the %d checkpoints is valid; the newest one", path,
                                  steps.size()));
}

}  // namespace

StatusOr<std::optional<Checkpoint>> FindLatestGood(const std::string& path) {
  return FindLatest(path, std::nullopt);
}

StatusOr<Checkpoint> OpenCheckpoint(const std::string& path, std::string_view metric) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return UsageError(path + ": no such run or checkpoint; check the path");
  }
  if (fs::exists(path + "/MANIFEST", error)) return Checkpoint::Open(path);
  const std::string folder = fs::exists(path + "/ckpt", error) ? path + "/ckpt" : path;
  std::optional<Refusal> refused;
  if (!metric.empty()) {
    const std::string link = BestLink(metric);
    const std::string best = IsFolder(folder + "/" + link) ? link : LinkTarget(folder + "/" + link);
    if (best.empty()) {
      const std::string kept = BestMetricOf(path);
      return UsageError(absl::StrFormat(
          "%s has no best checkpoint for %s%s; name a checkpoint, like %s/step-00001000", path,
          metric, kept.empty() ? "" : ", only by " + kept, folder));
    }
    StatusOr<Checkpoint> checkpoint = Checkpoint::Open((fs::path(folder) / best).string());
    if (checkpoint.ok()) return checkpoint;
    refused = {best, absl::StrFormat("%s, the best by %s,", best, metric), checkpoint.status()};
  }
  DT_ASSIGN_OR_RETURN(std::optional<Checkpoint> latest, FindLatest(folder, refused));
  if (latest) return *std::move(latest);
  for (const std::string& name : NamesIn(path)) {
    if (!name.starts_with("seed-")) continue;
    return UsageError(absl::StrFormat(
        "%s holds runs of several seeds; give one of them, like %s/%s", path, path, name));
  }
  return UsageError(path +
                    ": neither a checkpoint nor a run with checkpoints; give a run directory or "
                    "a folder like RUN/ckpt/step-00001000");
}

std::string BestMetricOf(const std::string& path) {
  std::error_code error;
  const std::string folder = fs::exists(path + "/ckpt", error) ? path + "/ckpt" : path;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kBestPrefix)) continue;
    return absl::StrReplaceAll(name.substr(kBestPrefix.size()), {{"%2F", "/"}, {"%25", "%"}});
  }
  return "";
}

}  // namespace dtrain
