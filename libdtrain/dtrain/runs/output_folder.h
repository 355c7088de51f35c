// output_folder.h - refuses outputs that would damage a run's checkpoints or overwrite inputs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_OUTPUT_FOLDER_H_
#define DTRAIN_RUNS_OUTPUT_FOLDER_H_

#include <span>
#include <string>

#include "dtrain/base/status.h"

namespace dtrain {

// Returns UsageError if writing to `folder` would damage checkpoints: if it is a run, or is (in) a
// checkpoint or a run's ckpt/, after resolving links. The folder need not exist.
Status CheckIsNoCheckpoint(const std::string& folder);

// Returns UsageError if the file `output` is in a checkpoint or a run's ckpt/, after resolving
// links. It need not exist; "-", devices and pipes are always allowed. `name` is the option the
// user gave: "--output".
Status CheckIsInNoCheckpoint(const std::string& name, const std::string& output);

// Returns UsageError if the file `output` is one of the inputs, under this or another name. It need
// not exist. "-" among `inputs` is the standard input; devices and pipes may be both input and
// output. `name` is the option the user gave: "--output".
Status CheckIsNotRead(const std::string& name, const std::string& output,
                      std::span<const std::string> inputs);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_OUTPUT_FOLDER_H_
