// translate_bench.cc - sentences and target pieces per second of greedy and beam search.
// SPDX-License-Identifier: Apache-2.0
//
//   translate_bench RUN_OR_CHECKPOINT SOURCE_TEXT [fp32|bf16 = fp32] [BATCH_TOKENS = 4096]
//
// From text to text, files and model loaded before; the best of three passes. One JSON line for
// each number of threads (1 and 2) and each beam (1 and 4).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/translation/translation_model.h"
#include "dtrain/tasks/translation/translator.h"

namespace {

using namespace dtrain;

StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  DT_ASSIGN_OR_RETURN(TextReader reader, TextReader::Open(path));
  std::vector<std::string> lines;
  TextLine line;
  for (;;) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.Next(line));
    if (!more) return lines;
    lines.emplace_back(line.text);
  }
}

// Ids of the translations, ends included.
int64_t CountPieces(const TranslationModel& trained,
                    const std::vector<std::vector<Translation>>& translations) {
  std::vector<std::string> texts;
  for (const std::vector<Translation>& of_line : translations) {
    texts.push_back(of_line.front().text);
  }
  const EncodedLines lines =
      TranslationEncoder(*trained.tokenizer).Encode(texts, MarianLines::kTargets);
  return static_cast<int64_t>(lines.ids.size() + texts.size());
}

Status Run(const std::string& model_path, const std::string& text_path, DType compute_type,
           int64_t batch_tokens) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(text_path));
  DT_ASSIGN_OR_RETURN(const TranslationModel trained,
                      LoadTranslationModel(model_path, {.compute_type = compute_type}));
  Context ctx({}, {.compute_type = compute_type});
  for (const int threads : {1, 2}) {
    SetNumThreads(threads);
    for (const int beam : {1, 4}) {
      BeamSearchOptions search = *trained.search;
      search.beam_size = beam;
      search.alpha = 0.6f;
      search.batch_tokens = batch_tokens;
      double seconds = 1e30;
      int64_t pieces = 0;
      for (int pass = 0; pass < 3; ++pass) {
        const Timer timer;
        const auto translations =
            TranslateLines(*trained.model, *trained.tokenizer, lines, search, ctx);
        seconds = std::min(seconds, timer.Seconds());
        pieces = CountPieces(trained, translations);
      }
      std::printf(
          "{\"bench\":\"translate\",\"precision\":\"%s\",\"threads\":%d,\"beam\":%d,"
          "\"sentences\":%zu,\"pieces\":%lld,\"seconds\":%.4f,\"sentences_per_s\":%.1f,"
          "\"pieces_per_s\":%.0f}\n",
          std::string(Name(compute_type)).c_str(), threads, beam, lines.size(),
          static_cast<long long>(pieces), seconds, static_cast<double>(lines.size()) / seconds,
          static_cast<double>(pieces) / seconds);
      std::fflush(stdout);
    }
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: translate_bench RUN_OR_CHECKPOINT SOURCE_TEXT [fp32|bf16] "
                 "[BATCH_TOKENS = 4096]\n");
    return static_cast<int>(ExitCode::kUsage);
  }
  const bool bf16 = argc > 3 && std::string(argv[3]) == "bf16";
  const Status status = Run(argv[1], argv[2], bf16 ? DType::kBFloat16 : DType::kFloat32,
                            argc > 4 ? std::atoll(argv[4]) : 4096);
  if (!status.ok()) std::fprintf(stderr, "translate_bench: %s\n", status.message().c_str());
  return static_cast<int>(status.code());
}
