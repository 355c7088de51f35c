// checkpoint.h - one checkpoint: a folder whose files are verified before they are read.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint("runs/nmt", "bleu"));
//   DT_ASSIGN_OR_RETURN(const SafetensorsFile model, checkpoint.OpenTensors("model.safetensors"));
//
// step-00012000/ holds the files; MANIFEST (JSON: size and CRC32C of each file, and CRC32C of each
// tensor); and COMPLETE (the CRC32C of MANIFEST), which is written last.
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
  std::deque<Tensor> owners;  // own the host copies that `tensors` point to
};

// One file of a checkpoint: tensors as safetensors, or plain bytes.
struct CheckpointFile {
  std::string name;  // path within the checkpoint: "model.safetensors", "tokenizer/joint.spm"
  std::variant<std::string, TensorGroup> content;
};

// Writes `files`, MANIFEST and COMPLETE to the existing, empty folder `path` and syncs each to
// disk. Returns the number of bytes written.
StatusOr<int64_t> WriteCheckpointFiles(const std::string& path, int64_t step,
                                       std::span<const CheckpointFile> files);

struct OpenCheckpointOptions {
  // false: only MANIFEST and the files' sizes are checked. For ranks other than the root, if the
  // root verifies everything.
  bool verify_contents = true;
};

class Checkpoint {
 public:
  // Returns StorageError (exit code 7) for an incomplete, damaged or foreign checkpoint. The
  // message names the file, the damaged tensor if there is one, and the reason.
  static StatusOr<Checkpoint> Open(const std::string& path,
                                   const OpenCheckpointOptions& options = {});

  const std::string& path() const { return path_; }
  // Number of optimizer steps done when it was saved.
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
