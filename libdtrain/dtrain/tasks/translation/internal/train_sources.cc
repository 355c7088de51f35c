// train_sources.cc - checks what users say of sources, and words what becomes of it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/train_sources.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/data/source_mix.h"

namespace dtrain::internal {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";

std::string NameOf(size_t index, const ParallelInput& first) {
  return absl::StrFormat("data.sources, item %d (%s)", index + 1, first.source);
}

}  // namespace

std::vector<SourcePart> PartsOf(const PrepareOptions& options) {
  const std::span<const ParallelInput> inputs = options.train;
  if (options.sources.empty()) return {{inputs, {}, inputs.front().source}};
  std::vector<SourcePart> parts;
  size_t first = 0;
  for (const TrainSource& source : options.sources) {
    parts.push_back(
        {inputs.subspan(first, source.num_inputs), source, NameOf(parts.size(), inputs[first])});
    first += source.num_inputs;
  }
  return parts;
}

Status CheckSources(const PrepareOptions& options) {
  size_t inputs = 0;
  for (const TrainSource& source : options.sources) {
    if (source.num_inputs == 0 || source.num_inputs > options.train.size() - inputs) {
      return UsageError("a source of the training text has no input");
    }
    const std::string name = NameOf(&source - options.sources.data(), options.train[inputs]);
    if (!std::isfinite(source.weight) || source.weight <= 0.0) {
      return UsageError(
          absl::StrFormat("%s: weight is %g; it must be above 0", name, source.weight));
    }
    if (source.tag.find_first_of(" \t\n\v\f\r") != std::string::npos) {
      return UsageError(absl::StrFormat("%s: tag '%s' has white space; it must be one word", name,
                                        Printable(source.tag)));
    }
    inputs += source.num_inputs;
  }
  if (!options.sources.empty() && inputs != options.train.size()) {
    return UsageError("an input of the training text belongs to no source");
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> TagPiecesOf(const PrepareOptions& options) {
  static constexpr std::string_view kMarks[] = {"<unk>", "<s>", "</s>", "<pad>"};
  std::vector<std::string> pieces;
  for (const SourcePart& part : PartsOf(options)) {
    const std::string& tag = part.source.tag;
    if (tag.empty()) continue;
    // Otherwise every word that begins with the tag would be cut.
    const bool is_mark = std::find(std::begin(kMarks), std::end(kMarks), tag) != std::end(kMarks);
    if (is_mark || tag.size() < 2 || !std::ispunct(static_cast<unsigned char>(tag[0]))) {
      return UsageError(absl::StrFormat(
          "%s: tag '%s' %s; take one such as <medical> or __medical__", part.name, Printable(tag),
          is_mark ? "has a meaning of its own" : "could be ordinary text"));
    }
    std::string piece = std::string(kMetaspace) + tag;
    if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) {
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

std::string WithTag(std::string_view tag, std::string_view line) {
  return tag.empty() ? std::string(line) : absl::StrCat(ToAbsl(tag), " ", ToAbsl(line));
}

std::string_view WithoutTag(std::string_view line, std::span<const TrainSource> sources) {
  for (const TrainSource& source : sources) {
    const size_t size = source.tag.size();
    if (size > 0 && line.starts_with(source.tag) && line.size() > size && line[size] == ' ') {
      return line.substr(size + 1);
    }
  }
  return line;
}

Status CheckTags(std::span<const SourcePart> parts, const TranslationTokenizer& tokenizer) {
  TranslationEncoder encoder(tokenizer);
  for (const SourcePart& part : parts) {
    if (part.source.tag.empty()) continue;
    const std::vector<std::string> line = {part.source.tag};
    const EncodedLines encoded = encoder.Encode(line, MarianLines::kSources);
    // Others' vocabularies may have the tag without the beginning of a word, which is then a piece.
    int64_t pieces = 0;
    bool is_known = true;
    for (const int32_t id : encoded.line(0)) {
      if (tokenizer.Piece(id, MarianSide::kSource) == kMetaspace) continue;
      ++pieces;
      is_known = is_known && id != tokenizer.unk_id();
    }
    if (pieces == 1 && is_known) continue;
    return UsageError(absl::StrFormat(
        "%s: tag '%s' is not a piece of the vocabulary (%s); leave it out, or train from the "
        "start, without data.vocabulary and another model's weights: a vocabulary that is learned "
        "has the tag",
        part.name, Printable(part.source.tag),
        is_known ? absl::StrFormat("it makes %d of them", pieces) : std::string("it is unknown")));
  }
  return OkStatus();
}

Status CountShares(std::span<const SourcePart> parts, std::vector<SourceStats>& sources) {
  std::vector<SampleSource> samples;
  for (size_t s = 0; s < parts.size(); ++s) {
    if (sources[s].pairs == 0) {
      return DataError(absl::StrFormat(
          "%s: no pair of this source is left; its texts are empty, or cleaning dropped all of it",
          parts[s].name));
    }
    samples.push_back({.samples = sources[s].pairs, .weight = sources[s].weight});
  }
  const std::vector<int64_t> shares = SamplesPerEpoch(samples);
  const int64_t total = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (size_t s = 0; s < parts.size(); ++s) {
    sources[s].pairs_per_epoch = shares[s];
    if (shares[s] > 0) continue;
    return DataError(
        absl::StrFormat("%s: weight %g gives it none of the %d pairs of an epoch; raise it, or "
                        "leave this source out",
                        parts[s].name, sources[s].weight, total));
  }
  return OkStatus();
}

std::string DescribeSources(std::span<const SourceStats> sources) {
  if (sources.size() < 2) return {};
  int64_t total = 0;
  for (const SourceStats& source : sources) total += source.pairs;
  std::string text;
  for (size_t s = 0; s < sources.size(); ++s) {
    const SourceStats& source = sources[s];
    text += absl::StrFormat(
        "source %d: %d pairs, weight %g%s: %d of an epoch's %d pairs, each %.2f times\n", s + 1,
        source.pairs, source.weight,
        source.tag.empty() ? std::string() : ", tag " + Printable(source.tag),
        source.pairs_per_epoch, total,
        static_cast<double>(source.pairs_per_epoch) / static_cast<double>(source.pairs));
  }
  return text;
}

}  // namespace dtrain::internal
