// tokenizer_bench.cc - texts per second put to ids, and the ids for a comparison.
// SPDX-License-Identifier: Apache-2.0
//
//   tokenizer_bench VOCAB TEXTS [behavior=google|hf] [cased] [targets] [threads=1] [repeat=5]
//       [ids=FILE]
//
// VOCAB is a vocab.txt (WordPiece), a tokenizer.json (byte-level BPE or Unigram, one thread), a
// .spm or .model (Unigram of SentencePiece, one thread) or the folder of a Marian model, whose
// sources or `targets` the texts are. TEXTS holds texts separated by NUL bytes,
// all in memory before the clock starts. Figures are medians of
// `repeat` runs over all of them, each with a new encoder: seconds by the clock, and processor
// seconds of all threads, which hold on a busy machine too. FILE gets, for each text, the number of
// its ids and the ids, 32 bits each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/file.h"
#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"
#include "dtrain/tokenizers/byte_bpe.h"
#include "dtrain/tokenizers/marian.h"
#include "dtrain/tokenizers/unigram.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace {

struct Arguments {
  std::string vocabulary;
  std::string texts;
  dtrain::WordPieceOptions options;
  bool targets = false;
  int threads = 1;
  int repeat = 5;
  std::string ids;
};

bool Parse(int argc, char** argv, Arguments& arguments) {
  if (argc < 3) return false;
  arguments.vocabulary = argv[1];
  arguments.texts = argv[2];
  for (int i = 3; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value(argument.substr(std::min(argument.find('=') + 1, argument.size())));
    if (argument == "cased") {
      arguments.options.lower_case = false;
    } else if (argument == "targets") {
      arguments.targets = true;
    } else if (argument == "behavior=hf") {
      arguments.options.behavior = dtrain::WordPieceBehavior::kHuggingFace;
    } else if (argument.starts_with("threads=")) {
      arguments.threads = std::atoi(value.c_str());
    } else if (argument.starts_with("repeat=")) {
      arguments.repeat = std::atoi(value.c_str());
    } else if (argument.starts_with("ids=")) {
      arguments.ids = value;
    } else if (argument != "behavior=google") {
      return false;
    }
  }
  return arguments.threads > 0 && arguments.repeat > 0;
}

std::vector<std::string_view> SplitTexts(std::string_view content) {
  std::vector<std::string_view> texts;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\0'), content.size());
    texts.push_back(content.substr(0, end));
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return texts;
}

