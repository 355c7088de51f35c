// token_shard.h - a binary file of tokenised sentence pairs, streamed out and mapped in.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(TokenShard train, TokenShard::Open("run/data/train.bin",
//                                                          {.vocab_hash = model.Hash()}));
//   train.AppendTarget(i, target_ids);
//
// Layout, little-endian, with sections aligned to 8 bytes:
// - a header of 128 bytes with its own CRC32C
// - ids, source then target of each pair: uint16 if the vocabulary is small enough, otherwise
//   uint32
// - offsets: uint64[pairs + 1], in ids
// - source lengths and target lengths: int32[pairs] each
// - if the pairs are of several sources, the number of pairs and the weight of each: int64 and
//   double
// Ids do not include the end of sentence, which the loader adds.
#ifndef DTRAIN_TASKS_TRANSLATION_TOKEN_SHARD_H_
#define DTRAIN_TASKS_TRANSLATION_TOKEN_SHARD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/shard.h"
#include "dtrain/data/source_mix.h"

namespace dtrain {

// The properties of a shard.
struct TokenShardInfo {
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;    // hash of the tokenizer that made the ids
  uint64_t options_hash = 0;  // hash of the preparation's inputs and options
};

class TokenShardWriter {
 public:
  // Writes to a temporary file until Finish(). Returns StorageError if that cannot be created.
  static StatusOr<TokenShardWriter> Create(const std::string& path, const TokenShardInfo& info);
  TokenShardWriter(TokenShardWriter&&) noexcept;
  TokenShardWriter& operator=(TokenShardWriter&&) noexcept;
  ~TokenShardWriter();  // removes an unfinished file

  // The next pairs are of another source. Call it before the first pair, or not at all.
  void BeginSource(double weight);
  // Adds a pair. Ids must be in [0, vocab_size). Needs 8 bytes of memory per pair.
  Status Add(std::span<const int32_t> source, std::span<const int32_t> target);
  // Completes the file, syncs it to disk and renames it. Every source must have a pair.
  Status Finish();

 private:
  struct State;
  explicit TokenShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class TokenShard {
 public:
  // Checks header, lengths, file size and, unless disabled, the checksum. Returns DataError if the
  // file is missing, damaged, not such a shard, of another version, or made with another
  // vocabulary.
  static StatusOr<TokenShard> Open(const std::string& path, const ShardOpenOptions& options = {});
  TokenShard(TokenShard&&) noexcept;
  TokenShard& operator=(TokenShard&&) noexcept;
  ~TokenShard();

  const std::string& path() const;
  const TokenShardInfo& info() const;
  uint32_t content_crc() const;  // CRC32C of ids and lengths, from the header
  int64_t size() const { return static_cast<int64_t>(source_lengths_.size()); }  // number of pairs
  int64_t source_tokens() const;
  int64_t target_tokens() const;

  // The sources that epochs mix, in the order of the pairs; empty if there is only one.
  std::span<const SampleSource> sources() const { return sources_; }

  // Point into the mapped file: valid as long as the shard.
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
  Status CheckSources() const;

  std::unique_ptr<Mapping> mapping_;
  TokenView ids_;
  std::span<const uint64_t> offsets_;
  std::span<const int32_t> source_lengths_;
  std::span<const int32_t> target_lengths_;
  std::span<const SampleSource> sources_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_TOKEN_SHARD_H_
