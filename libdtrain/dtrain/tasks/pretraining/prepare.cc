// prepare.cc - encodes and writes a block of text while the next one is read.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/prepare.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/data/internal/file_content.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/data/internal/shard_leftovers.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/pretraining/document_shard.h"
#include "dtrain/tasks/pretraining/sentences.h"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

// Increase this when equal inputs and options no longer give equal shards.
constexpr int kVersion = 2;

constexpr size_t kBlockBytes = size_t{8} << 20;
// Large, because a whole article may be one line.
constexpr int64_t kMaxLineBytes = int64_t{64} << 20;
// Number of a document's tokens that are read before it goes to one of the two shards.
constexpr size_t kDecidingTokens = size_t{1} << 16;

StatusOr<uint64_t> ComputeKey(const DocumentsInput& input, const TextTokenizer& tokenizer,
                              internal::InputFiles& files) {
  std::string identity = absl::StrFormat(
      "version %d, tokenizer %016x, max_length %d, split_sentences %d, held_out %.17g\n", kVersion,
      tokenizer.Hash(), input.max_length, input.split_sentences, input.held_out);
  for (const std::string& path : input.paths) {
    DT_ASSIGN_OR_RETURN(const std::string content, files.DescribeContent(path));
    identity += content + "\n";
  }
  return internal::StableHash(identity);
}

Json ToJson(const DocumentCounts& counts) {
  return {
      {"documents", counts.documents}, {"segments", counts.segments}, {"tokens", counts.tokens}};
}

DocumentCounts CountsFromJson(const Json& json) {
  return {.documents = json.at("documents"),
          .segments = json.at("segments"),
          .tokens = json.at("tokens")};
}

std::string ReportToJson(const DocumentsReport& report) {
  const Json json = {{"lines", report.lines},
                     {"cut", report.cut},
                     {"kept", ToJson(report.kept)},
                     {"held_out", ToJson(report.held_out)},
                     {"seconds", report.seconds}};
  return internal::JsonText(json);
}

StatusOr<DocumentsReport> ReportFromJson(const DocumentShard& shard) {
  DocumentsReport report;
  try {
    const Json json = internal::ParseJsonOrThrow<Json>(shard.report());
    report.lines = json.at("lines");
    report.cut = json.at("cut");
    report.kept = CountsFromJson(json.at("kept"));
    report.held_out = CountsFromJson(json.at("held_out"));
    report.seconds = json.at("seconds");
  } catch (const Json::exception& error) {
    return DataError(shard.path() + ": damaged report (" + error.what() + ")");
  }
  return report;
}

StatusOr<DocumentsReport> OpenEarlier(const std::string& path, uint64_t key, uint64_t vocab_hash) {
  DT_ASSIGN_OR_RETURN(const DocumentShard shard,
                      DocumentShard::Open(path, {.vocab_hash = vocab_hash}));
  if (shard.info().key != key) return DataError(path + ": its data is not that of its name");
  return ReportFromJson(shard);
}

// Some MB of text, divided into future segments.
struct TextBlock {
  std::string bytes;
  std::vector<size_t> ends;           // [texts]: end of each text, in bytes
  std::vector<size_t> document_ends;  // number of texts before each document's end
  int64_t lines = 0;                  // number of lines with text

  void Clear() {
    bytes.clear();
    ends.clear();
    document_ends.clear();
    lines = 0;
  }
  std::vector<std::string_view> Texts() const {
    std::vector<std::string_view> texts;
    texts.reserve(ends.size());
    size_t begin = 0;
    for (const size_t end : ends) {
      texts.push_back(std::string_view(bytes).substr(begin, end - begin));
      begin = end;
    }
    return texts;
  }
};

// Refills the block. Returns false at the end of the file; the block then holds the last texts.
StatusOr<bool> ReadBlock(TextReader& reader, bool split_sentences, TextBlock& block) {
  block.Clear();
  TextLine line;
  std::vector<std::string_view> texts;
  while (block.bytes.size() < kBlockBytes) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.Next(line));
    texts.clear();
    if (more && split_sentences) {
      SplitSentences(line.text, texts);
    } else if (more && !HasOnlySpaces(line.text)) {
      texts.push_back(line.text);
    }
    if (texts.empty()) block.document_ends.push_back(block.ends.size());
    if (!more) return false;
    block.lines += !texts.empty();
    for (const std::string_view text : texts) {
      block.bytes += text;
      block.ends.push_back(block.bytes.size());
    }
  }
  return true;
}

