// document_shard.cc - the writer streams ids and keeps the lengths; the reader maps the file.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/document_shard.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/data/internal/shard_body.h"
#include "dtrain/data/internal/shard_file.h"

namespace dtrain {

using internal::DocumentHeader;

struct DocumentShardWriter::State {
  State(AtomicFile file, const DocumentShardInfo& i)
      : info(i), body(std::move(file), i.vocab_size) {
    header.start =
        internal::StartOf(internal::kDocumentShard, info.vocab_size, info.vocab_hash, info.key);
    header.cls_id = info.cls_id;
    header.sep_id = info.sep_id;
    header.mask_id = info.mask_id;
  }

  DocumentShardInfo info;
  internal::ShardBody body;
  DocumentHeader header;
  std::vector<uint16_t> segment_lengths;
  // Numbers of segments and tokens of the documents that have ended.
  std::vector<int64_t> document_segments;
  std::vector<int64_t> document_tokens;
  // Numbers of segments and tokens of the current document.
  int64_t current_segments = 0;
  int64_t current_tokens = 0;
};

DocumentShardWriter::DocumentShardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DocumentShardWriter::DocumentShardWriter(DocumentShardWriter&&) noexcept = default;
DocumentShardWriter& DocumentShardWriter::operator=(DocumentShardWriter&&) noexcept = default;
DocumentShardWriter::~DocumentShardWriter() = default;

StatusOr<DocumentShardWriter> DocumentShardWriter::Create(const std::string& path,
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

Status DocumentShardWriter::AddSegment(std::span<const int32_t> ids) {
  const auto length = static_cast<int64_t>(ids.size());
  DT_CHECK(length > 0 && length <= kMaxSegmentLength) << "a segment of " << length << " ids";
  State& s = *state_;
  DT_RETURN_IF_ERROR(s.body.WriteIds(ids));
  s.segment_lengths.push_back(static_cast<uint16_t>(length));
  s.header.tokens += length;
  s.current_segments += 1;
  s.current_tokens += length;
  return OkStatus();
}

void DocumentShardWriter::EndDocument() {
  State& s = *state_;
  if (s.current_segments == 0) return;
  s.document_segments.push_back(std::exchange(s.current_segments, 0));
  s.document_tokens.push_back(std::exchange(s.current_tokens, 0));
}

Status DocumentShardWriter::Finish(std::string_view report) {
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
  return s.body.Commit(s.header, AtomicFile::Durability::kCrashOfProcess);
}

struct DocumentShard::Mapping {
  DocumentHeader header;
  internal::ShardFile file;
  DocumentShardInfo info = {};
  std::string report = {};
};

DocumentShard::DocumentShard(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {
  const DocumentHeader& h = mapping_->header;
  internal::ShardFile& file = mapping_->file;
  ids_ = file.TakeIds(h.tokens);
  segment_lengths_ = file.Take<uint16_t>(h.segments);
  segment_begins_ = file.TakeOffsets(h.documents);
  token_begins_ = file.TakeOffsets(h.documents);
  const auto continues = file.Take<uint8_t>(h.start.vocab_size);
  mapping_->info = {.vocab_size = h.start.vocab_size,
                    .vocab_hash = h.start.vocab_hash,
                    .key = h.start.key,
                    .cls_id = h.cls_id,
                    .sep_id = h.sep_id,
                    .mask_id = h.mask_id,
                    .continues_word = {continues.begin(), continues.end()}};
  const auto report = file.Take<char>(h.report_bytes);
  mapping_->report.assign(report.begin(), report.end());
}
DocumentShard::DocumentShard(DocumentShard&&) noexcept = default;
DocumentShard& DocumentShard::operator=(DocumentShard&&) noexcept = default;
DocumentShard::~DocumentShard() = default;

StatusOr<DocumentShard> DocumentShard::Open(const std::string& path,
                                            const ShardOpenOptions& options) {
  DocumentHeader header;
  DT_ASSIGN_OR_RETURN(internal::ShardFile file,
                      internal::ShardFile::Open(path, internal::kDocumentShard, header));
  DocumentShard shard(std::make_unique<Mapping>(Mapping{header, std::move(file)}));
  DT_RETURN_IF_ERROR(shard.mapping_->file.Check(options, header.body_crc));
  DT_RETURN_IF_ERROR(shard.CheckContent());
  if (options.verify_checksum && !shard.ids_.AllBelow(header.start.vocab_size)) {
    return shard.Damaged("ids outside of the vocabulary");
  }
  return shard;
}

Status DocumentShard::Damaged(std::string_view why) const { return mapping_->file.Damaged(why); }

// Checks everything that readers use as indices without further checks.
Status DocumentShard::CheckContent() const {
  for (const int32_t id : {info().cls_id, info().sep_id, info().mask_id}) {
    if (id < 0 || id >= info().vocab_size) return Damaged("special tokens");
  }
  const auto num_segments = static_cast<uint64_t>(segments());
  uint64_t segment = 0;
  uint64_t token = 0;
  for (int64_t i = 0; i < documents(); ++i) {
    const auto d = static_cast<size_t>(i);
    const uint64_t end = segment_begins_[d + 1];
    if (segment_begins_[d] != segment || token_begins_[d] != token || end <= segment ||
        end > num_segments) {
      return Damaged(absl::StrFormat("bounds of document %d", i));
    }
    for (; segment < end; ++segment) {
      const uint16_t length = segment_lengths_[segment];
      if (length == 0) return Damaged(absl::StrFormat("segment of document %d", i));
      token += length;
    }
  }
  const bool all_there = segment == num_segments && segment_begins_.back() == segment &&
                         token_begins_.back() == token && static_cast<int64_t>(token) == tokens();
  return all_there ? OkStatus() : Damaged("number of tokens");
}

const std::string& DocumentShard::path() const { return mapping_->file.path(); }
const DocumentShardInfo& DocumentShard::info() const { return mapping_->info; }
const std::string& DocumentShard::report() const { return mapping_->report; }

std::span<const uint16_t> DocumentShard::segment_lengths(int64_t i) const {
  const uint64_t begin = segment_begins_[static_cast<size_t>(i)];
  return segment_lengths_.subspan(begin, segment_begins_[static_cast<size_t>(i) + 1] - begin);
}

TokenView DocumentShard::ids(int64_t begin, int64_t count) const {
  DT_CHECK(begin >= 0 && count >= 0 && begin + count <= tokens())
      << "tokens " << begin << " to " << begin + count << " of " << tokens();
  return ids_.Part(begin, count);
}

}  // namespace dtrain
