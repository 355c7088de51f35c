// bpe_bench.cc - seconds to learn a BPE vocabulary and sentences per second encoded with it.
// SPDX-License-Identifier: Apache-2.0
//
//   bpe_bench TEXT [VOCAB_SIZE = 8000] [MODEL.spm]
//
// Every figure includes reading the file and is the median of three runs, on 1 and 2 threads. With
// MODEL.spm the learned model is written there, for spm_encode.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"
#include "dtrain/tokenizers/bpe.h"
#include "dtrain/tokenizers/bpe_trainer.h"

namespace {

constexpr size_t kBatchLines = 16384;

// The next lines of the file; none at its end.
void ReadBatch(std::ifstream& file, std::vector<std::string>& lines) {
  lines.clear();
  std::string line;
  while (lines.size() < kBatchLines && std::getline(file, line)) lines.push_back(line);
}

double MedianSeconds(const std::function<void()>& body) {
  std::array<double, 3> seconds{};
  for (double& s : seconds) {
    const dtrain::Timer timer;
    body();
    s = timer.Seconds();
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[1];
}

dtrain::StatusOr<dtrain::BpeModel> Learn(const std::string& path, int vocab_size, int num_threads) {
  std::ifstream file(path);
  if (!file) return dtrain::DataError(path + ": cannot be read");
  const auto source = [&](std::vector<std::string>& lines) {
    ReadBatch(file, lines);
    return dtrain::OkStatus();
  };
  return dtrain::LearnBpe(source, {.vocab_size = vocab_size, .num_threads = num_threads});
}

dtrain::Status Run(const std::string& path, int vocab_size, const std::string& model_path) {
  for (const int num_threads : {1, 2}) {
    DT_ASSIGN_OR_RETURN(const dtrain::BpeModel model, Learn(path, vocab_size, num_threads));
    const double learn =
        MedianSeconds([&] { (void)Learn(path, vocab_size, num_threads).status(); });
    size_t num_lines = 0;
    size_t num_ids = 0;
    const double encode = MedianSeconds([&] {
      std::ifstream file(path);
      std::vector<std::string> lines;
      dtrain::BpeBatchEncoder encoder(model, num_threads);
      num_lines = num_ids = 0;
      for (ReadBatch(file, lines); !lines.empty(); ReadBatch(file, lines)) {
        num_ids += encoder.Encode(lines).ids.size();
        num_lines += lines.size();
      }
    });
    std::printf(
        "%d thread%s: learned %d pieces in %.3f s; encoded %zu lines to %zu ids in %.3f s, "
        "%.0f lines/s\n",
        num_threads, num_threads == 1 ? "" : "s", model.vocab_size(), learn, num_lines, num_ids,
        encode, static_cast<double>(num_lines) / encode);
    if (!model_path.empty()) DT_RETURN_IF_ERROR(model.Save(model_path));
  }
  return dtrain::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bpe_bench TEXT [VOCAB_SIZE = 8000] [MODEL.spm]\n");
    return static_cast<int>(dtrain::ExitCode::kUsage);
  }
  const dtrain::Status status =
      Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 8000, argc > 3 ? argv[3] : "");
  if (!status.ok()) std::fprintf(stderr, "bpe_bench: %s\n", std::string(status.message()).c_str());
  return static_cast<int>(status.code());
}
