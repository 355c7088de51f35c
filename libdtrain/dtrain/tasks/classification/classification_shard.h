// classification_shard.h - a binary file of tokenised, labelled texts, streamed out and mapped in.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(ClassificationShard train, ClassificationShard::Open(path));
//   const ClassificationBatch batch = PackExamples(train, samples);
//
// Layout, little-endian, with sections aligned to 8 bytes:
// - a header of 128 bytes with its own CRC32C
// - ids including [CLS] and [SEP]: uint16 if the vocabulary is small enough, otherwise uint32
// - offsets: uint64[rows + 1], in ids
// - lengths, and lengths of the first segment: int32[rows] each
// - labels: float[rows, labels_per_row]; weights: float[rows]; groups: uint32[rows]
// - row numbers in the source file: int64[rows]
// - offsets of names: uint64[rows + 1], and the names' bytes
// - a JSON object with the names of labels and groups and the report of the preparation
#ifndef DTRAIN_TASKS_CLASSIFICATION_CLASSIFICATION_SHARD_H_
#define DTRAIN_TASKS_CLASSIFICATION_CLASSIFICATION_SHARD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/batching.h"
#include "dtrain/data/shard.h"
#include "dtrain/tasks/classification/batch.h"
#include "dtrain/tasks/classification/classification_model.h"

namespace dtrain {

struct ClassificationShardInfo {
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;  // hash of the tokenizer that made the ids
  uint64_t key = 0;         // hash of the preparation's inputs and options
  LabelKind label_kind = LabelKind::kClass;
  int32_t labels_per_row = 1;
  std::vector<std::string> label_names = {};  // kClass: the classes; kMultiLabel: the labels
  std::vector<std::string> group_names = {};  // at most 32; bit i of a row's groups means
                                              // group_names[i]
};

// One row of a shard.
struct TokenizedExample {
  std::span<const int32_t> ids;   // [CLS] a [SEP] (b [SEP]), in [0, vocab_size)
  int32_t first_length = 0;       // number of ids in [CLS] a [SEP]
  std::span<const float> labels;  // [labels_per_row]; NaN if unknown
  float weight = 1.0f;            // weight of the loss, >= 0
  uint32_t groups = 0;            // bit mask of the row's groups
  int64_t row = 0;                // row number in its file, from 1
  std::string_view name = {};     // the row's id in its file; may be empty
};

class ClassificationShardWriter {
 public:
  // Writes to a temporary file until Finish(). Returns StorageError if that cannot be created.
  static StatusOr<ClassificationShardWriter> Create(const std::string& path,
                                                    const ClassificationShardInfo& info);
  ClassificationShardWriter(ClassificationShardWriter&&) noexcept;
  ClassificationShardWriter& operator=(ClassificationShardWriter&&) noexcept;
  ~ClassificationShardWriter();  // removes an unfinished file

  // Needs about 40 bytes of memory per row, plus its name.
  Status Add(const TokenizedExample& example);
  int64_t size() const;

  // Names classes that are known only at the end: label `i` becomes order[i].
  void SetClasses(std::vector<std::string> names, std::span<const int32_t> order);
  // Scales the weights to a mean of 1. Does nothing if all are 0.
  void NormalizeWeights();
  // Completes the file and stores `report` unchanged. The file is not synced to disk, because it
  // can be made again and its checksums detect damage.
  Status Finish(std::string_view report);

 private:
  struct State;
  explicit ClassificationShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class ClassificationShard {
 public:
  // Checks header, sizes, lengths and, unless disabled, the content's checksum. Returns DataError
  // if the file is missing, damaged, not such a shard, of another version, or made with another
  // vocabulary.
  static StatusOr<ClassificationShard> Open(const std::string& path,
                                            const ShardOpenOptions& options = {});
  ClassificationShard(ClassificationShard&&) noexcept;
  ClassificationShard& operator=(ClassificationShard&&) noexcept;
  ~ClassificationShard();

  const std::string& path() const;
  const ClassificationShardInfo& info() const;
  const std::string& report() const;                                      // as passed to Finish()
  int64_t size() const { return static_cast<int64_t>(lengths_.size()); }  // number of rows
  int64_t tokens() const { return ids_.size(); }

  // Points into the mapped file: valid as long as the shard.
  std::span<const int32_t> lengths() const { return lengths_; }
  // The lengths for plans and splits of batches.
  SampleLengths sample_lengths() const { return {.source = lengths_, .added = 0}; }
  TokenView ids(int64_t i) const;
  int32_t first_length(int64_t i) const { return first_lengths_[static_cast<size_t>(i)]; }
  std::span<const float> labels(int64_t i) const;
  float weight(int64_t i) const { return weights_[static_cast<size_t>(i)]; }
  uint32_t groups(int64_t i) const { return groups_[static_cast<size_t>(i)]; }
  int64_t row(int64_t i) const { return rows_[static_cast<size_t>(i)]; }
  std::string_view name(int64_t i) const;

 private:
  struct Mapping;
  explicit ClassificationShard(std::unique_ptr<Mapping> mapping);
  Status CheckContent() const;
  Status ReadInfo();
  Status Damaged(std::string_view why) const;

  std::unique_ptr<Mapping> mapping_;
  TokenView ids_;
  std::span<const uint64_t> offsets_;
  std::span<const int32_t> lengths_;
  std::span<const int32_t> first_lengths_;
  std::span<const float> labels_;
  std::span<const float> weights_;
  std::span<const uint32_t> groups_;
  std::span<const int64_t> rows_;
  std::span<const uint64_t> name_offsets_;
  std::string_view names_;
};

// Packs rows: sequence i of the batch is row samples[i] of the shard.
ClassificationBatch PackExamples(const ClassificationShard& shard,
                                 std::span<const uint32_t> samples);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_CLASSIFICATION_SHARD_H_
