// token_shard.cc - writing streams ids and keeps lengths; reading maps the file.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/token_shard.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/data/internal/shard_body.h"
#include "dtrain/data/internal/shard_header.h"
#include "dtrain/data/internal/token_shard_format.h"

namespace dtrain {
namespace {

constexpr std::string_view kKind = "token shard";

}  // namespace

using internal::TokenShardHeader;
using internal::TokenShardLayout;

struct TokenShardWriter::State {
  State(AtomicFile file, const TokenShardInfo& info) : body(std::move(file), info.vocab_size) {
    std::memcpy(header.magic, internal::kTokenShardMagic, sizeof(header.magic));
    header.version = internal::kTokenShardVersion;
    header.id_bytes = internal::IdBytes(info.vocab_size);
    header.vocab_size = info.vocab_size;
    header.vocab_hash = info.vocab_hash;
    header.options_hash = info.options_hash;
  }

  internal::ShardBody body;
  TokenShardHeader header;
  std::vector<int32_t> source_lengths;
  std::vector<int32_t> target_lengths;
};

TokenShardWriter::TokenShardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TokenShardWriter::TokenShardWriter(TokenShardWriter&&) noexcept = default;
TokenShardWriter& TokenShardWriter::operator=(TokenShardWriter&&) noexcept = default;
TokenShardWriter::~TokenShardWriter() = default;

absl::StatusOr<TokenShardWriter> TokenShardWriter::Create(const std::string& path,
                                                          const TokenShardInfo& info) {
  DT_CHECK_GT(info.vocab_size, 0);
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  auto state = std::make_unique<State>(std::move(file), info);
  DT_RETURN_IF_ERROR(state->body.WriteHeader(state->header));
  return TokenShardWriter(std::move(state));
}

absl::Status TokenShardWriter::Add(std::span<const int32_t> source,
                                   std::span<const int32_t> target) {
  State& s = *state_;
  DT_RETURN_IF_ERROR(s.body.WriteIds(source));
  DT_RETURN_IF_ERROR(s.body.WriteIds(target));
  s.source_lengths.push_back(static_cast<int32_t>(source.size()));
  s.target_lengths.push_back(static_cast<int32_t>(target.size()));
  s.header.source_tokens += static_cast<int64_t>(source.size());
  s.header.target_tokens += static_cast<int64_t>(target.size());
  return absl::OkStatus();
}

absl::Status TokenShardWriter::Finish() {
  State& s = *state_;
  const size_t pairs = s.source_lengths.size();
  s.header.pairs = static_cast<int64_t>(pairs);
  DT_RETURN_IF_ERROR(s.body.EndSection());
  std::vector<int32_t> lengths(s.source_lengths);
  for (size_t i = 0; i < pairs; ++i) lengths[i] += s.target_lengths[i];
  DT_RETURN_IF_ERROR(s.body.WriteOffsets(std::span<const int32_t>(lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const int32_t>(s.source_lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const int32_t>(s.target_lengths)));
  s.header.body_crc = s.body.crc();
  s.header.header_crc = s.header.ComputeCrc();
  return s.body.Commit(s.header, AtomicFile::Durability::kDurable);
}

struct TokenShard::Mapping {
  Mapping(std::string p, MappedFile f) : path(std::move(p)), file(std::move(f)) {}

  int64_t bytes() const { return static_cast<int64_t>(file.bytes().size()); }
  template <typename T>
  const T* At(int64_t position) const {
    return reinterpret_cast<const T*>(file.bytes().data() + position);
  }
  absl::Status Damaged(std::string_view why) const {
    return internal::DamagedShard(path, kKind, why);
  }
  absl::Status CheckHeader();

  std::string path;
  MappedFile file;
  TokenShardInfo info;
  TokenShardHeader header;
  int64_t ids_position = 0;
};

absl::Status TokenShard::Mapping::CheckHeader() {
  DT_RETURN_IF_ERROR(internal::ReadShardHeader(
      path, kKind, file.bytes(), internal::kTokenShardMagic, internal::kTokenShardVersion, header));
  const TokenShardLayout layout(header);
  if (bytes() != layout.end) {
    return Damaged(absl::StrFormat("%d bytes where the header says %d", bytes(), layout.end));
  }
  ids_position = layout.ids;
  info = {header.vocab_size, header.vocab_hash, header.options_hash};
  return absl::OkStatus();
}

TokenShard::TokenShard(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {
  const TokenShardLayout layout(mapping_->header);
  const auto pairs = static_cast<size_t>(mapping_->header.pairs);
  offsets_ = {mapping_->At<uint64_t>(layout.offsets), pairs + 1};
  source_lengths_ = {mapping_->At<int32_t>(layout.source_lengths), pairs};
  target_lengths_ = {mapping_->At<int32_t>(layout.target_lengths), pairs};
}
TokenShard::TokenShard(TokenShard&&) noexcept = default;
TokenShard& TokenShard::operator=(TokenShard&&) noexcept = default;
TokenShard::~TokenShard() = default;

absl::StatusOr<TokenShard> TokenShard::Open(const std::string& path,
                                            const TokenShardOpenOptions& options) {
  DT_ASSIGN_OR_RETURN(MappedFile file, internal::MapShard(path));
  auto mapping = std::make_unique<Mapping>(path, std::move(file));
  DT_RETURN_IF_ERROR(mapping->CheckHeader());
  const TokenShardHeader& header = mapping->header;
  DT_RETURN_IF_ERROR(internal::CheckShardVocabulary(path, header.vocab_hash, options.vocab_hash));
  if (options.verify_checksum) {
    if (Crc32c(mapping->file.bytes().subspan(sizeof(header))) != header.body_crc)
      return mapping->Damaged("checksum of the content");
  }
  TokenShard shard(std::move(mapping));
  // Readers index by these without checks.
  uint64_t expected = 0;
  for (int64_t i = 0; i <= shard.size(); ++i) {
    if (shard.offsets_[static_cast<size_t>(i)] != expected) {
      return shard.mapping_->Damaged(absl::StrFormat("lengths of pair %d", i));
    }
    if (i == shard.size()) break;
    if (shard.source_length(i) < 0 || shard.target_length(i) < 0) {
      return shard.mapping_->Damaged(absl::StrFormat("lengths of pair %d", i));
    }
    expected += static_cast<uint64_t>(shard.source_length(i)) +
                static_cast<uint64_t>(shard.target_length(i));
  }
  if (expected != static_cast<uint64_t>(shard.source_tokens() + shard.target_tokens())) {
    return shard.mapping_->Damaged("number of tokens");
  }
  return shard;
}

const std::string& TokenShard::path() const { return mapping_->path; }
const TokenShardInfo& TokenShard::info() const { return mapping_->info; }
uint32_t TokenShard::content_crc() const { return mapping_->header.body_crc; }
int64_t TokenShard::source_tokens() const { return mapping_->header.source_tokens; }
int64_t TokenShard::target_tokens() const { return mapping_->header.target_tokens; }

TokenView TokenShard::Source(int64_t i) const {
  const auto offset = static_cast<int64_t>(offsets_[static_cast<size_t>(i)]);
  const int64_t id_bytes = mapping_->header.id_bytes;
  return {mapping_->At<char>(mapping_->ids_position + offset * id_bytes), source_length(i),
          id_bytes == 4};
}

TokenView TokenShard::Target(int64_t i) const {
  const auto offset = static_cast<int64_t>(offsets_[static_cast<size_t>(i)]) + source_length(i);
  const int64_t id_bytes = mapping_->header.id_bytes;
  return {mapping_->At<char>(mapping_->ids_position + offset * id_bytes), target_length(i),
          id_bytes == 4};
}

void TokenShard::AppendSource(int64_t i, std::vector<int32_t>& out) const {
  const TokenView view = Source(i);
  for (int64_t k = 0; k < view.size(); ++k) out.push_back(view[k]);
}

void TokenShard::AppendTarget(int64_t i, std::vector<int32_t>& out) const {
  const TokenView view = Target(i);
  for (int64_t k = 0; k < view.size(); ++k) out.push_back(view[k]);
}

}  // namespace dtrain
