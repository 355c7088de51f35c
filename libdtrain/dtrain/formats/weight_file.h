// weight_file.h - reads the named tensors of a pretrained model, in any supported format.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const WeightFile file, WeightFile::Open("models/bert-base-uncased"));
//   for (const WeightTensor& tensor : file.tensors()) ...
//
// Formats: safetensors, as one file or as shards with an index (Hugging Face); TensorFlow
// checkpoints (google-research/bert); PyTorch files that contain only a state_dict.
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
  NamedTensor tensor;  // with the file's own name
  // TensorFlow's checksum of the data, which has not been checked yet.
  std::optional<uint32_t> masked_crc32c = {};
};

class WeightFile {
 public:
  // `path` is a folder or a file. In a folder the first of these is used: model.safetensors,
  // model.safetensors.index.json, pytorch_model.bin, a TensorFlow checkpoint. A file must be of one
  // of these kinds; a TensorFlow checkpoint is given by its prefix ("bert_model.ckpt") or its
  // .index. Returns StorageError (exit code 7) if nothing is found or a file is damaged; the
  // message names the file and says what to do.
  static StatusOr<WeightFile> Open(const std::string& path);
  WeightFile(WeightFile&&) noexcept;
  WeightFile& operator=(WeightFile&&) noexcept;
  ~WeightFile();

  // The tensors. Their data points into mappings that live as long as this object, and is aligned
  // to bytes only. Tensors of text and of other types that are not numbers are skipped.
  std::span<const WeightTensor> tensors() const;
  WeightFormat format() const;
  // The path of the file that was found.
  const std::string& path() const;

 private:
  struct Content;
  explicit WeightFile(std::unique_ptr<Content> content);

  std::unique_ptr<Content> content_;
};

// The file that WeightFile::Open(path) would open. Returns StorageError if there is none, or if it
// cannot be searched for lack of permission.
StatusOr<std::string> FindWeightFile(const std::string& path);

// Parses the weight_map of a model.safetensors.index.json: tensor -> file in the same folder.
// `path` is used in messages.
StatusOr<std::map<std::string, std::string>> ParseShardIndex(const std::string& path,
                                                             std::string_view json);

// An entry of a TensorFlow checkpoint's index: BundleEntryProto in tensor_bundle.proto.
struct TensorFlowEntry {
  std::string name;
  uint64_t type = 0;  // a DataType of types.proto
  std::vector<int64_t> shape = {};
  uint64_t shard = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t masked_crc32c = 0;
};
struct TensorFlowIndex {
  uint64_t shards = 1;
  std::vector<TensorFlowEntry> entries;  // sorted by name
};
// Parses a .index file: a LevelDB table (table_format.md) without compression. Every block's CRC is
// checked. `path` is used in messages.
StatusOr<TensorFlowIndex> ParseTensorFlowIndex(const std::string& path, std::string_view bytes);

// Parses the state_dict in a file that torch.save() wrote (a zip of a pickle and its storages),
// without running any code. It accepts dictionaries, numbers, texts and dense tensors, and refuses
// everything else. Tensors of types that weights do not have (int8, int16, complex) are skipped.
StatusOr<std::vector<NamedTensor>> ParseTorchFile(const std::string& path,
                                                  std::span<const std::byte> bytes);

}  // namespace dtrain

#endif  // DTRAIN_FORMATS_WEIGHT_FILE_H_