// Takes documents segment by segment and writes each document to one of two shards.
class DocumentSplit {
 public:
  DocumentSplit(DocumentShardWriter kept, std::optional<DocumentShardWriter> held_out, double share)
      : kept_(std::move(kept)), held_out_(std::move(held_out)), share_(share) {}

  Status AddSegment(std::span<const int32_t> ids) {
    if (writer_ != nullptr) return writer_->AddSegment(ids);
    pending_ids_.insert(pending_ids_.end(), ids.begin(), ids.end());
    pending_lengths_.push_back(ids.size());
    return pending_ids_.size() < kDecidingTokens ? OkStatus() : Decide();
  }
  Status EndDocument() {
    if (!pending_lengths_.empty()) DT_RETURN_IF_ERROR(Decide());
    if (writer_ != nullptr) writer_->EndDocument();
    writer_ = nullptr;
    return OkStatus();
  }
  DocumentShardWriter& kept() { return kept_; }
  std::optional<DocumentShardWriter>& held_out() { return held_out_; }

 private:
  Status Decide() {
    // The hash covers exactly kDecidingTokens. The rest of the last segment depends on max_length,
    // and a second phase with longer examples must not train on documents that the first phase held
    // out.
    const size_t deciding = std::min(pending_ids_.size(), kDecidingTokens);
    const std::string_view bytes(reinterpret_cast<const char*>(pending_ids_.data()),
                                 deciding * sizeof(int32_t));
    const double place = static_cast<double>(internal::StableHash(bytes) >> 11) * 0x1p-53;
    writer_ = held_out_ && place < share_ ? &*held_out_ : &kept_;
    std::span<const int32_t> ids = pending_ids_;
    for (const size_t length : pending_lengths_) {
      DT_RETURN_IF_ERROR(writer_->AddSegment(ids.first(length)));
      ids = ids.subspan(length);
    }
    pending_ids_.clear();
    pending_lengths_.clear();
    return OkStatus();
  }

  DocumentShardWriter kept_;
  std::optional<DocumentShardWriter> held_out_;
  double share_;
  DocumentShardWriter* writer_ = nullptr;  // the current document's shard, once decided
  std::vector<int32_t> pending_ids_;       // the start of the current document, until it is decided
  std::vector<size_t> pending_lengths_;
};

class Preparation {
 public:
  Preparation(const DocumentsInput& input, const TextTokenizer& tokenizer, DocumentSplit& documents,
              DocumentsReport& report)
      : input_(input),
        form_(tokenizer.row()),
        encoder_(tokenizer),
        documents_(documents),
        report_(report) {}

  Status AddFile(const std::string& path) {
    DT_ASSIGN_OR_RETURN(TextReader reader,
                        TextReader::Open(path, {.max_line_bytes = kMaxLineBytes}));
    TextBlock current;
    TextBlock next;
    const auto read = [&](TextBlock& block) {
      return ReadBlock(reader, input_.split_sentences, block);
    };
    DT_ASSIGN_OR_RETURN(bool more, read(current));
    while (more) {
      std::future<StatusOr<bool>> reading =
          std::async(std::launch::async, [&] { return read(next); });
      // The future's destructor waits for the reader, so returning early is safe.
      DT_RETURN_IF_ERROR(AddBlock(current));
      DT_ASSIGN_OR_RETURN(more, reading.get());
      std::swap(current, next);
    }
    return AddBlock(current);
  }

 private:
  Status AddBlock(const TextBlock& block) {
    report_.lines += block.lines;
    const EncodedTexts encoded = encoder_.Encode(block.Texts());
    auto document_end = block.document_ends.begin();
    for (size_t i = 0; i <= block.ends.size(); ++i) {
      for (; document_end != block.document_ends.end() && *document_end == i; ++document_end) {
        DT_RETURN_IF_ERROR(documents_.EndDocument());
      }
      if (i == block.ends.size()) break;
      const std::span<const int32_t> row = encoded.row(i);
      // The ids without [CLS] and [SEP].
      DT_RETURN_IF_ERROR(AddText(
          row.subspan(form_.before.size(), row.size() - static_cast<size_t>(form_.single_size()))));
    }
    return OkStatus();
  }

