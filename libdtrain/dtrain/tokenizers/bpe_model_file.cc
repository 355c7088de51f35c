// bpe_model_file.cc - reads and writes SentencePiece model files.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/status.h"
#include "dtrain/sentencepiece.pb.h"
#include "dtrain/tokenizers/bpe.h"

namespace dtrain {
namespace {

constexpr int kBpe = 2;  // TrainerSpec.model_type

// Describes the first feature of the file that dtrain does not support; empty if there is none.
std::string UnsupportedFeature(const spm::Model& model) {
  const spm::NormalizerSpec& normalizer = model.normalizer_spec();
  static constexpr const char* kKinds[] = {"unknown", "unigram", "BPE", "word", "character"};
  const int kind = model.trainer_spec().model_type();
  if (kind != kBpe) {
    return absl::StrFormat("is a %s model; dtrain reads BPE models",
                           kKinds[kind >= 0 && kind <= 4 ? kind : 0]);
  }
  if (!normalizer.precompiled_charsmap().empty()) {
    return absl::StrFormat(
        "normalises text by '%s'; dtrain reads models trained with "
        "--normalization_rule_name=identity",
        normalizer.name());
  }
  if (!normalizer.add_dummy_prefix() || !normalizer.remove_extra_whitespaces() ||
      !normalizer.escape_whitespaces() || model.trainer_spec().treat_whitespace_as_suffix()) {
    return "treats spaces differently from SentencePiece's default; train it without those "
           "options";
  }
  for (const spm::Model::Piece& piece : model.pieces()) {
    if (piece.type() < 1 || piece.type() > 6 || piece.type() == 5) {
      return absl::StrFormat("has the piece '%s' of type %d; unused pieces are not supported",
                             piece.piece(), piece.type());
    }
  }
  return {};
}

StatusOr<std::string> ReadModelFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return DataError(absl::StrFormat("%s: is a folder, not a tokenizer model (.spm)", path));
  }
  StatusOr<std::string> bytes = ReadWholeFile(path);
  if (!bytes.ok()) return DataError(bytes.status().message());
  return bytes;
}

}  // namespace

StatusOr<BpeModel> BpeModel::Load(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const std::string bytes, ReadModelFile(path));
  const auto damaged = [&](const std::string& reason) {
    return DataError(absl::StrFormat(
        "%s: not a whole SentencePiece model (%s); copy it again or learn a new one", path,
        reason));
  };
  if (bytes.empty()) return damaged("the file is empty");
  spm::Model file;
  if (!file.ParseFromString(bytes)) return damaged("its records do not parse");
  if (file.pieces_size() == 0) return damaged("it has no pieces");
  if (!file.has_trainer_spec() || !file.has_normalizer_spec()) {
    return damaged("the specification at its end is missing");
  }
  if (const std::string feature = UnsupportedFeature(file); !feature.empty()) {
    return DataError(absl::StrFormat("%s: %s", path, feature));
  }
  BpeVocabulary vocabulary;
  vocabulary.unk_id = file.trainer_spec().unk_id();
  vocabulary.bos_id = file.trainer_spec().bos_id();
  vocabulary.eos_id = file.trainer_spec().eos_id();
  vocabulary.byte_fallback = file.trainer_spec().byte_fallback();
  for (const spm::Model::Piece& piece : file.pieces()) {
    const auto type = static_cast<BpePieceType>(piece.type());
    if (!(piece.score() <= 0.0f) && !(piece.score() > 0.0f)) {
      return damaged(absl::StrFormat("the score of '%s' is not a number", piece.piece()));
    }
    vocabulary.pieces.push_back({piece.piece(), type, piece.score()});
  }
  StatusOr<BpeModel> model = FromVocabulary(std::move(vocabulary));
  if (!model.ok()) return damaged(std::string(model.status().message()));
  if (file.has_content_hash() && file.content_hash() != model->Hash()) {
    return damaged("its content does not match its hash");
  }
  return model;
}

Status BpeModel::Save(const std::string& path) const {
  const BpeVocabulary& source = vocabulary();
  spm::Model file;
  for (const BpePiece& piece : source.pieces) {
    spm::Model::Piece* out = file.add_pieces();
    out->set_piece(piece.text);
    out->set_score(piece.score);
    out->set_type(static_cast<int>(piece.type));
  }
  spm::TrainerSpec* trainer = file.mutable_trainer_spec();
  trainer->set_model_type(kBpe);
  trainer->set_vocab_size(file.pieces_size());
  trainer->set_byte_fallback(source.byte_fallback);
  trainer->set_unk_id(source.unk_id);
  trainer->set_bos_id(source.bos_id);
  trainer->set_eos_id(source.eos_id);
  trainer->set_pad_id(-1);
  spm::NormalizerSpec* normalizer = file.mutable_normalizer_spec();
  normalizer->set_name("identity");
  normalizer->set_add_dummy_prefix(true);
  normalizer->set_remove_extra_whitespaces(true);
  normalizer->set_escape_whitespaces(true);
  file.set_content_hash(Hash());

  return WriteFileAtomically(path, file.SerializeAsString());
}

}  // namespace dtrain
