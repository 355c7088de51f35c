// prepared_folder.cc - decides whether a prepared folder is ours, and moves files into place.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/prepared_folder.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"
#include "dtrain/tasks/translation/token_shard.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain::internal {
namespace {

namespace fs = std::filesystem;

constexpr char kPartial[] = ".partial";
constexpr char kLock[] = ".lock";
constexpr std::string_view kPreparedFiles[] = {
    kTokenizerFiles[0], kTokenizerFiles[1], kTokenizerFiles[2], kTokenizerFiles[3],
    kTokenizerFiles[4], kTokenizerFiles[5], "train.bin",        "dev.bin",
    "test.bin",         "dev.src",          "dev.ref",          "test.src",
    "test.ref",         kPrepareReportFile};
static_assert(std::size(kTokenizerFiles) == 6);

std::string ReadText(const fs::path& path) { return ReadWholeFile(path.string()).value_or(""); }

// Advice for `dtrain prepare`, and for a run that prepares its own texts.
std::string Remedy(const std::string& path) {
  return absl::StrFormat(
      "give `dtrain prepare` another output folder or --overwrite, and a run another run.run_dir, "
      "or delete %s to prepare the data again",
      path);
}

// True if the folder only has files of this preparation or an interrupted one. A process that is
// killed inside Publish() leaves some files in .partial and others outside of it.
bool IsFree(const fs::path& folder) {
  std::error_code error;
  const bool interrupted = fs::exists(folder / kPartial, error);
  return std::all_of(
      fs::directory_iterator(folder, error), fs::directory_iterator(),
      [&](const fs::directory_entry& entry) {
        const std::string name = entry.path().filename();
        return name == kPartial || name == kLock ||
               (interrupted && std::find(std::begin(kPreparedFiles), std::end(kPreparedFiles),
                                         name) != std::end(kPreparedFiles));
      });
}

// Checks a folder that has no report and no remains of an interrupted preparation.
Status CheckNames(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kPartial, error)) return OkStatus();
  for (const std::string_view name : kPreparedFiles) {
    if (!fs::exists(fs::symlink_status(folder / name, error))) continue;
    return UsageError((folder / name).string() +
                      ": no preparation made this file; name another output folder");
  }
  return OkStatus();
}

Status CheckFiles(const fs::path& folder, const PrepareReport& report) {
  const std::pair<const char*, int64_t> sets[] = {
      {"train", report.train.pairs}, {"dev", report.dev.pairs}, {"test", report.test.pairs}};
  for (const auto& [name, pairs] : sets) {
    if (pairs == 0) continue;
    const std::string path = (folder / name).string() + ".bin";
    const StatusOr<TokenShard> shard = TokenShard::Open(path, {.vocab_hash = report.vocab_hash});
    if (!shard.ok()) return shard.status();
    if (shard->size() != pairs || shard->info().options_hash != report.options_hash) {
      return DataError(path + ": was made by another preparation than the report in this folder");
    }
  }
  if (TranslationTokenizer::FilesOf(folder.string()).empty()) {
    return DataError((folder / kVocabularyFile).string() + ": is missing");
  }
  return OkStatus();
}

}  // namespace

PreparedFolder::~PreparedFolder() {
  std::error_code ignored;
  if (begun_) fs::remove_all(fs::path(path_) / kPartial, ignored);
  if (lock_) lock_->RemoveFile();
  if (created_) fs::remove(path_, ignored);  // fails unless it is empty
}

Status PreparedFolder::Lock() {
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    return UsageError(path_ + ": is not a folder; name another output folder");
  }
  created_ = !fs::exists(path_, error);
  const std::string path = (fs::path(path_) / kLock).string();
  for (bool told = false; !lock_;) {
    fs::create_directories(path_, error);
    if (error) return StorageError(path_ + ": cannot be created: " + error.message());
    StatusOr<std::optional<FileLock>> lock = FileLock::Try(path);
    if (lock.ok() && *lock) {
      lock_.emplace(**std::move(lock));
    } else if (lock.ok()) {
      if (!told) LogInfo(path_ + ": waiting for another process that prepares this folder");
      told = true;
      StatusOr<FileLock> waited = FileLock::Wait(path);
      // If the other process failed and removed the folder, start again.
      if (waited.ok()) lock_.emplace(*std::move(waited));
    } else if (fs::exists(path_, error)) {
      return OkStatus();
    }
  }
  return OkStatus();
}

StatusOr<std::optional<PrepareReport>> PreparedFolder::FindEarlier(const PrepareIdentity& identity,
                                                                   bool overwrite) const {
  std::error_code error;
  const fs::path folder(path_);
  const fs::path report_path = folder / kPrepareReportFile;
  if (!fs::exists(report_path, error)) {
    DT_RETURN_IF_ERROR(CheckNames(folder));
    if (overwrite || IsFree(folder)) return std::optional<PrepareReport>();
    // The folder may be the corpus or a trained run, so do not advise to delete it.
    return UsageError(path_ +
                      ": is not empty and holds no prepared data; give `dtrain prepare` another "
                      "output folder, or --overwrite to add to the files there, and a run "
                      "another run.run_dir");
  }
  StatusOr<SavedPrepareReport> saved =
      PrepareReportFromJson(ReadText(report_path), report_path.string());
  if (saved.ok() && saved->identity == identity) {
    const Status complete = CheckFiles(folder, saved->report);
    if (complete.ok()) return std::optional(std::move(saved->report));
    if (!overwrite) return Annotate(complete, "prepared data is damaged, " + Remedy(path_));
  }
  if (overwrite) return std::optional<PrepareReport>();
  if (!saved.ok()) return Annotate(saved.status(), "prepared data is damaged, " + Remedy(path_));
  return UsageError(absl::StrFormat("%s: holds data that was prepared differently (%s); %s", path_,
                                    DescribeDifferences(saved->identity, identity), Remedy(path_)));
}

Status PreparedFolder::CheckInputs(std::span<const std::string> paths) const {
  for (const std::string& path : paths) {
    for (const std::string_view name : kPreparedFiles) {
      std::error_code error;
      if (!fs::equivalent(path, fs::path(path_) / name, error) || error) continue;
      return UsageError(path + ": is an input and would be replaced; name another output folder");
    }
  }
  return OkStatus();
}

Status PreparedFolder::Begin() {
  std::error_code error;
  const fs::path partial = fs::path(path_) / kPartial;
  begun_ = true;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) return StorageError(path_ + ": cannot be written: " + error.message());
  return OkStatus();
}

std::string PreparedFolder::Path(std::string_view name) const {
  return (fs::path(path_) / kPartial / name).string();
}

Status PreparedFolder::Publish() {
  const fs::path folder(path_);
  std::error_code error;
  // Without a report the folder does not count as prepared data while files change.
  fs::remove(folder / kPrepareReportFile, error);
  for (const std::string_view name : kPreparedFiles) {
    const fs::path file = Path(name);
    if (fs::exists(file, error)) {
      fs::rename(file, folder / name, error);
    } else {
      fs::remove(folder / name, error);
    }
    if (error) {
      begun_ = false;
      return StorageError((folder / name).string() + ": " + error.message());
    }
  }
  return OkStatus();
}

}  // namespace dtrain::internal