dtrain::Status WriteIds(const std::string& path, const dtrain::EncodedTexts& encoded) {
  std::vector<int32_t> words;
  for (int64_t i = 0; i < encoded.num_rows(); ++i) {
    const std::span<const int32_t> row = encoded.row(static_cast<size_t>(i));
    words.push_back(static_cast<int32_t>(row.size()));
    words.insert(words.end(), row.begin(), row.end());
  }
  const auto* const bytes = reinterpret_cast<const char*>(words.data());
  return dtrain::WriteFileAtomically(path, {bytes, words.size() * sizeof(int32_t)});
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

using Texts = std::vector<std::string_view>;
// Makes a new encoder and puts all texts to ids.
using EncodeAll = std::function<dtrain::EncodedTexts(const Texts&)>;

dtrain::StatusOr<EncodeAll> LoadWordPiece(const Arguments& arguments) {
  DT_ASSIGN_OR_RETURN(const dtrain::WordPieceTokenizer tokenizer,
                      dtrain::WordPieceTokenizer::Load(arguments.vocabulary, arguments.options));
  return EncodeAll([tokenizer, threads = arguments.threads](const Texts& texts) {
    return dtrain::WordPieceBatchEncoder(tokenizer, threads).Encode(texts);
  });
}

template <typename Encoder, typename Tokenizer>
EncodeAll OneThread(const Tokenizer& tokenizer) {
  return [tokenizer](const Texts& texts) {
    Encoder encoder(tokenizer);
    dtrain::EncodedTexts encoded{.ids = {}, .offsets = {0}, .type0_sizes = {}};
    for (const std::string_view text : texts) {
      encoder.Encode(text, encoded.ids);
      encoded.offsets.push_back(static_cast<int64_t>(encoded.ids.size()));
    }
    encoded.type0_sizes.resize(texts.size());
    return encoded;
  };
}

dtrain::StatusOr<EncodeAll> LoadMarian(const Arguments& arguments) {
  DT_ASSIGN_OR_RETURN(const dtrain::MarianTokenizer tokenizer,
                      dtrain::MarianTokenizer::Load(arguments.vocabulary));
  const auto sides =
      arguments.targets ? dtrain::MarianLines::kTargets : dtrain::MarianLines::kSources;
  return EncodeAll([tokenizer, sides, threads = arguments.threads](const Texts& texts) {
    const std::vector<std::string> lines(texts.begin(), texts.end());
    dtrain::EncodedLines encoded =
        dtrain::MarianBatchEncoder(tokenizer, threads).Encode(lines, sides);
    return dtrain::EncodedTexts{.ids = std::move(encoded.ids),
                                .offsets = std::move(encoded.offsets),
                                .type0_sizes = std::vector<int64_t>(texts.size())};
  });
}

dtrain::StatusOr<EncodeAll> LoadEncoder(const Arguments& arguments) {
  const std::string& path = arguments.vocabulary;
  if (std::filesystem::is_directory(path)) return LoadMarian(arguments);
  const bool is_json = path.ends_with(".json");
  if (!is_json && !path.ends_with(".spm") && !path.ends_with(".model")) {
    return LoadWordPiece(arguments);
  }
  const auto unigram = dtrain::UnigramTokenizer::Load(path);
  if (unigram.ok()) return OneThread<dtrain::UnigramEncoder>(*unigram);
  if (!is_json || unigram.status().message().find("is no Unigram") == std::string::npos) {
    return unigram.status();
  }
  DT_ASSIGN_OR_RETURN(const dtrain::ByteBpeTokenizer tokenizer,
                      dtrain::ByteBpeTokenizer::Load(path));
  return OneThread<dtrain::ByteBpeEncoder>(tokenizer);
}

dtrain::Status Run(const Arguments& arguments) {
  DT_ASSIGN_OR_RETURN(const std::string content, dtrain::ReadWholeFile(arguments.texts));
  const Texts texts = SplitTexts(content);
  const dtrain::Timer load_timer;
  DT_ASSIGN_OR_RETURN(const EncodeAll encode, LoadEncoder(arguments));
  const double load_seconds = load_timer.Seconds();
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  dtrain::EncodedTexts encoded;
  for (int i = 0; i < arguments.repeat; ++i) {
    encoded = {};
    const dtrain::Timer timer;
    const std::clock_t cpu_begin = std::clock();
    encoded = encode(texts);
    cpu_seconds.push_back(static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC);
    seconds.push_back(timer.Seconds());
  }
  const double median = Median(seconds);
  const double cpu = Median(cpu_seconds);
  const auto rows = static_cast<double>(texts.size());
  const auto bytes = static_cast<double>(content.size());
  std::printf(
      "load %.4f s; %zu texts, %zu bytes, %zu ids, %d threads: %.4f s, %.0f texts/s, %.1f MB/s; "
      "%.4f CPU s, %.0f texts/s and %.1f MB/s a core\n",
      load_seconds, texts.size(), content.size(), encoded.ids.size(), arguments.threads, median,
      rows / median, bytes / median / 1e6, cpu, rows / cpu, bytes / cpu / 1e6);
  return arguments.ids.empty() ? dtrain::OkStatus() : WriteIds(arguments.ids, encoded);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: tokenizer_bench VOCAB TEXTS [behavior=google|hf] [cased] [targets] "
                 "[threads=1] [repeat=5] [ids=FILE]\n");
    return static_cast<int>(dtrain::ExitCode::kUsage);
  }
  const dtrain::Status status = Run(arguments);
  if (!status.ok()) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", std::string(status.message()).c_str());
  }
  return static_cast<int>(status.code());
}
