// examples.h - makes an epoch's examples to pre-train BERT on, with masks of its own.
// SPDX-License-Identifier: Apache-2.0
//
//   const PretrainingExamples examples(shard, {.max_length = 128, .seed = 1}, epoch);
//   const EpochPlan plan(examples.sample_lengths(), batch_options, epoch);
//   const PretrainingBatch batch = examples.Pack(plan.Batch(0),
//   examples.NextWeight(plan.Batch(0)));
//
// Devlin et al., "BERT" (2019), section 3.1 and appendix A.2; the rules are those of
// create_pretraining_data.py of google-research/bert. Segments of a document are collected until
// they hold the target length: max_length without special tokens, or with probability short_share a
// random one below it, drawn for each document anew. A cut between two segments gives A and B; with
// probability 1/2, or where there is one segment only, B comes from a random place of another
// document instead, and the segments behind the cut are put back. What is too long loses tokens of
// its longer part, at its start or its end.
//
// What differs: examples are made while training and anew in each epoch (other cuts, lengths,
// random documents and masks), where the program writes ten copies to the disk; another document is
// always another one, unless there is one alone.
//
// Without next_sentence an example is one text, [CLS] A [SEP] (Liu et al., "RoBERTa" (2019),
// DOC-SENTENCES of section 4.2): the segments of a document that fit; one that is too long on its
// own loses its end.
//
// Everything depends on the shard, the options, the epoch and the number of the example alone.
//
// A pass over a large corpus is tens of millions of examples. Of each there is its length; where it
// lies is drawn again when it is packed, from the nearest of the places that are kept, one in
// kStride examples.
#ifndef DTRAIN_TASKS_PRETRAINING_EXAMPLES_H_
#define DTRAIN_TASKS_PRETRAINING_EXAMPLES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/data/batching.h"
#include "dtrain/data/segment_offsets.h"
#include "dtrain/tasks/pretraining/batch.h"
#include "dtrain/tasks/pretraining/document_shard.h"
#include "dtrain/tasks/pretraining/token_masking.h"

namespace dtrain {

struct PretrainingExampleOptions {
  static constexpr int32_t kMinLength = 5;  // [CLS] a [SEP] b [SEP]

  int32_t max_length = 128;   // of an example, special tokens included: kMinLength to 65535
  double short_share = 0.1;   // documents whose examples are shorter
  bool next_sentence = true;  // false: single texts
  MaskingOptions masking = {};
  uint64_t seed = 1;
};

class PretrainingExamples {
 public:
  // Plans all examples: one pass over the lengths of segments, 3.5 bytes of memory an example. The
  // shard outlives this.
  PretrainingExamples(const DocumentShard& shard, const PretrainingExampleOptions& options,
                      int64_t epoch);

  int64_t size() const { return static_cast<int64_t>(lengths_.size()); }
  // In tokens, special ones included. Valid as long as this.
  std::span<const uint16_t> lengths() const { return lengths_; }
  SampleLengths sample_lengths() const { return {.source = lengths_, .added = 0}; }
  // Masked tokens of these examples together.
  int64_t Masked(std::span<const uint32_t> samples) const;
  // The next_weights of a batch, or of an update, of these examples; 0 without any.
  float NextWeight(std::span<const uint32_t> samples) const;

  // Sequence i of the batch is example samples[i].
  PretrainingBatch Pack(std::span<const uint32_t> samples, float next_weight) const;

 private:
  // Examples from one kept place to the next: packing draws half of them on average, in vain.
  static constexpr size_t kStride = 16;

  class Maker;
  // Where a maker stands: before a segment of a document, having drawn so many random numbers.
  struct Place {
    int64_t document = 0;
    int64_t segment = 0;  // of the document
    uint64_t drawn = 0;
  };
  RandomKey KeyOf(uint64_t purpose, int64_t number) const;
  int32_t special() const { return options_.next_sentence ? 3 : 2; }

  const DocumentShard& shard_;
  PretrainingExampleOptions options_;
  int64_t epoch_;
  SegmentOffsets offsets_;
  std::vector<uint16_t> lengths_;
  std::vector<Place> places_;  // of examples 0, kStride, 2 kStride ...
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_EXAMPLES_H_
