// prepare.h - from raw parallel text to a folder of shards that training reads.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const PrepareReport report,
//                       PrepareParallelCorpus({.train = {{"news.en.gz", "news.de.gz"}},
//                                              .dev = {"dev.tsv"},
//                                              .output_dir = "data"}));
//
// The folder holds vocab.spm; train.bin, dev.bin, test.bin (token_shard.h); dev.src, dev.ref,
// test.src, test.ref, plain text to translate and to compare with; and prepare_report.json. It
// appears whole or not at all. Text streams through: memory holds the distinct words, 16 bytes a
// pair to know repetitions, and 8 bytes a pair of lengths. The result depends on inputs and options
// alone, not on the number of threads. A second preparation of the same folder waits for the first.
#ifndef DTRAIN_TASKS_TRANSLATION_PREPARE_H_
#define DTRAIN_TASKS_TRANSLATION_PREPARE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/translation/cleaning.h"
#include "dtrain/tokenizers/bpe_trainer.h"

namespace dtrain {

// Names inside the output folder.
inline constexpr std::string_view kVocabularyFile = "vocab.spm";
inline constexpr std::string_view kPrepareReportFile = "prepare_report.json";

// Two aligned files, or one TSV (source, tab, target) when `target` is empty. Plain, .gz or .zst.
struct ParallelInput {
  std::string source;
  std::string target = {};

  bool empty() const { return source.empty(); }
};

struct PrepareOptions {
  std::vector<ParallelInput> train;  // at least one; read in this order
  // Never filtered: a bad line is an error, lines beyond cleaning.max_pieces are cut in the shard.
  ParallelInput dev = {};
  ParallelInput test = {};
  // Where dev or test is not given, so many train pairs are held out for it, chosen by hash; at
  // most one pair in 20 each. 0: none.
  int64_t hold_out_dev = 1000;
  int64_t hold_out_test = 1000;
  std::string output_dir;
  std::string model_path =
      {};  // a SentencePiece BPE model to use; empty: learn one, both sides joint
  BpeTrainerOptions bpe = {};  // when one is learned
  CleaningOptions cleaning = {};
  int64_t max_line_bytes = 1 << 20;
  // More lines than this share with invalid UTF-8, NUL bytes or more than max_line_bytes are an
  // error; up to it they are dropped and counted.
  double max_invalid_fraction = 0.01;
  int num_threads = 0;  // 0: NumThreads()
  // Replaces what an earlier preparation left in output_dir, never other files or one that is read.
  bool overwrite = false;
};

struct SideStats {
  int64_t words = 0;
  int64_t pieces = 0;              // ends of sentence not counted
  int64_t unknown_pieces = 0;      // <unk>; with byte_fallback none: bytes spell every text
  int64_t longest = 0;             // pieces
  std::vector<int64_t> histogram;  // sentences with 8 i to 8 i + 7 pieces; the last one: or more
};

struct SetStats {
  int64_t pairs = 0;
  int64_t cut_pairs = 0;  // of dev and test: a side was cut to cleaning.max_pieces
  SideStats source;
  SideStats target;
};

struct PrepareReport {
  std::string output_dir;
  bool reused = false;  // the folder held this already: nothing was done
  CleaningReport cleaning;
  SetStats train, dev, test;  // of a set that is not there: no pairs
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;
  bool vocab_learned = false;
  uint64_t options_hash = 0;  // of inputs and options; the shards carry it
  double seconds = 0.0;
  std::vector<std::string>
      notes;  // what the user should know: sets held out, lines cut, much unknown

  // Some lines for people.
  std::string Describe() const;
};

// UsageError: options that cannot be, or output_dir holds something else (the message says what
// differs). DataError: inputs that cannot be read, are not aligned or change meanwhile, no pair
// left. StorageError: the folder cannot be written.
StatusOr<PrepareReport> PrepareParallelCorpus(const PrepareOptions& options);

// What `options` ask of cleaning and vocabulary that the data in options.output_dir were not made
// with: "bpe.vocab_size is 4000 there, 8000 now"; options at their defaults ask for nothing. ""
// where there is no difference, or no report.
std::string DescribeUnheeded(const PrepareOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_PREPARE_H_
