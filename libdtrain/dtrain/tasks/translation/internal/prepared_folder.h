// prepared_folder.h - the output folder of a preparation: reused, refused, or filled all at once.
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

// Files are written to a folder inside the output folder and moved out of it when all are there. A
// lock keeps other preparations of the same folder waiting, which then find this one's result.
class PreparedFolder {
 public:
  explicit PreparedFolder(std::string path) : path_(std::move(path)) {}
  PreparedFolder(const PreparedFolder&) = delete;
  PreparedFolder& operator=(const PreparedFolder&) = delete;
  ~PreparedFolder();  // removes what was not published

  // First. Makes the folder, and waits for another process that prepares it, with a word on the
  // terminal. A folder that cannot be written is not locked: it can be found and not filled.
  // UsageError when it is a file.
  Status Lock();

  // The report of an earlier preparation of the same identity, whose files are all there.
  // UsageError when the folder holds anything else and `overwrite` is not set, or, even where it
  // is, files of the names it would write that no preparation made.
  StatusOr<std::optional<PrepareReport>> FindEarlier(const PrepareIdentity& identity,
                                                     bool overwrite) const;

  // UsageError when one of the files that are read is one that Publish() would replace.
  Status CheckInputs(std::span<const std::string> paths) const;

  // StorageError when the folder cannot be written.
  Status Begin();
  // Path of a file to write, after Begin().
  std::string Path(std::string_view name) const;
  // Moves all files out, the report last, and removes files of an earlier preparation that are not
  // among the new ones. After an error the rest stays where it is: it tells the next preparation
  // that those moved are not the user's.
  Status Publish();

 private:
  std::string path_;
  std::optional<FileLock> lock_;
  bool begun_ = false;
  bool created_ = false;  // the output folder was not there before
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_PREPARED_FOLDER_H_
