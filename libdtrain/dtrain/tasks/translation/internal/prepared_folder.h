// prepared_folder.h - the output folder of a preparation: reused, refused, or filled at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_PREPARED_FOLDER_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_PREPARED_FOLDER_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dtrain/base/file_lock.h"
#include "dtrain/base/status.h"
#include "dtrain/tasks/translation/internal/prepare_report.h"

namespace dtrain::internal {

// Files are written to a folder inside the output folder, and moved out of it when all are
// complete. A lock makes other preparations of the same folder wait; they then find this one's
// result.
class PreparedFolder {
 public:
  explicit PreparedFolder(std::string path) : path_(std::move(path)) {}
  PreparedFolder(const PreparedFolder&) = delete;
  PreparedFolder& operator=(const PreparedFolder&) = delete;
  ~PreparedFolder();  // removes files that were not published

  // Call this first. Creates the folder, and waits for another process that prepares it, after
  // logging that it waits. A folder that cannot be written is not locked: it can be reused but not
  // filled. Returns UsageError if the path is a file.
  Status Lock();

  // Returns the report of an earlier preparation with the same identity, if all its files exist.
  // Returns UsageError if the folder holds anything else and `overwrite` is false. Even with
  // `overwrite`, it is an error if a file that would be replaced was not made by a preparation.
  StatusOr<std::optional<PrepareReport>> FindEarlier(const PrepareIdentity& identity,
                                                     bool overwrite) const;

  // Returns UsageError if Publish() would replace one of the input files.
  Status CheckInputs(std::span<const std::string> paths) const;

  // Prepares for writing. Returns StorageError if the folder cannot be written.
  Status Begin();
  // Path of a file to write, after Begin().
  std::string Path(std::string_view name) const;
  // Moves all files out, the report last, and removes files of an earlier preparation that the new
  // one lacks. After an error the other files stay in the inner folder. They tell the next
  // preparation that the moved files are not the user's.
  Status Publish();

 private:
  std::string path_;
  std::optional<FileLock> lock_;
  bool begun_ = false;
  bool created_ = false;  // the output folder did not exist before
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_PREPARED_FOLDER_H_
