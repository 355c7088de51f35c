// output_folder.h - refuses to write into the checkpoints of a run.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_FILES_OUTPUT_FOLDER_H_
#define DTRAIN_FILES_OUTPUT_FOLDER_H_

#include <string>

#include "dtrain/base/status.h"

namespace dtrain {

// UsageError where a folder to be written would damage checkpoints: `folder`, links resolved, is or
// lies in a checkpoint or a run's ckpt/, or is a run. It need not exist.
absl::Status CheckIsNoCheckpoint(const std::string& folder);

}  // namespace dtrain

#endif  // DTRAIN_FILES_OUTPUT_FOLDER_H_
