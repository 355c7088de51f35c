// classification_data_bench.cc - seconds and memory from a big CSV of labelled texts to a shard.
// SPDX-License-Identifier: Apache-2.0
//
//   classification_data_bench TEXTS.tsv VOCAB.txt [ROWS = 1500000] [THREADS = 2] [TEXT LABEL]
//
// TEXT and LABEL are columns of TEXTS.tsv, by default 1 and 0 of a file without a header. Its rows
// are repeated into a quoted CSV of ROWS rows in the folder for temporary files, which is read
// (MB/s of one thread), prepared, and prepared again.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"
#include "dtrain/data/delimited_reader.h"
#include "dtrain/tasks/classification/prepare.h"

namespace {

struct Arguments {
  std::string texts;
  std::string vocabulary;
  int64_t rows = 1500000;
  int threads = 2;
  std::string text_column = "1";
  std::string label_column = "0";
};

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

dtrain::Status WriteBigFile(const Arguments& args, const std::string& path) {
  const bool header = args.text_column.find_first_not_of("-0123456789") != std::string::npos;
  DT_ASSIGN_OR_RETURN(dtrain::DelimitedReader reader,
                      dtrain::DelimitedReader::Open(
                          args.texts, {.format = dtrain::RecordFormat::kTsv,
                                       .header = header,
                                       .columns = {{args.label_column}, {args.text_column}}}));
  std::vector<std::string> lines;
  for (dtrain::RecordBlock block;;) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.NextBlock(block));
    if (!more) break;
    for (int64_t i = 0; i < block.size(); ++i) {
      if (block.row(i).problem != dtrain::RowProblem::kNone) continue;
      lines.push_back(Quoted(block.field(i, 0)) + ',' + Quoted(block.field(i, 1)) + '\n');
    }
  }
  if (lines.empty()) return dtrain::DataError(args.texts + ": no row");
  std::ofstream out(path, std::ios::binary);
  out << "label,text\n";
  for (int64_t i = 0; i < args.rows; ++i) out << lines[static_cast<size_t>(i) % lines.size()];
  return out.good() ? dtrain::OkStatus() : dtrain::StorageError(path + ": cannot be written");
}

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

dtrain::Status Measure(const Arguments& args, const std::string& folder) {
  const std::string path = folder + "/big.csv";
  DT_RETURN_IF_ERROR(WriteBigFile(args, path));
  const double megabytes = static_cast<double>(std::filesystem::file_size(path)) * 1e-6;
  const dtrain::Timer timer;
  DT_ASSIGN_OR_RETURN(dtrain::DelimitedReader reader,
                      dtrain::DelimitedReader::Open(path, {.columns = {{"text"}, {"label"}}}));
  int64_t rows = 0;
  for (dtrain::RecordBlock block;;) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.NextBlock(block));
    if (!more) break;
    rows += block.size();
  }
  const double seconds = timer.Seconds();
  std::printf("read: %lld rows, %.0f MB, %.2f s, %.0f MB/s\n", static_cast<long long>(rows),
              megabytes, seconds, megabytes / seconds);
  DT_ASSIGN_OR_RETURN(const dtrain::WordPieceTokenizer tokenizer,
                      dtrain::WordPieceTokenizer::Load(args.vocabulary));
  for (int round = 0; round < 2; ++round) {
    const dtrain::Timer whole;
    DT_ASSIGN_OR_RETURN(const dtrain::ClassificationReport report,
                        dtrain::PrepareClassification({.name = "big",
                                                       .paths = {path},
                                                       .schema = {},
                                                       .cache_dir = folder,
                                                       .num_threads = args.threads},
                                                      tokenizer));
    std::printf("%sprepared on %d threads: %.2f s, peak memory %.0f MB\n",
                report.Describe().c_str(), args.threads, whole.Seconds(), PeakMegabytes());
  }
  return dtrain::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc == 6) {
    std::fprintf(stderr, "usage: %s TEXTS.tsv VOCAB.txt [ROWS] [THREADS] [TEXT LABEL]\n", argv[0]);
    return 2;
  }
  Arguments args{.texts = argv[1], .vocabulary = argv[2]};
  if (argc > 3) args.rows = std::atoll(argv[3]);
  if (argc > 4) args.threads = std::atoi(argv[4]);
  if (argc > 6) args.text_column = argv[5], args.label_column = argv[6];
  std::string folder = (std::filesystem::temp_directory_path() / "classification-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 7;
  const dtrain::Status status = Measure(args, folder);
  std::filesystem::remove_all(folder);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return static_cast<int>(status.code());
}
