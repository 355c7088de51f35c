// output_folder.h - refuses to write into the checkpoints of a run, or over what is read.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_OUTPUT_FOLDER_H_
#define DTRAIN_RUNS_OUTPUT_FOLDER_H_

#include <span>
#include <string>

#include "dtrain/base/status.h"

namespace dtrain {

// UsageError where a folder to be written would damage checkpoints: `folder`, links resolved, is or
// lies in a checkpoint or a run's ckpt/, or is a run. It need not exist.
Status CheckIsNoCheckpoint(const std::string& folder);

// UsageError where a file to be written lies in a checkpoint or a run's ckpt/, links resolved. It
// need not exist; "-", devices and pipes lie nowhere. `name` is how the user named it: "--output".
Status CheckIsInNoCheckpoint(const std::string& name, const std::string& output);

// UsageError where a file to be written is one of those that are read, by this name or another. It
// need not exist. "-" among `inputs` is the standard input; devices and pipes can be both. `name`
// is how the user named the output: "--output".
Status CheckIsNotRead(const std::string& name, const std::string& output,
                      std::span<const std::string> inputs);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_OUTPUT_FOLDER_H_
