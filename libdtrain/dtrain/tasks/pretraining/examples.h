// examples.h - makes an epoch's examples for pre-training BERT, with new masks.
// SPDX-License-Identifier: Apache-2.0
//
//   const PretrainingExamples examples(shard, {.max_length = 128, .seed = 1}, epoch);
//   const EpochPlan plan(examples.sample_lengths(), batch_options, epoch);
//   const PretrainingBatch batch =
//       examples.Pack(plan.Batch(0), examples.NextWeight(plan.Batch(0)));
//
// Devlin et al., "BERT" (2019), section 3.1 and appendix A.2; the rules are those of
// create_pretraining_data.py of google-research/bert. Segments of a document are collected until
// they reach the target length. The target is max_length without special tokens or, with
// probability short_share, a random shorter length, drawn again for each document. A cut between
// two segments gives A and B. With probability 1/2, or if there is only one segment, B instead
// comes from a random place of another document. The segments after the cut are then used again. If
// the pair is too long, its longer part loses tokens at its start or end.
//
// Two things differ from that program. Examples are made while training and again for each epoch
// (with other cuts, lengths, random documents and masks), instead of ten copies on disk. And a
// random B always comes from another document, unless there is only one.
//
// Without next_sentence an example is one text, [CLS] A [SEP] (Liu et al., "RoBERTa" (2019),
// DOC-SENTENCES of section 4.2). It has as many segments of a document as fit; a segment that is
// too long loses its end.
//
// Everything depends only on the shard, the options, the epoch and the example's number.
//
// A pass over a large corpus has tens of millions of examples. Only their lengths are stored. An
// example's position is computed again when it is packed, starting from one of the positions that
// are stored for every kStride-th example.
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
  static constexpr int32_t kMinLength = 5;  // the length of [CLS] a [SEP] b [SEP]

  int32_t max_length = 128;   // of an example including special tokens: kMinLength to 65535
  double short_share = 0.1;   // share of documents with shorter examples
  bool next_sentence = true;  // false: examples are single texts
  MaskingOptions masking = {};
  uint64_t seed = 1;
};

class PretrainingExamples {
 public:
  // Plans all examples in one pass over the segments' lengths. Needs 3.5 bytes of memory per
  // example. The shard must outlive this object.
  PretrainingExamples(const DocumentShard& shard, const PretrainingExampleOptions& options,
                      int64_t epoch);

  int64_t size() const { return static_cast<int64_t>(lengths_.size()); }
  // Lengths in tokens, including special ones. Valid as long as this object.
  std::span<const uint16_t> lengths() const { return lengths_; }
  SampleLengths sample_lengths() const { return {.source = lengths_, .added = 0}; }
  // Total number of masked tokens in these examples.
  int64_t Masked(std::span<const uint32_t> samples) const;
  // The next_weights value for a batch or update of these examples; 0 without masked tokens.
  float NextWeight(std::span<const uint32_t> samples) const;

  // Packs examples: sequence i of the batch is example samples[i].
  PretrainingBatch Pack(std::span<const uint32_t> samples, float next_weight) const;

 private:
  // Distance between stored positions. On average, packing an example first draws half as many
  // examples in vain.
  static constexpr size_t kStride = 16;

  class Maker;
  // The state of a maker: its position, and the number of random numbers it has drawn.
  struct Place {
    int64_t document = 0;
    int64_t segment = 0;  // index within the document
    uint64_t drawn = 0;
  };
  RandomKey KeyOf(uint64_t purpose, int64_t number) const;
  int32_t special() const { return options_.next_sentence ? 3 : 2; }

  const DocumentShard& shard_;
  PretrainingExampleOptions options_;
  int64_t epoch_;
  SegmentOffsets offsets_;
  std::vector<uint16_t> lengths_;
  std::vector<Place> places_;  // of examples 0, kStride, 2 kStride, ...
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_EXAMPLES_H_
