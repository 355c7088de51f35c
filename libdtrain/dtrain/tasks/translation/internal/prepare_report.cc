// prepare_report.cc - identities are compared as text, so that messages can name a difference.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/prepare_report.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/data/internal/file_content.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::ordered_json;

// Increase this when equal inputs and options no longer give equal files.
constexpr int kPrepareVersion = 2;

Status AddInput(const std::string& name, const ParallelInput& input, PrepareIdentity& identity,
                InputFiles& files) {
  if (input.empty()) return OkStatus();
  DT_ASSIGN_OR_RETURN(identity["content of " + name + ".source"],
                      files.DescribeContent(input.source));
  if (input.format != PairFormat::kTsv) {
    identity["languages of " + name] =
        absl::StrFormat("%s %s", input.source_language, input.target_language);
  }
  if (input.target.empty()) return OkStatus();
  DT_ASSIGN_OR_RETURN(identity["content of " + name + ".target"],
                      files.DescribeContent(input.target));
  return OkStatus();
}

void AddCleaning(const CleaningOptions& o, PrepareIdentity& identity) {
  const auto add = [&](const std::string& name, int64_t value) {
    identity["cleaning." + name] = std::to_string(value);
  };
  // The format in which floats are written in a configuration.
  const auto add_ratio = [&](const std::string& name, double value) {
    identity["cleaning." + name] = absl::StrFormat("%g", value);
  };
  add("drop_control_characters", o.drop_control_characters);
  add("max_words", o.max_words);
  add("max_bytes", o.max_bytes);
  add("max_pieces", o.max_pieces);
  add_ratio("max_length_ratio", o.max_length_ratio);
  add("length_ratio_slack", o.length_ratio_slack);
  add("max_word_bytes", o.max_word_bytes);
  add_ratio("min_letter_ratio", o.min_letter_ratio);
  add("drop_copies", o.drop_copies);
  add("drop_number_mismatch", o.drop_number_mismatch);
  add("drop_duplicates", o.drop_duplicates);
  add("drop_evaluation_overlap", o.drop_evaluation_overlap);
}

void AddBpe(const BpeTrainerOptions& o, PrepareIdentity& identity) {
  identity["bpe.vocab_size"] = std::to_string(o.vocab_size);
  identity["bpe.max_piece_length"] = std::to_string(o.max_piece_length);
  identity["bpe.character_coverage"] = absl::StrFormat("%.9g", o.character_coverage);
  identity["bpe.min_frequency"] = std::to_string(o.min_frequency);
  identity["bpe.split_by_script"] = std::to_string(o.split_by_script);
  identity["bpe.split_digits"] = std::to_string(o.split_digits);
  identity["bpe.byte_fallback"] = std::to_string(o.byte_fallback);
}

Json ToJson(const SideStats& side) {
  const auto ratio = [](int64_t a, int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  return {{"words", side.words},
          {"pieces", side.pieces},
          {"pieces_per_word", ratio(side.pieces, side.words)},
          {"unknown_pieces", side.unknown_pieces},
          {"unknown_rate", ratio(side.unknown_pieces, side.pieces)},
          {"longest", side.longest},
          {"histogram_of_pieces_in_steps_of_8", side.histogram}};
}

Json ToJson(const SetStats& set) {
  return {{"pairs", set.pairs},
          {"cut_pairs", set.cut_pairs},
          {"source", ToJson(set.source)},
          {"target", ToJson(set.target)}};
}

SideStats SideFromJson(const Json& json) {
  return {.words = json.at("words"),
          .pieces = json.at("pieces"),
          .unknown_pieces = json.at("unknown_pieces"),
          .longest = json.at("longest"),
          .histogram = json.at("histogram_of_pieces_in_steps_of_8")};
}

SetStats SetFromJson(const Json& json) {
  return {.pairs = json.at("pairs"),
          .cut_pairs = json.at("cut_pairs"),
          .source = SideFromJson(json.at("source")),
          .target = SideFromJson(json.at("target"))};
}

Json ToJson(const CleaningReport& cleaning) {
  Json dropped = Json::object();
  for (int i = 1; i < static_cast<int>(DropReason::kCount); ++i) {
    const auto reason = static_cast<DropReason>(i);
    const CleaningReport::Entry& entry = cleaning.entry(reason);
    dropped[std::string(DropReasonName(reason))] = {{"pairs", entry.pairs},
                                                    {"examples", entry.examples}};
  }
  return {{"pairs_read", cleaning.pairs_read()},
          {"pairs_kept", cleaning.pairs_kept()},
          {"dropped", dropped}};
}

Json ToJson(const SourceStats& source) {
  return {{"pairs", source.pairs},
          {"weight", source.weight},
          {"tag", source.tag},
          {"pairs_per_epoch", source.pairs_per_epoch}};
}

std::vector<SourceStats> SourcesFromJson(const Json& json) {
  std::vector<SourceStats> sources;
  for (const Json& source : json) {
    sources.push_back({.pairs = source.at("pairs"),
                       .weight = source.at("weight"),
                       .tag = source.at("tag"),
                       .pairs_per_epoch = source.at("pairs_per_epoch")});
  }
  return sources;
}

CleaningReport CleaningFromJson(const Json& json) {
  CleaningReport cleaning;
  cleaning.Set(DropReason::kKept, {.pairs = json.at("pairs_kept"), .examples = {}});
  for (int i = 1; i < static_cast<int>(DropReason::kCount); ++i) {
    const auto reason = static_cast<DropReason>(i);
    const Json& entry = json.at("dropped").at(std::string(DropReasonName(reason)));
    cleaning.Set(reason, {.pairs = entry.at("pairs"), .examples = entry.at("examples")});
  }
  return cleaning;
}

}  // namespace

