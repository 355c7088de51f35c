// hf_tokenizer.cc - turns scored pieces into a list of merges.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/hf_tokenizer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "dtrain/base/internal/json_text.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPad[] = "<pad>";
constexpr char kWordStart[] = "\u2581";

bool IsCharacterStart(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

Json VocabularyJson(const BpeModel& tokenizer) {
  Json json = Json::object();
  for (int32_t id = 0; id < tokenizer.pad_id(); ++id) json[std::string(tokenizer.Piece(id))] = id;
  json[kPad] = tokenizer.pad_id();
  return json;
}

// SentencePiece merges any two neighbours whose union is a piece, the best score first; as a list
// that is every way to halve every piece, by falling score.
Json Merges(const BpeModel& tokenizer) {
  const std::vector<BpePiece>& pieces = tokenizer.vocabulary().pieces;
  std::map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == BpePieceType::kNormal) {
      ids.emplace(pieces[id].text, static_cast<int32_t>(id));
    }
  }
  struct Merge {
    float score;
    int32_t left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [text, id] : ids) {
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if (!IsCharacterStart(text[cut])) continue;
      const auto left = ids.find(text.substr(0, cut));
      const auto right = ids.find(text.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({pieces[static_cast<size_t>(id)].score, left->second, right->second});
    }
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
  });
  Json json = Json::array();
  for (const Merge& merge : merges) {
    json.push_back({pieces[static_cast<size_t>(merge.left)].text,
                    pieces[static_cast<size_t>(merge.right)].text});
  }
  return json;
}

Json AddedToken(int32_t id, std::string_view text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", !special},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

Json SpecialToken(int32_t id, std::string_view text) { return AddedToken(id, text, true); }

Json Replace(std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
}

// </s> behind each text of a pair.
Json EndTemplate(int32_t end_id, const std::string& end) {
  const auto sequence = [](const char* name) {
    return Json{{"Sequence", {{"id", name}, {"type_id", 0}}}};
  };
  const Json special = {{"SpecialToken", {{"id", end}, {"type_id", 0}}}};
  Json json = {{"type", "TemplateProcessing"}};
  json["single"] = Json::array({sequence("A"), special});
  json["pair"] = Json::array({sequence("A"), sequence("B"), special});
  json["special_tokens"] = {
      {end, {{"id", end}, {"ids", Json::array({end_id})}, {"tokens", Json::array({end})}}}};
  return json;
}

Json Metaspace() {
  return {{"type", "Metaspace"},
          {"replacement", kWordStart},
          {"prepend_scheme", "always"},
          {"split", true}};
}

}  // namespace

std::string HfVocabulary(const BpeModel& tokenizer) {
  return internal::JsonText(VocabularyJson(tokenizer), 0) + "\n";
}

std::string HfTokenizer(const BpeModel& tokenizer) {
  const int32_t end_id = tokenizer.eos_id();
  const std::string end(tokenizer.Piece(end_id));
  const std::string unknown(tokenizer.Piece(tokenizer.unk_id()));
  const bool byte_fallback = tokenizer.vocabulary().byte_fallback;
  Json json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] =
      Json::array({SpecialToken(tokenizer.unk_id(), unknown),
                   SpecialToken(tokenizer.bos_id(), tokenizer.Piece(tokenizer.bos_id())),
                   SpecialToken(end_id, end), SpecialToken(tokenizer.pad_id(), kPad)});
  Json vocabulary = VocabularyJson(tokenizer);
  const std::vector<BpePiece>& pieces = tokenizer.vocabulary().pieces;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type != BpePieceType::kUserDefined) continue;
    // The beginning of a word is the space before it, which the token swallows.
    std::string_view text = pieces[id].text;
    if (text.starts_with(kWordStart)) text.remove_prefix(std::string_view(kWordStart).size());
    if (!vocabulary.contains(std::string(text))) {
      vocabulary.erase(pieces[id].text);
      vocabulary[std::string(text)] = id;
    } else {
      text = pieces[id].text;
    }
    json["added_tokens"].push_back(AddedToken(static_cast<int32_t>(id), text, false));
  }
  json["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {Replace("^ +| +$", ""), Replace(" {2,}", " ")}}};
  json["pre_tokenizer"] = Metaspace();
  json["post_processor"] = EndTemplate(end_id, end);
  Json decoder = Metaspace();
  if (byte_fallback) {
    const Json bytes = {{"type", "ByteFallback"}};
    const Json fuse = {{"type", "Fuse"}};
    decoder = {{"type", "Sequence"}, {"decoders", Json::array({bytes, Metaspace(), fuse})}};
  }
  json["decoder"] = decoder;
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", unknown},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", true},
                   {"byte_fallback", byte_fallback},
                   {"ignore_merges", false}};
  json["model"]["vocab"] = std::move(vocabulary);
  json["model"]["merges"] = Merges(tokenizer);
  return internal::JsonText(json) + "\n";
}

std::vector<HfFile> HfTokenizerFiles(const TranslationTokenizer& tokenizer, std::string config) {
  std::vector<HfFile> files;
  bool has_config = false;
  if (const auto* const own = std::get_if<BpeModel>(&tokenizer.kind())) {
    const std::string& model = tokenizer.files().front().contents;
    files = {{"source.spm", model},
             {"target.spm", model},
             {"vocab.json", HfVocabulary(*own)},
             {"tokenizer.json", HfTokenizer(*own)}};
  } else {
    for (const NamedFile& file : tokenizer.files()) {
      files.emplace_back(file.name, file.contents);
      has_config = has_config || file.name == kTokenizerConfigFile;
    }
  }
  if (!has_config) files.emplace_back(kTokenizerConfigFile, std::move(config));
  return files;
}

}  // namespace dtrain::internal
