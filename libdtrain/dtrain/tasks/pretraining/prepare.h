// prepare.h - turns files of running text into a shard of documents for pre-training.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const DocumentsReport report,
//                       PrepareDocuments({.name = "books",
//                                         .paths = {"emma.txt", "wiki.txt.zst"},
//                                         .cache_dir = "cache",
//                                         .held_out = 0.005},
//                                        tokenizer));
//   LogInfo(report.Describe());
//   DT_ASSIGN_OR_RETURN(DocumentShard train, DocumentShard::Open(report.shard_path));
//   DT_ASSIGN_OR_RETURN(DocumentShard dev, DocumentShard::Open(report.held_out_path));
//
// Files may be plain, gzip or Zstandard. A line is a sentence or a paragraph. An empty line or the
// end of a file ends a document, as in create_pretraining_data.py of google-research/bert. A
// paragraph is split into sentences (tasks/pretraining/sentences.h), and each becomes a segment. A
// sentence longer than max_length tokens becomes several segments of about equal size, four of
// which fit into an example.
//
// A shard's name contains a hash of the files' contents, the tokenizer and the options. A second
// call finds the shard and only hashes the files. The shard appears completely or not at all, so
// several processes may prepare the same one. Text is streamed: memory holds a few blocks of some
// MB, 2 bytes per segment and 16 bytes per document. The result depends only on inputs and options,
// not on the number of threads.
#ifndef DTRAIN_TASKS_PRETRAINING_PREPARE_H_
#define DTRAIN_TASKS_PRETRAINING_PREPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain {

struct DocumentsInput {
  std::string name;                // of the set, used in the shard's name and in messages
  std::vector<std::string> paths;  // read in this order
  std::string cache_dir;           // created if it does not exist
  int32_t max_length = 128;        // maximum length of an example, and so of a segment, in tokens
  bool split_sentences = true;     // false: each line is a segment
  // Share of the documents that go to a second shard, for evaluation. A hash of the text (of a long
  // document's start) decides. So equal documents go to the same side, whatever max_length is.
  double held_out = 0.0;
  int64_t min_held_out = 1;  // minimum number of documents in that shard, if there is one
  int num_threads = 0;       // 0 means NumThreads()
};

struct DocumentCounts {
  int64_t documents = 0;
  int64_t segments = 0;
  int64_t tokens = 0;
};

struct DocumentsReport {
  std::string name;
  std::string shard_path;
  std::string held_out_path;  // empty if nothing is held out
  bool reused = false;        // the shards already existed
  int64_t lines = 0;          // number of lines with text
  int64_t cut = 0;            // number of sentences longer than max_length, which became several
                              // segments
  DocumentCounts kept;
  DocumentCounts held_out;
  double seconds = 0.0;

  // A readable summary of some lines.
  std::string Describe() const;
};

// Returns UsageError if options are invalid, if the vocabulary has no [MASK], or if the tokenizer
// treats "[MASK]" in a text as the token (match_special_tokens). Returns DataError if files cannot
// be read or change meanwhile, if a line is not UTF-8, if no document is kept, or if fewer than
// min_held_out are held out. Returns StorageError if cache_dir cannot be written.
StatusOr<DocumentsReport> PrepareDocuments(const DocumentsInput& input,
                                           const TextTokenizer& tokenizer);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_PREPARE_H_
