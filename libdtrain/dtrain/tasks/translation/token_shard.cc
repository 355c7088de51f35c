// token_shard.cc - writing streams ids and keeps lengths; reading maps the file.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/token_shard.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/data/internal/shard_body.h"
#include "dtrain/data/internal/shard_file.h"

namespace dtrain {

using internal::TokenShardHeader;

static_assert(sizeof(SampleSource) == 16, "sources are mapped as they are");

// So that sums of weights are finite, whoever wrote the file.
constexpr double kLargestWeight = 1e100;

struct TokenShardWriter::State {
  State(AtomicFile file, const TokenShardInfo& info) : body(std::move(file), info.vocab_size) {
    header.start = internal::StartOf(internal::kTokenShard, info.vocab_size, info.vocab_hash,
                                     info.options_hash);
  }

  internal::ShardBody body;
  TokenShardHeader header;
  std::vector<int32_t> source_lengths;
  std::vector<int32_t> target_lengths;
  std::vector<SampleSource> sources;
};

TokenShardWriter::TokenShardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TokenShardWriter::TokenShardWriter(TokenShardWriter&&) noexcept = default;
TokenShardWriter& TokenShardWriter::operator=(TokenShardWriter&&) noexcept = default;
TokenShardWriter::~TokenShardWriter() = default;

StatusOr<TokenShardWriter> TokenShardWriter::Create(const std::string& path,
                                                    const TokenShardInfo& info) {
  DT_CHECK_GT(info.vocab_size, 0);
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  auto state = std::make_unique<State>(std::move(file), info);
  DT_RETURN_IF_ERROR(state->body.WriteHeader(state->header));
  return TokenShardWriter(std::move(state));
}

void TokenShardWriter::BeginSource(double weight) {
  DT_CHECK(!state_->sources.empty() || state_->source_lengths.empty());
  state_->sources.push_back({.samples = 0, .weight = weight});
}

Status TokenShardWriter::Add(std::span<const int32_t> source, std::span<const int32_t> target) {
  State& s = *state_;
  DT_RETURN_IF_ERROR(s.body.WriteIds(source));
  DT_RETURN_IF_ERROR(s.body.WriteIds(target));
  s.source_lengths.push_back(static_cast<int32_t>(source.size()));
  s.target_lengths.push_back(static_cast<int32_t>(target.size()));
  if (!s.sources.empty()) ++s.sources.back().samples;
  s.header.source_tokens += static_cast<int64_t>(source.size());
  s.header.target_tokens += static_cast<int64_t>(target.size());
  return OkStatus();
}

Status TokenShardWriter::Finish() {
  State& s = *state_;
  const size_t pairs = s.source_lengths.size();
  s.header.pairs = static_cast<int64_t>(pairs);
  DT_RETURN_IF_ERROR(s.body.EndSection());
  std::vector<int32_t> lengths(s.source_lengths);
  for (size_t i = 0; i < pairs; ++i) lengths[i] += s.target_lengths[i];
  DT_RETURN_IF_ERROR(s.body.WriteOffsets(std::span<const int32_t>(lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const int32_t>(s.source_lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const int32_t>(s.target_lengths)));
  if (s.sources.size() > 1) {
    for (const SampleSource& source : s.sources) DT_CHECK_GT(source.samples, 0);
    s.header.sources = static_cast<uint32_t>(s.sources.size());
    DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const SampleSource>(s.sources)));
  }
  return s.body.Commit(s.header, AtomicFile::Durability::kDurable);
}

struct TokenShard::Mapping {
  TokenShardHeader header;
  internal::ShardFile file;
  TokenShardInfo info;
};

TokenShard::TokenShard(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {
  const TokenShardHeader& h = mapping_->header;
  internal::ShardFile& file = mapping_->file;
  // Unsigned, because the sum of damaged counts may overflow.
  ids_ = file.TakeIds(static_cast<int64_t>(static_cast<uint64_t>(h.source_tokens) +
                                           static_cast<uint64_t>(h.target_tokens)));
  offsets_ = file.TakeOffsets(h.pairs);
  source_lengths_ = file.Take<int32_t>(h.pairs);
  target_lengths_ = file.Take<int32_t>(h.pairs);
  if (h.sources > 0) sources_ = file.Take<SampleSource>(h.sources);
}
TokenShard::TokenShard(TokenShard&&) noexcept = default;
TokenShard& TokenShard::operator=(TokenShard&&) noexcept = default;
TokenShard::~TokenShard() = default;

StatusOr<TokenShard> TokenShard::Open(const std::string& path, const ShardOpenOptions& options) {
  TokenShardHeader header;
  DT_ASSIGN_OR_RETURN(internal::ShardFile file,
                      internal::ShardFile::Open(path, internal::kTokenShard, header));
  const TokenShardInfo info{header.start.vocab_size, header.start.vocab_hash, header.start.key};
  TokenShard shard(std::make_unique<Mapping>(Mapping{header, std::move(file), info}));
  DT_RETURN_IF_ERROR(shard.mapping_->file.Check(options, header.body_crc));
  DT_RETURN_IF_ERROR(shard.CheckContent());
  return shard;
}

// Checks everything that readers use as indices without further checks.
Status TokenShard::CheckContent() const {
  uint64_t expected = 0;
  for (int64_t i = 0; i <= size(); ++i) {
    const bool is_pair = i < size();
    if (offsets_[static_cast<size_t>(i)] != expected ||
        (is_pair && (source_length(i) < 0 || target_length(i) < 0))) {
      return mapping_->file.Damaged(absl::StrFormat("lengths of pair %d", i));
    }
    if (!is_pair) break;
    expected += static_cast<uint64_t>(source_length(i)) + static_cast<uint64_t>(target_length(i));
  }
  if (expected != static_cast<uint64_t>(ids_.size())) {
    return mapping_->file.Damaged("number of tokens");
  }
  return CheckSources();
}

Status TokenShard::CheckSources() const {
  int64_t left = size();
  for (const SampleSource& source : sources_) {
    if (source.samples < 1 || source.samples > left || !std::isfinite(source.weight) ||
        source.weight <= 0.0 || source.weight > kLargestWeight) {
      return mapping_->file.Damaged("sources of its pairs");
    }
    left -= source.samples;
  }
  if (!sources_.empty() && left != 0) return mapping_->file.Damaged("sources of its pairs");
  return OkStatus();
}

const std::string& TokenShard::path() const { return mapping_->file.path(); }
const TokenShardInfo& TokenShard::info() const { return mapping_->info; }
uint32_t TokenShard::content_crc() const { return mapping_->header.body_crc; }
int64_t TokenShard::source_tokens() const { return mapping_->header.source_tokens; }
int64_t TokenShard::target_tokens() const { return mapping_->header.target_tokens; }

TokenView TokenShard::Source(int64_t i) const {
  const auto offset = static_cast<int64_t>(offsets_[static_cast<size_t>(i)]);
  return ids_.Part(offset, source_length(i));
}

TokenView TokenShard::Target(int64_t i) const {
  const auto offset = static_cast<int64_t>(offsets_[static_cast<size_t>(i)]);
  return ids_.Part(offset + source_length(i), target_length(i));
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