  Status AddText(std::span<const int32_t> ids) {
    if (ids.empty())
      return OkStatus();  // the text has only characters that the tokenizer
                          // drops
    const auto longest = static_cast<size_t>(input_.max_length);
    // An example filled by one segment has no position at which the next text could begin, so its
    // next text would always be random. A quarter of the length (without [CLS] and two [SEP])
    // leaves several positions.
    const size_t part_length = std::max<size_t>(1, (longest - std::min<size_t>(longest, 3)) / 4);
    const bool too_long = ids.size() > longest;
    const size_t parts = too_long ? (ids.size() + part_length - 1) / part_length : 1;
    report_.cut += too_long;
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = ids.size() * part / parts;
      const size_t end = ids.size() * (part + 1) / parts;
      DT_RETURN_IF_ERROR(documents_.AddSegment(ids.subspan(begin, end - begin)));
    }
    return OkStatus();
  }

  const DocumentsInput& input_;
  const RowForm& form_;
  TextBatchEncoder encoder_;
  DocumentSplit& documents_;
  DocumentsReport& report_;
};

Status CheckInput(const DocumentsInput& input, const TextTokenizer& tokenizer) {
  if (input.name.empty() || input.name.find('/') != std::string::npos) {
    return UsageError("a set of documents needs a name without a slash, not \"" + input.name +
                      "\"");
  }
  if (input.paths.empty()) return UsageError("no file of text is given for " + input.name);
  if (input.cache_dir.empty())
    return UsageError("no folder is given for the shard of " + input.name);
  if (input.max_length < 1 || input.max_length > DocumentShardWriter::kMaxSegmentLength) {
    return UsageError(absl::StrFormat("max_length=%d; a segment has 1 to %d tokens",
                                      input.max_length, DocumentShardWriter::kMaxSegmentLength));
  }
  if (!(input.held_out >= 0.0 && input.held_out < 1.0)) {
    return UsageError(
        absl::StrFormat("held_out=%g; give a share from 0 to below 1", input.held_out));
  }
  if (input.num_threads < 0) return UsageError("num_threads must be at least 0 (0: all)");
  if (tokenizer.mask_id() < 0) {
    return UsageError(
        "the vocabulary has no [MASK] or <mask>; give one that an encoder was pre-trained with");
  }
  if (tokenizer.matches_special_tokens()) {
    return UsageError("pre-training needs match_special_tokens=false");
  }
  return OkStatus();
}

DocumentShardInfo InfoOf(const TextTokenizer& tokenizer, uint64_t key) {
  DocumentShardInfo info{.vocab_size = tokenizer.vocab_size(),
                         .vocab_hash = tokenizer.Hash(),
                         .key = key,
                         .cls_id = tokenizer.cls_id(),
                         .sep_id = tokenizer.sep_id(),
                         .mask_id = tokenizer.mask_id()};
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    info.continues_word.push_back(tokenizer.ContinuesWord(id));
  }
  return info;
}

DocumentCounts CountsOf(const DocumentShardWriter& writer) {
  return {
      .documents = writer.documents(), .segments = writer.segments(), .tokens = writer.tokens()};
}

// Advice for a side that has too few documents.
std::string HoldOutAdvice(int64_t documents, int64_t needed) {
  const std::string other =
      "set data.dev to files for evaluation, or data.hold_out=0 to hold out none";
  if (documents <= needed) return "end documents by empty lines, " + other;
  // A share of about five documents tolerates a few less by chance; with few documents, half.
  const double share = std::min(0.5, 5.0 / static_cast<double>(documents));
  return absl::StrFormat("try data.hold_out=%.2g, end documents by empty lines, %s", share, other);
}

Status CheckCounts(const DocumentsInput& input, const DocumentsReport& report) {
  const int64_t documents = report.kept.documents + report.held_out.documents;
  if (documents == 0) {
    return DataError(input.paths[0] + ": has no text; give at least one line of words");
  }
  if (input.held_out == 0.0) return OkStatus();
  const std::string counted =
      absl::StrFormat("%s: of %d documents %d are held out (data.hold_out=%g)", input.paths[0],
                      documents, report.held_out.documents, input.held_out);
  const std::string advice = HoldOutAdvice(documents, input.min_held_out);
  if (report.kept.documents == 0) return DataError(counted + ", and none is left; " + advice);
  if (report.held_out.documents >= input.min_held_out) return OkStatus();
  return DataError(absl::StrFormat("%s, and %d are needed; raise data.hold_out: %s", counted,
                                   input.min_held_out, advice));
}

// Reads the report of existing shards with the same key. Returns nullopt if one is missing or
// damaged.
std::optional<DocumentsReport> FindEarlier(const std::string& path,
                                           const std::string& held_out_path, uint64_t key,
                                           uint64_t vocab_hash) {
  for (const std::string& each : {path, held_out_path}) {
    if (!each.empty() && !std::filesystem::exists(each)) return std::nullopt;
  }
  StatusOr<DocumentsReport> report = OpenEarlier(path, key, vocab_hash);
  Status status = report.status();
  if (status.ok() && !held_out_path.empty()) {
    status = OpenEarlier(held_out_path, key, vocab_hash).status();
  }
  if (status.ok()) return *std::move(report);
  LogWarning(std::string(status.message()) + "; it will be made again");
  return std::nullopt;
}

