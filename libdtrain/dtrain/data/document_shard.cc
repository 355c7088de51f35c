// document_shard.cc - writing streams ids and keeps the lengths; reading maps the file.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/document_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/data/internal/document_shard_format.h"
#include "dtrain/data/internal/shard_header.h"

namespace dtrain {
namespace {

constexpr std::string_view kKind = "document shard";

template <typename Id>
bool AllBelow(std::span<const Id> ids, uint32_t bound) {
  uint32_t largest = 0;
  for (const Id id : ids) largest = std::max(largest, uint32_t{id});
  return ids.empty() || largest < bound;
}

}  // namespace

using internal::DocumentHeader;
using internal::DocumentLayout;

struct DocumentShardWriter::State {
  State(AtomicFile file, const DocumentShardInfo& i)
      : info(i), body(std::move(file), i.vocab_size) {
    std::memcpy(header.magic, internal::kDocumentMagic, sizeof(header.magic));
    header.version = internal::kDocumentVersion;
    header.id_bytes = internal::IdBytes(info.vocab_size);
    header.vocab_size = info.vocab_size;
    header.vocab_hash = info.vocab_hash;
    header.key = info.key;
    header.cls_id = info.cls_id;
    header.sep_id = info.sep_id;
    header.mask_id = info.mask_id;
  }

  DocumentShardInfo info;
  internal::ShardBody body;
  DocumentHeader header;
  std::vector<uint16_t> segment_lengths;
  // Of the documents that have ended.
  std::vector<int64_t> document_segments;
  std::vector<int64_t> document_tokens;
  // Of the current one.
  int64_t current_segments = 0;
  int64_t current_tokens = 0;
};

DocumentShardWriter::DocumentShardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DocumentShardWriter::DocumentShardWriter(DocumentShardWriter&&) noexcept = default;
DocumentShardWriter& DocumentShardWriter::operator=(DocumentShardWriter&&) noexcept = default;
DocumentShardWriter::~DocumentShardWriter() = default;

absl::StatusOr<DocumentShardWriter> DocumentShardWriter::Create(const std::string& path,
                                                                const DocumentShardInfo& info) {
  DT_CHECK_GT(info.vocab_size, 0);
  DT_CHECK_EQ(static_cast<int64_t>(info.continues_word.size()), info.vocab_size);
  for (const int32_t id : {info.cls_id, info.sep_id, info.mask_id}) {
    DT_CHECK(id >= 0 && id < info.vocab_size) << "special token " << id;
  }
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  auto state = std::make_unique<State>(std::move(file), info);
  DT_RETURN_IF_ERROR(state->body.WriteHeader(state->header));
  return DocumentShardWriter(std::move(state));
}

int64_t DocumentShardWriter::documents() const {
  return static_cast<int64_t>(state_->document_segments.size());
}
int64_t DocumentShardWriter::segments() const {
  return static_cast<int64_t>(state_->segment_lengths.size());
}
int64_t DocumentShardWriter::tokens() const { return state_->header.tokens; }

absl::Status DocumentShardWriter::AddSegment(std::span<const int32_t> ids) {
  const auto length = static_cast<int64_t>(ids.size());
  DT_CHECK(length > 0 && length <= kMaxSegmentLength) << "a segment of " << length << " ids";
  State& s = *state_;
  DT_RETURN_IF_ERROR(s.body.WriteIds(ids));
  s.segment_lengths.push_back(static_cast<uint16_t>(length));
  s.header.tokens += length;
  s.current_segments += 1;
  s.current_tokens += length;
  return absl::OkStatus();
}

void DocumentShardWriter::EndDocument() {
  State& s = *state_;
  if (s.current_segments == 0) return;
  s.document_segments.push_back(std::exchange(s.current_segments, 0));
  s.document_tokens.push_back(std::exchange(s.current_tokens, 0));
}

absl::Status DocumentShardWriter::Finish(std::string_view report) {
  EndDocument();
  State& s = *state_;
  s.header.documents = documents();
  s.header.segments = segments();
  s.header.report_bytes = static_cast<int64_t>(report.size());
  DT_RETURN_IF_ERROR(s.body.EndSection());
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const uint16_t>(s.segment_lengths)));
  DT_RETURN_IF_ERROR(s.body.WriteOffsets(std::span<const int64_t>(s.document_segments)));
  DT_RETURN_IF_ERROR(s.body.WriteOffsets(std::span<const int64_t>(s.document_tokens)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const uint8_t>(s.info.continues_word)));
  DT_RETURN_IF_ERROR(s.body.WriteSection(std::span<const char>(report)));
  s.header.body_crc = s.body.crc();
  s.header.header_crc = s.header.ComputeCrc();
  return s.body.Commit(s.header, AtomicFile::Durability::kCrashOfProcess);
}

struct DocumentShard::Mapping {
  Mapping(std::string p, MappedFile f) : path(std::move(p)), file(std::move(f)) {}

  template <typename T>
  std::span<const T> At(int64_t position, int64_t count) const {
    return {reinterpret_cast<const T*>(file.bytes().data() + position), static_cast<size_t>(count)};
  }
  absl::Status Damaged(std::string_view why) const {
    return internal::DamagedShard(path, kKind, why);
  }
  absl::Status CheckHeader();

  std::string path;
  MappedFile file;
  DocumentHeader header;
  DocumentShardInfo info;
  std::string report;
};

