// token_shard.h - a binary file of tokenised sentence pairs, streamed out and memory-mapped in.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(TokenShard train, TokenShard::Open("run/data/train.bin",
//                                                          {.vocab_hash = model.Hash()}));
//   train.AppendTarget(i, target_ids);
//
// Layout, little-endian, sections aligned to 8 bytes: a header of 128 bytes with its own CRC32C;
// ids (source then target of each pair; uint16 while the vocabulary fits, else uint32); offsets
// (uint64[pairs + 1], in ids); source lengths and target lengths (int32[pairs] each). Ids hold the
// pieces alone: the end of sentence is added by the loader.
#ifndef DTRAIN_TASKS_TRANSLATION_TOKEN_SHARD_H_
#define DTRAIN_TASKS_TRANSLATION_TOKEN_SHARD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/shard.h"

namespace dtrain {

// What a shard says about itself.
struct TokenShardInfo {
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;    // of the tokenizer that made the ids
  uint64_t options_hash = 0;  // of inputs and options of the preparation
};

class TokenShardWriter {
 public:
  // Writes to a temporary file until Finish(). StorageError when that cannot be created.
  static StatusOr<TokenShardWriter> Create(const std::string& path, const TokenShardInfo& info);
  TokenShardWriter(TokenShardWriter&&) noexcept;
  TokenShardWriter& operator=(TokenShardWriter&&) noexcept;
  ~TokenShardWriter();  // removes what was not finished

  // Ids in [0, vocab_size). Keeps 8 bytes of memory a pair.
  Status Add(std::span<const int32_t> source, std::span<const int32_t> target);
  // Completes the file, brings it to the disk and gives it its name.
  Status Finish();

 private:
  struct State;
  explicit TokenShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class TokenShard {
 public:
  // Checks header, lengths and size of the file; its checksum unless told not to. DataError when
  // the file is missing, not a shard, of another version, damaged, or of another vocabulary.
  static StatusOr<TokenShard> Open(const std::string& path, const ShardOpenOptions& options = {});
  TokenShard(TokenShard&&) noexcept;
  TokenShard& operator=(TokenShard&&) noexcept;
  ~TokenShard();

  const std::string& path() const;
  const TokenShardInfo& info() const;
  uint32_t content_crc() const;  // CRC32C of ids and lengths, as the header has it
  int64_t size() const { return static_cast<int64_t>(source_lengths_.size()); }  // pairs
  int64_t source_tokens() const;
  int64_t target_tokens() const;

  // Of the mapped file: valid as long as the shard.
  std::span<const int32_t> source_lengths() const { return source_lengths_; }
  std::span<const int32_t> target_lengths() const { return target_lengths_; }
  int32_t source_length(int64_t i) const { return source_lengths_[static_cast<size_t>(i)]; }
  int32_t target_length(int64_t i) const { return target_lengths_[static_cast<size_t>(i)]; }
  TokenView Source(int64_t i) const;
  TokenView Target(int64_t i) const;
  void AppendSource(int64_t i, std::vector<int32_t>& out) const;
  void AppendTarget(int64_t i, std::vector<int32_t>& out) const;

 private:
  struct Mapping;
  explicit TokenShard(std::unique_ptr<Mapping> mapping);
  Status CheckContent() const;

  std::unique_ptr<Mapping> mapping_;
  TokenView ids_;
  std::span<const uint64_t> offsets_;
  std::span<const int32_t> source_lengths_;
  std::span<const int32_t> target_lengths_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_TOKEN_SHARD_H_
