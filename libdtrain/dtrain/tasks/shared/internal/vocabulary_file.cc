// vocabulary_file.cc - one name for WordPiece, another for all other tokenizers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/vocabulary_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "dtrain/base/file.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain::internal {

bool HasCheckpointFile(const Checkpoint& checkpoint, std::string_view name) {
  return checkpoint.Has(name) || (name == kWordPieceFile && checkpoint.Has(kTokenizerFile));
}

std::string VocabularyNameIn(const Checkpoint& checkpoint) {
  return checkpoint.Has(kTokenizerFile) ? kTokenizerFile : kWordPieceFile;
}

StatusOr<NamedFile> ReadVocabularyFile(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const bool is_word_piece, HoldsWordPiece(path));
  if (!is_word_piece) {
    DT_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path));
    return NamedFile{kTokenizerFile, std::move(text)};
  }
  DT_ASSIGN_OR_RETURN(std::string pieces, ReadVocabularyText(path));
  return NamedFile{kWordPieceFile, std::move(pieces)};
}

StatusOr<std::vector<NamedFile>> ReadTokenizerFiles(const std::string& path) {
  std::vector<NamedFile> files;
  DT_ASSIGN_OR_RETURN(NamedFile vocabulary, ReadVocabularyFile(path));
  files.push_back(std::move(vocabulary));
  if (files[0].name != kTokenizerFile) return files;
  const std::filesystem::path beside =
      std::filesystem::path(path).parent_path() / kTokenizerConfigFile;
  std::error_code error;
  if (!std::filesystem::exists(beside, error)) return files;
  DT_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(beside));
  files.push_back({kTokenizerConfigFile, std::move(text)});
  return files;
}

}  // namespace dtrain::internal
