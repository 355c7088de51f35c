// checkpoint.h - one checkpoint: a folder whose files are checked before they are read.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint("runs/nmt", "bleu"));
//   DT_ASSIGN_OR_RETURN(const SafetensorsFile model, checkpoint.OpenTensors("model.safetensors"));
//
// step-00012000/ holds the files, MANIFEST (JSON: each file's size and CRC32C and that of each
// tensor) and COMPLETE (the CRC32C of MANIFEST), which is written last.
#ifndef DTRAIN_RUNS_CHECKPOINT_H_
#define DTRAIN_RUNS_CHECKPOINT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/device/tensor.h"
#include "dtrain/formats/safetensors.h"

namespace dtrain {

struct TensorGroup {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::deque<Tensor> owners;  // of host copies the tensors' data lies in
};

// What goes into one file of a checkpoint: tensors as safetensors, or bytes as they are.
struct CheckpointFile {
  std::string name;  // below the checkpoint: "model.safetensors", "tokenizer/joint.spm"
  std::variant<std::string, TensorGroup> content;
};

// Writes `files`, MANIFEST and COMPLETE into the existing, empty folder `path`, each made durable.
// Returns the bytes written.
StatusOr<int64_t> WriteCheckpointFiles(const std::string& path, int64_t step,
                                       std::span<const CheckpointFile> files);

struct OpenCheckpointOptions {
  // Off: only MANIFEST and the files' sizes are checked; for ranks whose root has read it all.
  bool verify_contents = true;
};

class Checkpoint {
 public:
  // Refuses what is incomplete, damaged or foreign with a StorageError (exit code 7) that names the
  // file, the tensor where one is damaged, and the reason.
  static StatusOr<Checkpoint> Open(const std::string& path,
                                   const OpenCheckpointOptions& options = {});

  const std::string& path() const { return path_; }
  // Optimizer steps done when it was saved.
  int64_t step() const { return step_; }
  bool Has(std::string_view name) const { return files_.find(name) != files_.end(); }
  std::vector<std::string> FileNames() const;

  StatusOr<SafetensorsFile> OpenTensors(std::string_view name) const;
  StatusOr<std::string> ReadText(std::string_view name) const;

 private:
  struct File {
    int64_t size = 0;
    uint32_t crc32c = 0;
    std::map<std::string, uint32_t> tensor_crc32c;
  };

  Status ReadManifest();
  Status VerifyFile(const std::string& name, const File& file,
                    const OpenCheckpointOptions& options) const;
  Status DescribeDamage(const std::string& name, const File& file) const;
  StatusOr<std::string> PathOf(std::string_view name) const;

  std::string path_;
  int64_t step_ = 0;
  std::map<std::string, File, std::less<>> files_;
};

}  // namespace dtrain

#endif  // DTRAIN_RUNS_CHECKPOINT_H_
