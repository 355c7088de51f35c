// document_shard.h - a binary file of tokenised documents for pre-training.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(DocumentShard shard, DocumentShard::Open(path));
//   int64_t begin = shard.token_begin(0);  // of the first document
//   for (const uint16_t length : shard.segment_lengths(0)) {
//     Use(shard.ids(begin, length));
//     begin += length;
//   }
//
// A document is a list of consecutive segments (sentences or paragraphs), so any part of a document
// is a contiguous range of tokens. Layout, little-endian, with sections aligned to 8 bytes:
// - a header of 128 bytes with its own CRC32C
// - ids without [CLS] and [SEP]: uint16 if the vocabulary is small enough, otherwise uint32
// - lengths of segments: uint16[segments]
// - each document's first segment and first token: uint64[documents + 1] each
// - one byte for each piece of the vocabulary: 1 if the piece continues a word
// - the report of the preparation
#ifndef DTRAIN_TASKS_PRETRAINING_DOCUMENT_SHARD_H_
#define DTRAIN_TASKS_PRETRAINING_DOCUMENT_SHARD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/shard.h"

namespace dtrain {

struct DocumentShardInfo {
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;  // hash of the tokenizer that made the ids
  uint64_t key = 0;         // hash of the preparation's inputs and options
  // The special tokens that examples are built with.
  int32_t cls_id = 0;
  int32_t sep_id = 0;
  int32_t mask_id = 0;
  std::vector<uint8_t> continues_word = {};  // [vocab_size], 1 or 0
};

class DocumentShardWriter {
 public:
  static constexpr int64_t kMaxSegmentLength = 65535;

  // Writes to a temporary file until Finish(). Returns StorageError if that cannot be created.
  static StatusOr<DocumentShardWriter> Create(const std::string& path,
                                              const DocumentShardInfo& info);
  DocumentShardWriter(DocumentShardWriter&&) noexcept;
  DocumentShardWriter& operator=(DocumentShardWriter&&) noexcept;
  ~DocumentShardWriter();  // removes an unfinished file

  // Adds a segment of 1 to kMaxSegmentLength ids to the current document. Needs 2 bytes of memory
  // per segment and 16 per document.
  Status AddSegment(std::span<const int32_t> ids);
  // Ends the current document. Does nothing if it has no segments.
  void EndDocument();

  int64_t documents() const;  // number of ended documents
  int64_t segments() const;
  int64_t tokens() const;

  // Ends the last document, completes the file and stores `report` unchanged. The file is not
  // synced to disk, because it can be made again and its checksums detect damage.
  Status Finish(std::string_view report);

 private:
  struct State;
  explicit DocumentShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class DocumentShard {
 public:
  // Checks header, sizes, lengths and, unless disabled, ids and the content's checksum. Returns
  // DataError if the file is missing, damaged, not such a shard, of another version, or made with
  // another vocabulary.
  static StatusOr<DocumentShard> Open(const std::string& path,
                                      const ShardOpenOptions& options = {});
  DocumentShard(DocumentShard&&) noexcept;
  DocumentShard& operator=(DocumentShard&&) noexcept;
  ~DocumentShard();

  const std::string& path() const;
  const DocumentShardInfo& info() const;
  const std::string& report() const;  // as passed to Finish()
  int64_t documents() const { return static_cast<int64_t>(token_begins_.size()) - 1; }
  int64_t segments() const { return static_cast<int64_t>(segment_lengths_.size()); }
  int64_t tokens() const { return ids_.size(); }

  // Segment lengths of document `i`, at least one. Valid as long as the shard.
  std::span<const uint16_t> segment_lengths(int64_t i) const;
  // Segment lengths of all documents, one after the other.
  std::span<const uint16_t> segment_lengths() const { return segment_lengths_; }
  // Index of the first segment of document `i` among all segments.
  int64_t segment_begin(int64_t i) const {
    return static_cast<int64_t>(segment_begins_[static_cast<size_t>(i)]);
  }
  // Index of the first token of document `i`.
  int64_t token_begin(int64_t i) const {
    return static_cast<int64_t>(token_begins_[static_cast<size_t>(i)]);
  }
  // Tokens [begin, begin + count) of the shard.
  TokenView ids(int64_t begin, int64_t count) const;

 private:
  struct Mapping;
  explicit DocumentShard(std::unique_ptr<Mapping> mapping);
  Status CheckContent() const;
  Status Damaged(std::string_view why) const;

  std::unique_ptr<Mapping> mapping_;
  TokenView ids_;
  std::span<const uint16_t> segment_lengths_;
  std::span<const uint64_t> segment_begins_;  // [documents + 1]
  std::span<const uint64_t> token_begins_;    // [documents + 1]
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_DOCUMENT_SHARD_H_
