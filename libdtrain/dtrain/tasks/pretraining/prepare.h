// prepare.h - from files of running text to a shard of documents to pre-train on.
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
// Plain, gzip and Zstandard files. A line is a sentence or a paragraph, an empty line ends a
// document, and so does a file's end (create_pretraining_data.py of google-research/bert). A
// paragraph is cut into sentences (tasks/pretraining/sentences.h), each of which becomes a segment;
// one that is longer than max_length tokens becomes several of about equal size, of which four fit
// an example.
//
// A shard's name holds a key of the contents of the files, the tokenizer and the options: a second
// call finds it and reads nothing but the files' bytes. It appears whole or not at all, so several
// processes may prepare the same. Text streams through: memory holds a few blocks of some MB, 2
// bytes a segment and 16 bytes a document. The result depends on inputs and options alone, not on
// the number of threads.
#ifndef DTRAIN_TASKS_PRETRAINING_PREPARE_H_
#define DTRAIN_TASKS_PRETRAINING_PREPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {

struct DocumentsInput {
  std::string name;                // of the set, for the shard's name and messages
  std::vector<std::string> paths;  // read in this order
  std::string cache_dir;           // made where it is not there
  int32_t max_length = 128;        // of an example, and so of a segment, in tokens
  bool split_sentences = true;     // false: a line is a segment
  // Share of the documents that go to a second shard, for evaluation. The text decides (of a long
  // document its start), so that equal documents are on one side, whatever max_length.
  double held_out = 0.0;
  int64_t min_held_out = 1;  // documents of that shard, where there is one
  int num_threads = 0;       // 0: NumThreads()
};

struct DocumentCounts {
  int64_t documents = 0;
  int64_t segments = 0;
  int64_t tokens = 0;
};

struct DocumentsReport {
  std::string name;
  std::string shard_path;
  std::string held_out_path;  // empty where nothing is held out
  bool reused = false;        // the shards were there already
  int64_t lines = 0;          // with text
  int64_t cut = 0;            // sentences longer than max_length, now of several segments
  DocumentCounts kept;
  DocumentCounts held_out;
  double seconds = 0.0;

  // Some lines for people.
  std::string Describe() const;
};

// UsageError: options that cannot be; a vocabulary without [MASK]; a tokenizer that takes "[MASK]"
// in a text for the token (match_special_tokens). DataError: files that cannot be read or change
// meanwhile, a line that is no UTF-8, no document that is kept, fewer than min_held_out that are
// held out. StorageError: cache_dir cannot be written.
StatusOr<DocumentsReport> PrepareDocuments(const DocumentsInput& input,
                                           const WordPieceTokenizer& tokenizer);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_PREPARE_H_