absl::Status DocumentShard::Mapping::CheckHeader() {
  const auto bytes = static_cast<int64_t>(file.bytes().size());
  DT_RETURN_IF_ERROR(internal::ReadShardHeader(path, kKind, file.bytes(), internal::kDocumentMagic,
                                               internal::kDocumentVersion, header));
  if (!header.IsPlausible(bytes)) return Damaged("counts of the header");
  const DocumentLayout layout(header);
  if (bytes != layout.end) {
    return Damaged(absl::StrFormat("%d bytes where the header says %d", bytes, layout.end));
  }
  const auto continues = At<uint8_t>(layout.continues_word, header.vocab_size);
  info = {.vocab_size = header.vocab_size,
          .vocab_hash = header.vocab_hash,
          .key = header.key,
          .cls_id = header.cls_id,
          .sep_id = header.sep_id,
          .mask_id = header.mask_id,
          .continues_word = {continues.begin(), continues.end()}};
  const auto text = At<char>(layout.report, header.report_bytes);
  report.assign(text.begin(), text.end());
  return absl::OkStatus();
}

DocumentShard::DocumentShard(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {
  const DocumentHeader& h = mapping_->header;
  const DocumentLayout at(h);
  segment_lengths_ = mapping_->At<uint16_t>(at.segment_lengths, h.segments);
  segment_begins_ = mapping_->At<uint64_t>(at.segment_begins, h.documents + 1);
  token_begins_ = mapping_->At<uint64_t>(at.token_begins, h.documents + 1);
}
DocumentShard::DocumentShard(DocumentShard&&) noexcept = default;
DocumentShard& DocumentShard::operator=(DocumentShard&&) noexcept = default;
DocumentShard::~DocumentShard() = default;

absl::StatusOr<DocumentShard> DocumentShard::Open(const std::string& path,
                                                  const DocumentShardOpenOptions& options) {
  DT_ASSIGN_OR_RETURN(MappedFile file, internal::MapShard(path));
  auto mapping = std::make_unique<Mapping>(path, std::move(file));
  DT_RETURN_IF_ERROR(mapping->CheckHeader());
  const DocumentHeader& header = mapping->header;
  DT_RETURN_IF_ERROR(internal::CheckShardVocabulary(path, header.vocab_hash, options.vocab_hash));
  if (options.verify_checksum &&
      Crc32c(mapping->file.bytes().subspan(sizeof(header))) != header.body_crc) {
    return mapping->Damaged("checksum of the content");
  }
  DocumentShard shard(std::move(mapping));
  DT_RETURN_IF_ERROR(shard.CheckContent());
  if (options.verify_checksum && !shard.IdsAreInVocabulary()) {
    return shard.mapping_->Damaged("ids beyond the vocabulary");
  }
  return shard;
}

// Readers index by these without checks.
absl::Status DocumentShard::CheckContent() const {
  const auto num_segments = static_cast<uint64_t>(segments());
  uint64_t segment = 0;
  uint64_t token = 0;
  for (int64_t i = 0; i < documents(); ++i) {
    const auto d = static_cast<size_t>(i);
    const uint64_t end = segment_begins_[d + 1];
    if (segment_begins_[d] != segment || token_begins_[d] != token || end <= segment ||
        end > num_segments) {
      return mapping_->Damaged(absl::StrFormat("bounds of document %d", i));
    }
    for (; segment < end; ++segment) {
      const uint16_t length = segment_lengths_[segment];
      if (length == 0) return mapping_->Damaged(absl::StrFormat("segment of document %d", i));
      token += length;
    }
  }
  const bool all_there = segment == num_segments && segment_begins_.back() == segment &&
                         token_begins_.back() == token && static_cast<int64_t>(token) == tokens();
  return all_there ? absl::OkStatus() : mapping_->Damaged("number of tokens");
}

bool DocumentShard::IdsAreInVocabulary() const {
  const DocumentHeader& h = mapping_->header;
  const auto bound = static_cast<uint32_t>(std::min<int64_t>(h.vocab_size, UINT32_MAX));
  const int64_t at = DocumentLayout(h).ids;
  return h.id_bytes == 4 ? AllBelow(mapping_->At<uint32_t>(at, h.tokens), bound)
                         : AllBelow(mapping_->At<uint16_t>(at, h.tokens), bound);
}

const std::string& DocumentShard::path() const { return mapping_->path; }
const DocumentShardInfo& DocumentShard::info() const { return mapping_->info; }
const std::string& DocumentShard::report() const { return mapping_->report; }
int64_t DocumentShard::tokens() const { return mapping_->header.tokens; }

std::span<const uint16_t> DocumentShard::segment_lengths(int64_t i) const {
  const uint64_t begin = segment_begins_[static_cast<size_t>(i)];
  return segment_lengths_.subspan(begin, segment_begins_[static_cast<size_t>(i) + 1] - begin);
}

TokenView DocumentShard::ids(int64_t begin, int64_t count) const {
  DT_CHECK(begin >= 0 && count >= 0 && begin + count <= tokens())
      << "tokens " << begin << " to " << begin + count << " of " << tokens();
  const int64_t id_bytes = mapping_->header.id_bytes;
  const int64_t position = static_cast<int64_t>(sizeof(DocumentHeader)) + begin * id_bytes;
  return {mapping_->file.bytes().data() + position, count, id_bytes == 4};
}

}  // namespace dtrain