PrepareIdentity DescribeOptions(const PrepareOptions& options) {
  PrepareIdentity identity;
  if (options.model_path.empty()) AddBpe(options.bpe, identity);
  AddCleaning(options.cleaning, identity);
  identity["max_line_bytes"] = std::to_string(options.max_line_bytes);
  identity["max_invalid_fraction"] = absl::StrFormat("%g", options.max_invalid_fraction);
  return identity;
}

StatusOr<PrepareIdentity> ComputePrepareIdentity(const PrepareOptions& options, InputFiles& files) {
  PrepareIdentity identity = DescribeOptions(options);
  identity["version of the preparation"] = std::to_string(kPrepareVersion);
  for (size_t i = 0; i < options.train.size(); ++i) {
    DT_RETURN_IF_ERROR(
        AddInput(absl::StrFormat("train[%d]", i), options.train[i], identity, files));
  }
  for (size_t s = 0; s < options.sources.size(); ++s) {
    const TrainSource& source = options.sources[s];
    const std::string name = absl::StrFormat("data.sources, item %d: ", s + 1);
    identity[name + "files"] = std::to_string(source.num_inputs);
    identity[name + "weight"] = absl::StrFormat("%.17g", source.weight);
    if (!source.tag.empty()) identity[name + "tag"] = source.tag;
  }
  DT_RETURN_IF_ERROR(AddInput("dev", options.dev, identity, files));
  DT_RETURN_IF_ERROR(AddInput("test", options.test, identity, files));
  if (options.dev.empty()) identity["hold_out_dev"] = std::to_string(options.hold_out_dev);
  if (options.test.empty()) identity["hold_out_test"] = std::to_string(options.hold_out_test);
  if (!options.model_path.empty()) {
    std::string& content = identity["content of the model"];
    for (const std::string& path : TranslationTokenizer::FilesOf(options.model_path)) {
      DT_ASSIGN_OR_RETURN(const std::string of_file, files.DescribeContent(path));
      content += content.empty() ? of_file : ", " + of_file;
    }
  }
  return identity;
}

uint64_t HashPrepareIdentity(const PrepareIdentity& identity) {
  uint64_t hash = 0;
  for (const auto& [name, value] : identity) {
    hash = MixHash(MixHash(hash, StableHash(name)), StableHash(value));
  }
  return hash;
}

namespace {

// An option's name as users write it, after "data." or "--". Stored names are older.
std::string FieldName(const std::string& name) {
  if (name == "cleaning.max_pieces") return "max_length";
  return name.starts_with("bpe.") ? name.substr(4) : name;
}

}  // namespace

std::string DescribeDifferences(const PrepareIdentity& there, const PrepareIdentity& now) {
  PrepareIdentity all = there;
  all.insert(now.begin(), now.end());
  const auto value_in = [](const PrepareIdentity& identity, const std::string& name) {
    const auto found = identity.find(name);
    return found == identity.end() ? std::string("absent") : found->second;
  };
  std::string text;
  for (const auto& [name, unused] : all) {
    const std::string a = value_in(there, name);
    const std::string b = value_in(now, name);
    if (a == b) continue;
    if (!text.empty()) text += "; ";
    text += absl::StrFormat("%s is %s there, %s now", FieldName(name), a, b);
  }
  return text;
}

std::string PrepareReportToJson(const PrepareReport& report, const PrepareIdentity& identity) {
  const auto pairs = static_cast<double>(report.cleaning.pairs_read());
  Json sources = Json::array();
  for (const SourceStats& source : report.sources) sources.push_back(ToJson(source));
  const Json json = {{"made_from", identity},
                     {"options_hash", absl::StrFormat("%016x", report.options_hash)},
                     {"vocabulary",
                      {{"size", report.vocab_size},
                       {"hash", absl::StrFormat("%016x", report.vocab_hash)},
                       {"learned", report.vocab_learned}}},
                     {"cleaning", ToJson(report.cleaning)},
                     {"sets",
                      {{"train", ToJson(report.train)},
                       {"dev", ToJson(report.dev)},
                       {"test", ToJson(report.test)}}},
                     {"sources", sources},
                     {"notes", report.notes},
                     {"seconds", report.seconds},
                     {"pairs_per_second", report.seconds > 0 ? pairs / report.seconds : 0.0}};
  // Paths may contain any bytes.
  return internal::JsonText(json, 2) + "\n";
}

StatusOr<SavedPrepareReport> PrepareReportFromJson(const std::string& text,
                                                   const std::string& path) {
  try {
    const Json json = internal::ParseJsonOrThrow<Json>(text);
    const Json& vocabulary = json.at("vocabulary");
    const auto hash = [](const Json& field) {
      return std::stoull(field.get<std::string>(), nullptr, 16);
    };
    SavedPrepareReport saved;
    saved.identity = json.at("made_from").get<PrepareIdentity>();
    PrepareReport& report = saved.report;
    report.options_hash = hash(json.at("options_hash"));
    report.vocab_size = vocabulary.at("size");
    report.vocab_hash = hash(vocabulary.at("hash"));
    report.vocab_learned = vocabulary.at("learned");
    report.cleaning = CleaningFromJson(json.at("cleaning"));
    report.train = SetFromJson(json.at("sets").at("train"));
    report.dev = SetFromJson(json.at("sets").at("dev"));
    report.test = SetFromJson(json.at("sets").at("test"));
    report.sources = SourcesFromJson(json.value("sources", Json::array()));
    report.notes = json.at("notes").get<std::vector<std::string>>();
    report.seconds = json.at("seconds");
    return saved;
  } catch (const std::exception& error) {
    return DataError(path + ": damaged report (" + error.what() +
                     "); delete it and prepare the data again");
  }
}

}  // namespace dtrain::internal
