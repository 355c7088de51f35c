// vocabulary_file.cc - one name for WordPiece, another for all other tokenizers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/vocabulary_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "dtrain/base/file.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain::internal {
namespace {

namespace fs = std::filesystem;

Status AddIfThere(const fs::path& path, const char* name, std::vector<NamedFile>& files) {
  std::error_code error;
  if (!fs::exists(path, error)) return OkStatus();
  DT_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path));
  files.push_back({name, std::move(text)});
  return OkStatus();
}

}  // namespace

bool HasCheckpointFile(const Checkpoint& checkpoint, std::string_view name) {
  return checkpoint.Has(name) || (name == kWordPieceFile && checkpoint.Has(kTokenizerFile)) ||
         (name == kTranslationFile && checkpoint.Has(kMarianFile));
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

StatusOr<std::vector<NamedFile>> ReadTokenizerFiles(const std::string& path,
                                                    const std::string& pretrained) {
  std::vector<NamedFile> files;
  DT_ASSIGN_OR_RETURN(NamedFile vocabulary, ReadVocabularyFile(path));
  files.push_back(std::move(vocabulary));
  const fs::path beside = fs::path(path).parent_path();
  if (files[0].name == kTokenizerFile) {
    DT_RETURN_IF_ERROR(AddIfThere(beside / kTokenizerConfigFile, kTokenizerConfigFile, files));
  }
  if (pretrained.empty()) return files;
  const size_t before = files.size();
  std::error_code error;
  const fs::path given = pretrained;
  const fs::path folder = fs::is_directory(given, error) ? given : given.parent_path();
  DT_RETURN_IF_ERROR(AddIfThere(folder / "config.json", kPretrainedConfigFile, files));
  if (files.size() > before) return files;
  DT_RETURN_IF_ERROR(AddIfThere(beside / kPretrainedConfigFile, kPretrainedConfigFile, files));
  return files;
}

}  // namespace dtrain::internal
