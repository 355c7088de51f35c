// unigram.cc - loads Unigram models, and makes texts of their ids.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/unigram.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/unigram_tables.h"

namespace dtrain {
namespace internal {
namespace {

void AppendWithSpaces(std::string_view piece, std::string& text) {
  for (size_t found = piece.find(kMetaspace); found != std::string_view::npos;
       found = piece.find(kMetaspace)) {
    text.append(piece.substr(0, found)) += ' ';
    piece.remove_prefix(found + kMetaspace.size());
  }
  text.append(piece);
}

// Builds a text from pieces, one after the other.
class UnigramDecoder {
 public:
  explicit UnigramDecoder(const UnigramTables& tables) : tables_(tables) {}

  // `id` is -1 for a piece that is not in the vocabulary.
  void Add(int32_t id, std::string_view piece) {
    if (id >= 0 && KindOf(id) == UnigramPieceKind::kByte) {
      bytes_ += static_cast<char>(std::stoi(std::string(piece.substr(3, 2)), nullptr, 16));
      return;
    }
    TakeBytes();
    if (tables_.is_sentencepiece) {
      AddToSentence(id, piece);
    } else {
      AddToText(piece);
    }
    is_first_ = false;
  }

  std::string Finish() {
    TakeBytes();
    return std::move(text_);
  }

 private:
  UnigramPieceKind KindOf(int32_t id) const { return tables_.kinds[static_cast<size_t>(id)]; }

  void TakeBytes() {
    if (bytes_.empty()) return;
    size_t size = 0;
    // To `tokenizers` all bytes are invalid where one is.
    const bool may_be_valid = tables_.is_sentencepiece || IsValidUtf8(bytes_);
    for (std::string_view rest = bytes_; !rest.empty(); rest.remove_prefix(size)) {
      const bool is_valid = DecodeUtf8(rest, size) != kInvalidCodePoint && may_be_valid;
      if (!may_be_valid) size = 1;
      text_ += is_valid ? rest.substr(0, size) : kReplacement;
    }
    bytes_.clear();
    is_first_ = false;
  }

  // `tokenizers`: the first piece loses its spaces if encoding may have added one.
  void AddToText(std::string_view piece) {
    if (!is_first_ || tables_.prefix == UnigramTables::Prefix::kNever) {
      AppendWithSpaces(piece, text_);
      return;
    }
    while (!piece.empty()) {
      const size_t skipped = piece.starts_with(kMetaspace) ? kMetaspace.size() : 0;
      if (skipped == 0) text_ += piece.front();
      piece.remove_prefix(std::max<size_t>(skipped, 1));
    }
  }

  // SentencePiece: the space in front of the sentence is dropped, and all of them if encoding
  // removes what is too many.
  void AddToSentence(int32_t id, std::string_view piece) {
    if (has_dropped_space_ || !text_.empty()) is_begin_ = false;
    has_dropped_space_ = false;
    if (id < 0) {
      text_.append(piece);
      return;
    }
    if (KindOf(id) == UnigramPieceKind::kControl) return;
    if (KindOf(id) == UnigramPieceKind::kUnknown) {
      text_ += tables_.unk_surface;
      return;
    }
    const SentenceOptions& options = tables_.sentence_rules.options();
    if (is_begin_ && (options.add_dummy_prefix || options.remove_extra_whitespaces) &&
        piece.starts_with(kMetaspace)) {
      piece.remove_prefix(kMetaspace.size());
      has_dropped_space_ = !options.remove_extra_whitespaces;
    }
    AppendWithSpaces(piece, text_);
  }

  const UnigramTables& tables_;
  std::string text_;
  std::string bytes_;  // of byte pieces without another piece between them
  bool is_first_ = true;
  bool is_begin_ = true;  // a space here is the one that encoding added
  bool has_dropped_space_ = false;
};

}  // namespace
}  // namespace internal

UnigramTokenizer::UnigramTokenizer(std::shared_ptr<const internal::UnigramTables> tables)
    : tables_(std::move(tables)) {}

StatusOr<UnigramTokenizer> UnigramTokenizer::Load(const std::string& path) {
  const StatusOr<std::string> bytes = ReadWholeFile(path);
  if (!bytes.ok()) return DataError(bytes.status().message());
  const size_t first = bytes->find_first_not_of(" \t\r\n");
  // A ModelProto begins with the first piece, whose tag is a line feed.
  const bool is_json = first != std::string::npos && (*bytes)[first] == '{';
  if (path.ends_with(".json") || (is_json && !path.ends_with(".spm"))) {
    return FromJson(*bytes, path);
  }
  return FromModelProto(*bytes, path);
}

StatusOr<UnigramTokenizer> UnigramTokenizer::FromJson(std::string_view text,
                                                      const std::string& name) {
  DT_ASSIGN_OR_RETURN(internal::UnigramTables tables, internal::ReadUnigramJson(text, name));
  tables.hash = internal::StableHash(text, internal::StableHash("Unigram"));
  return UnigramTokenizer(std::make_shared<internal::UnigramTables>(std::move(tables)));
}

StatusOr<UnigramTokenizer> UnigramTokenizer::FromModelProto(std::string_view bytes,
                                                            const std::string& name) {
  DT_ASSIGN_OR_RETURN(internal::UnigramTables tables, internal::ReadUnigramModelProto(bytes, name));
  tables.hash = internal::StableHash(bytes, internal::StableHash("SentencePiece"));
  return UnigramTokenizer(std::make_shared<internal::UnigramTables>(std::move(tables)));
}

std::string UnigramTokenizer::Decode(std::span<const int32_t> ids) const {
  internal::UnigramDecoder decoder(*tables_);
  for (const int32_t id : ids) decoder.Add(id, Piece(id));
  return decoder.Finish();
}

std::string UnigramTokenizer::DecodePieces(std::span<const std::string> pieces) const {
  internal::UnigramDecoder decoder(*tables_);
  for (const std::string& piece : pieces) decoder.Add(IdOf(piece), piece);
  return decoder.Finish();
}

std::string_view UnigramTokenizer::Piece(int32_t id) const {
  DT_CHECK(id >= 0 && id < vocab_size()) << "id " << id << " of " << vocab_size();
  return tables_->pieces[static_cast<size_t>(id)];
}

int32_t UnigramTokenizer::IdOf(std::string_view piece) const {
  const auto found = tables_->id_of.find(piece);
  return found == tables_->id_of.end() ? -1 : found->second;
}

int32_t UnigramTokenizer::vocab_size() const {
  return static_cast<int32_t>(tables_->pieces.size());
}

uint64_t UnigramTokenizer::Hash() const { return tables_->hash; }
const std::vector<internal::RowPart>& UnigramTokenizer::row(bool of_pair) const {
  return of_pair ? tables_->pair : tables_->single;
}

int32_t UnigramTokenizer::unk_id() const { return tables_->model.unk_id(); }

}  // namespace dtrain