Status WriteShards(const DocumentsInput& input, const TextTokenizer& tokenizer, uint64_t key,
                   const internal::InputFiles& files, DocumentsReport& report) {
  const Timer timer;
  DT_RETURN_IF_ERROR(MakeDirectories(input.cache_dir));
  const DocumentShardInfo info = InfoOf(tokenizer, key);
  DT_ASSIGN_OR_RETURN(DocumentShardWriter kept,
                      DocumentShardWriter::Create(report.shard_path, info));
  std::optional<DocumentShardWriter> held_out;
  if (!report.held_out_path.empty()) {
    DT_ASSIGN_OR_RETURN(held_out, DocumentShardWriter::Create(report.held_out_path, info));
  }
  DocumentSplit documents(std::move(kept), std::move(held_out), input.held_out);
  Preparation preparation(input, tokenizer, documents, report);
  Status prepared;
  for (const std::string& path : input.paths) {
    if (prepared.ok()) prepared = preparation.AddFile(path);
  }
  // If an input was incomplete while it was read, report that instead of errors in its lines.
  DT_RETURN_IF_ERROR(files.CheckUnchanged());
  DT_RETURN_IF_ERROR(prepared);
  report.kept = CountsOf(documents.kept());
  if (documents.held_out()) report.held_out = CountsOf(*documents.held_out());
  DT_RETURN_IF_ERROR(CheckCounts(input, report));
  report.seconds = timer.Seconds();
  const std::string json = ReportToJson(report);
  if (documents.held_out()) DT_RETURN_IF_ERROR(documents.held_out()->Finish(json));
  return documents.kept().Finish(json);
}

std::string Line(const std::string& name, const DocumentCounts& counts) {
  const auto segments = static_cast<double>(std::max<int64_t>(counts.segments, 1));
  return absl::StrFormat("%s: %d documents, %d segments, %d tokens (%.1f a segment)", name,
                         counts.documents, counts.segments, counts.tokens,
                         static_cast<double>(counts.tokens) / segments);
}

}  // namespace

std::string DocumentsReport::Describe() const {
  const auto tokens = static_cast<double>(kept.tokens + held_out.tokens);
  std::string text =
      absl::StrFormat("%s of %d lines, %s\n", Line(name, kept), lines,
                      reused ? std::string("prepared before and reused")
                             : absl::StrFormat("%.1f s, %.0f tokens/s", seconds,
                                               seconds > 0.0 ? tokens / seconds : 0.0));
  if (!held_out_path.empty()) text += "  " + Line("held out", held_out) + "\n";
  if (cut > 0) text += absl::StrFormat("  cut for their length: %d sentences\n", cut);
  return text;
}

StatusOr<DocumentsReport> PrepareDocuments(const DocumentsInput& input,
                                           const TextTokenizer& tokenizer) {
  DT_RETURN_IF_ERROR(CheckInput(input, tokenizer));
  const internal::ScopedNumThreads threads(input.num_threads > 0 ? input.num_threads
                                                                 : NumThreads());
  internal::InputFiles files;
  DT_ASSIGN_OR_RETURN(const uint64_t key, ComputeKey(input, tokenizer, files));
  const std::string stem = absl::StrFormat("%s/%s-%016x", input.cache_dir, input.name, key);
  DocumentsReport report;
  report.shard_path = stem + ".shard";
  if (input.held_out > 0.0) report.held_out_path = stem + "-held-out.shard";
  const std::string path = report.shard_path;
  const std::string held_out_path = report.held_out_path;
  internal::RemoveShardLeftovers(path);
  if (!held_out_path.empty()) internal::RemoveShardLeftovers(held_out_path);
  std::optional<DocumentsReport> earlier = FindEarlier(path, held_out_path, key, tokenizer.Hash());
  if (earlier) {
    report = *std::move(earlier);
    report.reused = true;
    // An earlier call may have required fewer documents.
    DT_RETURN_IF_ERROR(CheckCounts(input, report));
  } else {
    DT_RETURN_IF_ERROR(WriteShards(input, tokenizer, key, files, report));
  }
  report.name = input.name;
  report.shard_path = path;
  report.held_out_path = held_out_path;
  return report;
}

}  // namespace dtrain
