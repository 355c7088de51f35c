// token_shard.cc - writing streams ids and keeps lengths; reading maps the file.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/token_shard.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/data/internal/token_shard_format.h"

namespace dtrain {

using internal::TokenShardHeader;
using internal::TokenShardLayout;

struct TokenShardWriter::State {
  State(AtomicFile f, const TokenShardInfo& info) : file(std::move(f)) {
    std::memcpy(header.magic, internal::kTokenShardMagic, sizeof(header.magic));
    header.version = internal::kTokenShardVersion;
    header.id_bytes = info.vocab_size <= 65536 ? 2 : 4;
    header.vocab_size = info.vocab_size;
    header.vocab_hash = info.vocab_hash;
    header.options_hash = info.options_hash;
  }

  template <typename T>
  absl::Status Write(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    crc = Crc32c(bytes, crc);
    return file.Write(bytes);
  }
  absl::Status Align(size_t bytes_of_section) {
    const char zeros[8] = {};
    return Write(std::span(zeros).first((8 - bytes_of_section % 8) % 8));
  }
  absl::Status WriteIds(std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      DT_CHECK(id >= 0 && id < header.vocab_size)
          << "id " << id << " is outside the vocabulary of " << header.vocab_size;
    }
    if (header.id_bytes == 4) return Write(ids);
    narrow.assign(ids.begin(), ids.end());
    return Write(std::span<const uint16_t>(narrow));
  }

  AtomicFile file;
  TokenShardHeader header;
  uint32_t crc = 0;  // of all but the header
  std::vector<uint16_t> narrow;
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
  DT_RETURN_IF_ERROR(state->file.Write(std::as_bytes(std::span(&state->header, 1))));
  return TokenShardWriter(std::move(state));
}

absl::Status TokenShardWriter::Add(std::span<const int32_t> source,
                                   std::span<const int32_t> target) {
  State& s = *state_;
  DT_RETURN_IF_ERROR(s.WriteIds(source));
  DT_RETURN_IF_ERROR(s.WriteIds(target));
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
  const int64_t ids = s.header.source_tokens + s.header.target_tokens;
  DT_RETURN_IF_ERROR(s.Align(static_cast<size_t>(ids) * s.header.id_bytes));
  uint64_t offset = 0;
  for (size_t i = 0; i <= pairs; ++i) {
    DT_RETURN_IF_ERROR(s.Write(std::span<const uint64_t>(&offset, 1)));
    if (i < pairs) offset += static_cast<uint64_t>(s.source_lengths[i] + s.target_lengths[i]);
  }
  for (const std::vector<int32_t>* lengths : {&s.source_lengths, &s.target_lengths}) {
    DT_RETURN_IF_ERROR(s.Write(std::span<const int32_t>(*lengths)));
    DT_RETURN_IF_ERROR(s.Align(pairs * sizeof(int32_t)));
  }
  s.header.body_crc = s.crc;
  s.header.header_crc = s.header.ComputeCrc();
  DT_RETURN_IF_ERROR(s.file.WriteAtStart(std::as_bytes(std::span(&s.header, 1))));
  return s.file.Commit();
}

struct TokenShard::Mapping {
  Mapping(std::string p, MappedFile f) : path(std::move(p)), file(std::move(f)) {}

  int64_t bytes() const { return static_cast<int64_t>(file.bytes().size()); }
  template <typename T>
  const T* At(int64_t position) const {
    return reinterpret_cast<const T*>(file.bytes().data() + position);
  }
  absl::Status Damaged(const std::string& why) const {
    return DataError(path + ": damaged token shard (" + why + "); prepare the data again");
  }
  absl::Status CheckHeader();

  std::string path;
  MappedFile file;
  TokenShardInfo info;
  TokenShardHeader header;
  int64_t ids_position = 0;
};

absl::Status TokenShard::Mapping::CheckHeader() {
  const bool is_whole = file.bytes().size() >= sizeof(header);
  if (is_whole) std::memcpy(&header, file.bytes().data(), sizeof(header));
  if (!is_whole ||
      std::memcmp(header.magic, internal::kTokenShardMagic, sizeof(header.magic)) != 0) {
    return DataError(path + ": is not a token shard; give a file that the preparation wrote");
  }
  if (header.version != internal::kTokenShardVersion) {
    return DataError(absl::StrFormat(
        "%s: token shard of version %d, this program reads version %d; prepare the data again",
        path, header.version, internal::kTokenShardVersion));
  }
  if (header.ComputeCrc() != header.header_crc) return Damaged("checksum of the header");
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
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) {
    return DataError(std::string(MessageOf(file.status())) + "; prepare the data first");
  }
  auto mapping = std::make_unique<Mapping>(path, *std::move(file));
  DT_RETURN_IF_ERROR(mapping->CheckHeader());
  const TokenShardHeader& header = mapping->header;
  if (options.vocab_hash && *options.vocab_hash != header.vocab_hash) {
    return DataError(absl::StrFormat(
        "%s: made with another vocabulary (hash %016x, this run's is %016x); prepare the data with "
        "the vocabulary of this run, or give the run the vocabulary beside the data",
        path, header.vocab_hash, *options.vocab_hash));
  }
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
