// prepare.h - turns raw parallel text into a folder of shards for training.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const PrepareReport report,
//                       PrepareParallelCorpus({.train = {{"news.en.gz", "news.de.gz"}},
//                                              .dev = {"dev.tsv"},
//                                              .output_dir = "data"}));
//
// The folder contains the tokenizer's files (vocab.spm, or those of a Marian model); the shards
// train.bin, dev.bin and test.bin (token_shard.h); dev.src, dev.ref, test.src and test.ref, the
// plain text to translate and to compare with; and prepare_report.json. It appears completely or
// not at all.
//
// A vocabulary that is learned has the tags of sources as pieces. Pairs held out of a source with a
// tag have it. Tags at the beginning of dev and test sources are left out where these are compared
// with the training text.
//
// Text is streamed. Memory holds the distinct words, 16 bytes per pair to detect repetitions, and 8
// bytes per pair for lengths. The result depends only on inputs and options, not on the number of
// threads. If two processes prepare the same folder, the second waits for the first.
#ifndef DTRAIN_TASKS_TRANSLATION_PREPARE_H_
#define DTRAIN_TASKS_TRANSLATION_PREPARE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/translation/cleaning.h"
#include "dtrain/tokenizers/bpe_trainer.h"

namespace dtrain {

// Names of files in the output folder.
inline constexpr std::string_view kVocabularyFile = "vocab.spm";
inline constexpr std::string_view kPrepareReportFile = "prepare_report.json";

// Two aligned files, or one file with both sides if `target` is empty. Files may be plain, .gz or
// .zst.
struct ParallelInput {
  std::string source;
  std::string target = {};
  PairFormat format = PairFormat::kTsv;  // of one file
  // Languages of kTmx and kJsonLines.
  std::string source_language = {};
  std::string target_language = {};

  bool empty() const { return source.empty(); }
};

// A part of the training text that epochs mix with the others (data/source_mix.h).
struct TrainSource {
  size_t num_inputs = 1;  // it is the next ones of PrepareOptions::train
  double weight = 1.0;
  std::string tag = {};  // put before each of its sources, unless empty: one piece
};

struct PrepareOptions {
  std::vector<ParallelInput> train;  // at least one; read in this order
  // The sources that `train` is of. Each is cleaned by itself: a pair may be in several. Empty: all
  // is one source.
  std::vector<TrainSource> sources = {};
  // Evaluation sets, which are never filtered. A bad line is an error. Lines longer than
  // cleaning.max_pieces are cut in the shard.
  ParallelInput dev = {};
  ParallelInput test = {};
  // If dev or test is not given, this many train pairs are held out for it, selected by a hash, but
  // at most one pair in 20 each. 0 holds out none.
  int64_t hold_out_dev = 1000;
  int64_t hold_out_test = 1000;
  std::string output_dir;
  std::string model_path = {};  // a SentencePiece BPE model, or a folder with a tokenizer, to use;
                                // if empty, one model is learned for both sides
  BpeTrainerOptions bpe = {};   // settings for a learned model
  CleaningOptions cleaning = {};
  int64_t max_line_bytes = 1 << 20;
  // Lines with invalid UTF-8, NUL bytes or more than max_line_bytes are dropped and counted. If
  // their share is larger than this, it is an error.
  double max_invalid_fraction = 0.01;
  int num_threads = 0;  // 0 means NumThreads()
  // true: replaces an earlier preparation in output_dir, but never other files or input files
  bool overwrite = false;
};

struct SideStats {
  int64_t words = 0;
  int64_t pieces = 0;              // without ends of sentences
  int64_t unknown_pieces = 0;      // <unk>; always 0 with byte_fallback, which can spell every text
  int64_t longest = 0;             // in pieces
  std::vector<int64_t> histogram;  // bin i counts sentences with 8 i to 8 i + 7 pieces; the last
                                   // bin also counts longer ones
};

struct SetStats {
  int64_t pairs = 0;
  int64_t cut_pairs = 0;  // dev and test only: pairs of which a side was cut to cleaning.max_pieces
  SideStats source;
  SideStats target;
};

struct SourceStats {
  int64_t pairs = 0;
  double weight = 1.0;
  std::string tag = {};
  int64_t pairs_per_epoch = 0;
};

struct PrepareReport {
  std::string output_dir;
  bool reused = false;  // the folder already existed and nothing was done
  CleaningReport cleaning;
  SetStats train, dev, test;              // a missing set has no pairs
  std::vector<SourceStats> sources = {};  // of the training text; empty if it is one source
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;
  bool vocab_learned = false;
  uint64_t options_hash = 0;  // hash of inputs and options, which the shards store too
  double seconds = 0.0;
  std::vector<std::string>
      notes;  // notes for the user: sets held out, lines cut, many unknown pieces

  // A readable summary of some lines.
  std::string Describe() const;
};

// Returns UsageError if options are invalid or output_dir holds other data (the message says what
// differs). Returns DataError if inputs cannot be read, are not aligned or change meanwhile, or if
// no pair is left. Returns StorageError if the folder cannot be written.
StatusOr<PrepareReport> PrepareParallelCorpus(const PrepareOptions& options);

// Compares the cleaning and vocabulary options with those that made the data in options.output_dir:
// "bpe.vocab_size is 4000 there, 8000 now". Options with default values are not compared. Returns
// "" if there is no difference or no report.
std::string DescribeIgnoredOptions(const PrepareOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_PREPARE_H_
