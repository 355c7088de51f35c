// checkpoint_files.h - names of the files in a trainer's checkpoints.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_INTERNAL_CHECKPOINT_FILES_H_
#define DTRAIN_RUNS_INTERNAL_CHECKPOINT_FILES_H_

namespace dtrain::internal {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";  // tensors "m.", "v.", "average."
                                                                   // + name
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kTrainingDataFile[] = "training_data.txt";  // identifies the data to which
                                                                  // the stored position belongs
inline constexpr char kModelTextFile[] = "model.txt";             // properties of the model that
                                                                  // tensor shapes do not show

}  // namespace dtrain::internal

#endif  // DTRAIN_RUNS_INTERNAL_CHECKPOINT_FILES_H_
