// weight_file.h - the named tensors of a pretrained model, in whichever format they come.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const WeightFile file, WeightFile::Open("models/bert-base-uncased"));
//   for (const WeightTensor& tensor : file.tensors()) ...
//
// Formats: safetensors, one file or shards with an index (Hugging Face); TensorFlow checkpoints
// (google-research/bert); PyTorch files that hold nothing but a state_dict.
#ifndef DTRAIN_FORMATS_WEIGHT_FILE_H_
#define DTRAIN_FORMATS_WEIGHT_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/formats/safetensors.h"

namespace dtrain {

enum class WeightFormat { kSafetensors, kTensorFlow, kTorch };

struct WeightTensor {
  NamedTensor tensor;  // under the file's own name
  // TensorFlow's checksum of the data, as yet unchecked.
  std::optional<uint32_t> masked_crc32c = {};
};

class WeightFile {
 public:
  // `path`: a folder, in which model.safetensors, model.safetensors.index.json, pytorch_model.bin
  // and a TensorFlow checkpoint are looked for in this order; or a file of one of these kinds, a
  // TensorFlow checkpoint by its prefix ("bert_model.ckpt") or its .index. StorageError (exit code
  // 7): nothing there, or damaged; the message names the file and what to do.
  static StatusOr<WeightFile> Open(const std::string& path);
  WeightFile(WeightFile&&) noexcept;
  WeightFile& operator=(WeightFile&&) noexcept;
  ~WeightFile();

  // Data points into mappings that live as long as this object; its alignment is that of bytes.
  // Tensors of text and of other types that are no numbers are left out.
  std::span<const WeightTensor> tensors() const;
  WeightFormat format() const;
  // The file that was found.
  const std::string& path() const;

 private:
  struct Content;
  explicit WeightFile(std::unique_ptr<Content> content);

  std::unique_ptr<Content> content_;
};

// The file that WeightFile::Open(path) opens. StorageError: nothing there, or no permission to
// look.
StatusOr<std::string> FindWeightFile(const std::string& path);

// The weight_map of a model.safetensors.index.json: tensor -> file beside it. `path` is for
// messages.
StatusOr<std::map<std::string, std::string>> ParseShardIndex(const std::string& path,
                                                             std::string_view json);

// An entry of a TensorFlow checkpoint's index; BundleEntryProto of tensor_bundle.proto.
struct TensorFlowEntry {
  std::string name;
  uint64_t type = 0;  // DataType of types.proto
  std::vector<int64_t> shape = {};
  uint64_t shard = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t masked_crc32c = 0;
};
struct TensorFlowIndex {
  uint64_t shards = 1;
  std::vector<TensorFlowEntry> entries;  // by name
};
// Reads a .index file: a LevelDB table (table_format.md) without compression, every block checked
// against its CRC. `path` is for messages.
StatusOr<TensorFlowIndex> ParseTensorFlowIndex(const std::string& path, std::string_view bytes);

// The state_dict in a file that torch.save() wrote (a zip of a pickle and its storages), by a
// reader that runs nothing: dictionaries, numbers, texts and dense tensors, all else is refused.
// Tensors of types that no weights have (int8, int16, complex) are left out.
StatusOr<std::vector<NamedTensor>> ParseTorchFile(const std::string& path,
                                                  std::span<const std::byte> bytes);

}  // namespace dtrain

#endif  // DTRAIN_FORMATS_WEIGHT_FILE_H_
