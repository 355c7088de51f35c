// checkpoint_files.h - names of the files in a trainer's checkpoints.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_INTERNAL_CHECKPOINT_FILES_H_
#define DTRAIN_RUNS_INTERNAL_CHECKPOINT_FILES_H_

namespace dtrain::internal {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";  // "m.", "v.", "average." + name
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kTrainingDataFile[] = "training_data.txt";  // what the position belongs to
inline constexpr char kModelTextFile[] = "model.txt";             // what the shapes do not tell

}  // namespace dtrain::internal

#endif  // DTRAIN_RUNS_INTERNAL_CHECKPOINT_FILES_H_
