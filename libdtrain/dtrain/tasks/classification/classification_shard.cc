// classification_shard.cc - writing streams ids and keeps other columns; reading maps the file.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/classification_shard.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/data/internal/shard_body.h"
#include "dtrain/data/internal/shard_file.h"

namespace dtrain {

using internal::ClassificationHeader;
using Json = nlohmann::ordered_json;

struct ClassificationShardWriter::State {
  State(AtomicFile file, const ClassificationShardInfo& i)
      : info(i), body(std::move(file), i.vocab_size) {
    header.start = internal::StartOf(internal::kClassificationShard, info.vocab_size,
                                     info.vocab_hash, info.key);
    header.labels_per_row = info.labels_per_row;
    header.label_kind = static_cast<int32_t>(info.label_kind);
  }

  ClassificationShardInfo info;
  internal::ShardBody body;
  ClassificationHeader header;
  std::vector<int32_t> lengths;
  std::vector<int32_t> first_lengths;
  std::vector<float> labels;
  std::vector<float> weights;
  std::vector<uint32_t> groups;
  std::vector<int64_t> rows;
  std::vector<uint32_t> name_lengths;
  std::string names;
};

ClassificationShardWriter::ClassificationShardWriter(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
ClassificationShardWriter::ClassificationShardWriter(ClassificationShardWriter&&) noexcept =
    default;
ClassificationShardWriter& ClassificationShardWriter::operator=(
    ClassificationShardWriter&&) noexcept = default;
ClassificationShardWriter::~ClassificationShardWriter() = default;

StatusOr<ClassificationShardWriter> ClassificationShardWriter::Create(
    const std::string& path, const ClassificationShardInfo& info) {
  DT_CHECK_GT(info.vocab_size, 0);
  DT_CHECK_GT(info.labels_per_row, 0);
  DT_CHECK_LE(info.group_names.size(), size_t{32});
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  auto state = std::make_unique<State>(std::move(file), info);
  DT_RETURN_IF_ERROR(state->body.WriteHeader(state->header));
  return ClassificationShardWriter(std::move(state));
}

int64_t ClassificationShardWriter::size() const {
  return static_cast<int64_t>(state_->lengths.size());
}

Status ClassificationShardWriter::Add(const TokenizedExample& example) {
  State& s = *state_;
  const auto length = static_cast<int32_t>(example.ids.size());
  DT_CHECK(example.first_length >= 0 && example.first_length <= length) << example.first_length;
  DT_CHECK_EQ(example.labels.size(), static_cast<size_t>(s.info.labels_per_row));
  DT_RETURN_IF_ERROR(s.body.WriteIds(example.ids));
  s.header.tokens += length;
  s.lengths.push_back(length);
  s.first_lengths.push_back(example.first_length);
  s.labels.insert(s.labels.end(), example.labels.begin(), example.labels.end());
  s.weights.push_back(example.weight);
  s.groups.push_back(example.groups);
  s.rows.push_back(example.row);
  s.name_lengths.push_back(static_cast<uint32_t>(example.name.size()));
  s.names += example.name;
  return OkStatus();
}

void ClassificationShardWriter::SetClasses(std::vector<std::string> names,
                                           std::span<const int32_t> order) {
  State& s = *state_;
  DT_CHECK(s.info.label_kind == LabelKind::kClass);
  for (float& label : s.labels) {
    if (!std::isnan(label)) label = static_cast<float>(order[static_cast<size_t>(label)]);
  }
  s.info.label_names = std::move(names);
}

void ClassificationShardWriter::NormalizeWeights() {
  double sum = 0.0;
  for (const float weight : state_->weights) sum += weight;
  if (sum <= 0.0) return;
  const double scale = static_cast<double>(size()) / sum;
  for (float& weight : state_->weights) weight = static_cast<float>(weight * scale);
}

Status ClassificationShardWriter::Finish(std::string_view report) {
  State& s = *state_;
  const Json json = {{"label_names", s.info.label_names},
                     {"group_names", s.info.group_names},
                     {"report", std::string(report)}};
  const std::string metadata = internal::JsonText(json);
  s.header.rows = size();
  s.header.name_bytes = static_cast<int64_t>(s.names.size());
  s.header.metadata_bytes = static_cast<int64_t>(metadata.size());
  DT_RETURN_IF_ERROR(s.body.EndSection());
  DT_RETURN_IF_ERROR(s.body.WriteOffsets(std::span<const int32_t>(s.lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const int32_t>(s.lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const int32_t>(s.first_lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const float>(s.labels)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const float>(s.weights)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const uint32_t>(s.groups)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const int64_t>(s.rows)));
  DT_RETURN_IF_ERROR(s.body.WriteOffsets(std::span<const uint32_t>(s.name_lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const char>(s.names)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const char>(metadata)));
  return s.body.Commit(s.header, AtomicFile::Durability::kCrashOfProcess);
}

struct ClassificationShard::Mapping {
  ClassificationHeader header;
  internal::ShardFile file;
  std::span<const char> metadata = {};
  ClassificationShardInfo info = {};
  std::string report = {};
};

ClassificationShard::ClassificationShard(std::unique_ptr<Mapping> mapping)
    : mapping_(std::move(mapping)) {
  const ClassificationHeader& h = mapping_->header;
  internal::ShardFile& file = mapping_->file;
  ids_ = file.TakeIds(h.tokens);
  offsets_ = file.TakeOffsets(h.rows);
  lengths_ = file.Take<int32_t>(h.rows);
  first_lengths_ = file.Take<int32_t>(h.rows);
  labels_ = file.Take<float>(h.rows, h.labels_per_row);
  weights_ = file.Take<float>(h.rows);
  groups_ = file.Take<uint32_t>(h.rows);
  rows_ = file.Take<int64_t>(h.rows);
  name_offsets_ = file.TakeOffsets(h.rows);
  const auto names = file.Take<char>(h.name_bytes);
  names_ = {names.data(), names.size()};
  mapping_->metadata = file.Take<char>(h.metadata_bytes);
}
ClassificationShard::ClassificationShard(ClassificationShard&&) noexcept = default;
ClassificationShard& ClassificationShard::operator=(ClassificationShard&&) noexcept = default;
ClassificationShard::~ClassificationShard() = default;

StatusOr<ClassificationShard> ClassificationShard::Open(const std::string& path,
                                                        const ShardOpenOptions& options) {
  ClassificationHeader header;
  DT_ASSIGN_OR_RETURN(internal::ShardFile file,
                      internal::ShardFile::Open(path, internal::kClassificationShard, header));
  ClassificationShard shard(std::make_unique<Mapping>(Mapping{header, std::move(file)}));
  DT_RETURN_IF_ERROR(shard.mapping_->file.Check(options, header.body_crc));
  DT_RETURN_IF_ERROR(shard.ReadInfo());
  DT_RETURN_IF_ERROR(shard.CheckContent());
  return shard;
}

Status ClassificationShard::Damaged(std::string_view why) const {
  return mapping_->file.Damaged(why);
}

Status ClassificationShard::ReadInfo() {
  const ClassificationHeader& h = mapping_->header;
  if (h.label_kind < 0 || h.label_kind > static_cast<int32_t>(LabelKind::kMultiLabel)) {
    return Damaged("kind of labels");
  }
  if (h.labels_per_row < 1 || h.labels_per_row > 4096) return Damaged("number of labels");
  ClassificationShardInfo& info = mapping_->info;
  info = {.vocab_size = h.start.vocab_size,
          .vocab_hash = h.start.vocab_hash,
          .key = h.start.key,
          .label_kind = static_cast<LabelKind>(h.label_kind),
          .labels_per_row = h.labels_per_row};
  try {
    const Json json =
        internal::ParseJsonOrThrow<Json>({mapping_->metadata.data(), mapping_->metadata.size()});
    info.label_names = json.at("label_names").get<std::vector<std::string>>();
    info.group_names = json.at("group_names").get<std::vector<std::string>>();
    mapping_->report = json.at("report").get<std::string>();
  } catch (const Json::exception& error) {
    return Damaged(std::string("metadata: ") + error.what());
  }
  return OkStatus();
}

// Checks everything that readers use as indices without further checks.
Status ClassificationShard::CheckContent() const {
  uint64_t tokens = 0;
  uint64_t name_bytes = 0;
  for (int64_t i = 0; i < size(); ++i) {
    const auto row = static_cast<size_t>(i);
    const bool lengths_fit = lengths_[row] >= 0 && first_lengths_[row] >= 0 &&
                             first_lengths_[row] <= lengths_[row] && offsets_[row] == tokens;
    if (!lengths_fit) return Damaged(absl::StrFormat("lengths of row %d", i));
    tokens += static_cast<uint64_t>(lengths_[row]);
    if (name_offsets_[row] != name_bytes || name_offsets_[row + 1] < name_bytes) {
      return Damaged(absl::StrFormat("name of row %d", i));
    }
    name_bytes = name_offsets_[row + 1];
  }
  if (offsets_.back() != tokens || tokens != static_cast<uint64_t>(ids_.size())) {
    return Damaged("number of tokens");
  }
  if (name_offsets_.back() != name_bytes || name_bytes != names_.size()) {
    return Damaged("bytes of names");
  }
  return OkStatus();
}

const std::string& ClassificationShard::path() const { return mapping_->file.path(); }
const ClassificationShardInfo& ClassificationShard::info() const { return mapping_->info; }
const std::string& ClassificationShard::report() const { return mapping_->report; }

TokenView ClassificationShard::ids(int64_t i) const {
  const auto offset = static_cast<int64_t>(offsets_[static_cast<size_t>(i)]);
  return ids_.Part(offset, lengths_[static_cast<size_t>(i)]);
}

std::span<const float> ClassificationShard::labels(int64_t i) const {
  const auto count = static_cast<size_t>(mapping_->header.labels_per_row);
  return labels_.subspan(static_cast<size_t>(i) * count, count);
}

std::string_view ClassificationShard::name(int64_t i) const {
  const uint64_t begin = name_offsets_[static_cast<size_t>(i)];
  return names_.substr(begin, name_offsets_[static_cast<size_t>(i) + 1] - begin);
}

ClassificationBatch PackExamples(const ClassificationShard& shard,
                                 std::span<const uint32_t> samples) {
  ClassificationBatch batch;
  std::vector<int32_t> offsets = {0};
  for (const uint32_t sample : samples) {
    batch.AppendTokens(shard.ids(sample), shard.first_length(sample));
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
    const std::span<const float> labels = shard.labels(sample);
    batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
    batch.weights.push_back(shard.weight(sample));
    batch.rows.push_back(sample);
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

}  // namespace dtrain
