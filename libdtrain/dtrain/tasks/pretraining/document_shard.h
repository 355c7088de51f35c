// document_shard.h - a binary file of tokenised documents to pre-train on, written and mapped.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(DocumentShard shard, DocumentShard::Open(path));
//   int64_t begin = shard.token_begin(0);  // of the first document
//   for (const uint16_t length : shard.segment_lengths(0)) {
//     Use(shard.ids(begin, length));
//     begin += length;
//   }
//
// A document is a list of segments (sentences or paragraphs), one behind the other, so that any
// stretch of a document is one range of tokens. Layout, little-endian, sections aligned to 8 bytes:
// a header of 128 bytes with its own CRC32C; ids, without [CLS] and [SEP] (uint16 while the
// vocabulary fits, else uint32); lengths of segments (uint16[segments]); each document's first
// segment and first token (uint64[documents + 1] both); one byte for each piece of the vocabulary,
// 1 where it continues a word; what the preparation reports.
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
  uint64_t vocab_hash = 0;  // of the tokenizer that made the ids
  uint64_t key = 0;         // of inputs and options of the preparation
  // What examples are made with.
  int32_t cls_id = 0;
  int32_t sep_id = 0;
  int32_t mask_id = 0;
  std::vector<uint8_t> continues_word = {};  // [vocab_size], 1 or 0
};

class DocumentShardWriter {
 public:
  static constexpr int64_t kMaxSegmentLength = 65535;

  // Writes to a temporary file until Finish(). StorageError when that cannot be created.
  static StatusOr<DocumentShardWriter> Create(const std::string& path,
                                              const DocumentShardInfo& info);
  DocumentShardWriter(DocumentShardWriter&&) noexcept;
  DocumentShardWriter& operator=(DocumentShardWriter&&) noexcept;
  ~DocumentShardWriter();  // removes what was not finished

  // A segment of the current document: at least one id and at most kMaxSegmentLength. Keeps 2 bytes
  // of memory a segment, and 16 a document.
  Status AddSegment(std::span<const int32_t> ids);
  // Does nothing where the current document has no segment yet.
  void EndDocument();

  int64_t documents() const;  // ended ones
  int64_t segments() const;
  int64_t tokens() const;

  // Ends the last document too. `report` is kept as it is. The file can be made again, so it need
  // not survive a power cut: a damaged one is noticed by its checksums.
  Status Finish(std::string_view report);

 private:
  struct State;
  explicit DocumentShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class DocumentShard {
 public:
  // Checks header, sizes, lengths, and unless told not to ids and the checksum of the content.
  // DataError when the file is missing, not such a shard, of another version, damaged, or of
  // another vocabulary.
  static StatusOr<DocumentShard> Open(const std::string& path,
                                      const ShardOpenOptions& options = {});
  DocumentShard(DocumentShard&&) noexcept;
  DocumentShard& operator=(DocumentShard&&) noexcept;
  ~DocumentShard();

  const std::string& path() const;
  const DocumentShardInfo& info() const;
  const std::string& report() const;  // as given to Finish()
  int64_t documents() const { return static_cast<int64_t>(token_begins_.size()) - 1; }
  int64_t segments() const { return static_cast<int64_t>(segment_lengths_.size()); }
  int64_t tokens() const { return ids_.size(); }

  // Of document `i`, which has at least one segment. Valid as long as the shard.
  std::span<const uint16_t> segment_lengths(int64_t i) const;
  // Of all documents, one behind the other.
  std::span<const uint16_t> segment_lengths() const { return segment_lengths_; }
  // The first segment of document `i` among those of all.
  int64_t segment_begin(int64_t i) const {
    return static_cast<int64_t>(segment_begins_[static_cast<size_t>(i)]);
  }
  // The first token of document `i`.
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
