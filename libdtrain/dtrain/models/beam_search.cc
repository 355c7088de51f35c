// beam_search.cc - beam search over packed batches with shared caches.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "dtrain/base/thread_pool.h"

namespace dtrain {
namespace {

// A partial translation: its tokens, and the cache slots of its keys and values.
struct Alive {
  float log_probability = 0.0f;
  std::vector<int32_t> ids;
  std::vector<int32_t> slots;
};

// The search state of one sentence.
struct Sentence {
  size_t index = 0;        // index of the source
  int32_t max_length = 0;  // largest number of tokens of the translation
  std::vector<Alive> alive;
  std::vector<Hypothesis> finished;  // best first
  bool done = false;
};

struct Candidate {
  float log_probability;
  int32_t row;  // row within the sentence
  int32_t id;
};

// True if `a` is more probable. Ties go to the earlier row, then the smaller id, so that results
// are reproducible.
bool Better(const Candidate& a, const Candidate& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return std::pair(a.row, a.id) < std::pair(b.row, b.id);
}

float Penalty(size_t length, const BeamSearchOptions& options) {
  const auto pieces = static_cast<float>(length);
  const float base = options.rules == BeamRules::kWu ? (5.0f + pieces) / 6.0f : pieces;
  return std::pow(base, options.alpha);
}

// Merges the `count` best entries of one row into `best`, which stays sorted.
void AddBestOfRow(const float* log_probabilities, int64_t classes, const Candidate& origin,
                  size_t count, std::vector<Candidate>& best) {
  // Once `best` is full, hardly any block has a candidate. The loop that only asks whether one
  // exists is vectorised by compilers.
  constexpr int64_t kBlock = 64;
  float threshold =
      best.size() == count ? best.back().log_probability : -std::numeric_limits<float>::infinity();
  for (int64_t begin = 0; begin < classes; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, classes);
    int found = 0;
    for (int64_t id = begin; id < end; ++id) {
      found |= static_cast<int>(origin.log_probability + log_probabilities[id] > threshold);
    }
    if (found == 0) continue;
    for (int64_t id = begin; id < end; ++id) {
      const float value = origin.log_probability + log_probabilities[id];
      if (!(value > threshold)) continue;
      const Candidate candidate{value, origin.row, static_cast<int32_t>(id)};
      best.insert(std::upper_bound(best.begin(), best.end(), candidate, Better), candidate);
      if (best.size() > count) best.pop_back();
      if (best.size() == count) threshold = best.back().log_probability;
    }
  }
}

// A batch of sentences that are searched together.
class BatchSearch {
 public:
  BatchSearch(Seq2SeqTransformer& model, const BeamSearchOptions& options, Context& ctx)
      : model_(model), options_(options), ctx_(ctx) {}

  void Add(size_t index, const std::vector<int32_t>& source) {
    const auto length = static_cast<int32_t>(source.size());
    ids_.insert(ids_.end(), source.begin(), source.end());
    offsets_.push_back(static_cast<int32_t>(ids_.size()));
    // max_length of transformers also counts the start symbol and the end symbol.
    const int32_t marks = options_.rules == BeamRules::kWu ? 1 : 2;
    const auto limit = static_cast<int32_t>(model_.options().max_positions) - marks;
    Sentence& sentence = sentences_.emplace_back();
    sentence.index = index;
    sentence.max_length = std::max(std::min(length + options_.extra_length, limit), 0);
    sentence.alive.emplace_back();
  }

  void Run(std::vector<std::vector<Hypothesis>>& results) {
    const Sequences memory_sequences(offsets_);
    const Tensor memory = model_.Encode(ids_, memory_sequences, ctx_);
    int64_t slots = 0;
    for (const Sentence& sentence : sentences_) {
      slots += int64_t{options_.beam_size} * (sentence.max_length + 1);
    }
    DecoderState state = model_.StartDecoding(memory, memory_sequences, slots, ctx_);
    int64_t first_slot = 0;
    for (int32_t position = 0; Active(); ++position) {
      if (options_.stop && options_.stop()) break;
      first_slot += Step(position, first_slot, state);
    }
    for (Sentence& sentence : sentences_) Collect(sentence, results[sentence.index]);
  }

 private:
  bool Active() const {
    return std::any_of(sentences_.begin(), sentences_.end(),
                       [](const Sentence& s) { return !s.done; });
  }

  // Extends every hypothesis of every open sentence by one token. Returns the number of rows
  // computed.
  int64_t Step(int32_t position, int64_t first_slot, DecoderState& state) {
    std::vector<int32_t> ids;
    std::vector<int32_t> slots;
    std::vector<int32_t> row_offsets{0};
    for (Sentence& sentence : sentences_) {
      for (Alive& alive : sentence.alive) {
        alive.slots.push_back(static_cast<int32_t>(first_slot + static_cast<int64_t>(ids.size())));
        slots.insert(slots.end(), alive.slots.begin(), alive.slots.end());
        ids.push_back(alive.ids.empty() ? model_.options().pad_id() : alive.ids.back());
      }
      row_offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    const auto rows = static_cast<int64_t>(ids.size());
    const Sequences row_sequences(std::move(row_offsets));
    const Tensor log_probabilities =
        ToHost(model_.Step(ids, position,
                           {.slots = ctx_.Upload(slots).Reshape({rows, position + 1}),
                            .first_slot = first_slot,
                            .rows = row_sequences,
                            .memory_sequences = state.memory_sequences},
                           state, ctx_),
               ctx_.stream());
    const auto count = static_cast<int64_t>(sentences_.size());
    ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Sentence& sentence = sentences_[static_cast<size_t>(i)];
        if (!sentence.done) {
          Extend(sentence, log_probabilities.Rows(row_sequences.begin(i), row_sequences.end(i)));
        }
      }
    });
    return rows;
  }

  // Selects a sentence's next hypotheses from the log-probabilities of its rows.
  void Extend(Sentence& sentence, const Tensor& log_probabilities) const {
    const auto beam = static_cast<size_t>(options_.beam_size);
    const int64_t classes = log_probabilities.dim(1);
    std::vector<Candidate> best;
    for (size_t row = 0; row < sentence.alive.size(); ++row) {
      float* const values = log_probabilities.data<float>() + static_cast<int64_t>(row) * classes;
      Forbid(sentence, values);
      AddBestOfRow(values, classes,
                   {sentence.alive[row].log_probability, static_cast<int32_t>(row), 0}, 2 * beam,
                   best);
    }
    std::vector<Alive> next;
    for (size_t rank = 0; rank < best.size(); ++rank) {
      const Candidate& candidate = best[rank];
      const Alive& parent = sentence.alive[static_cast<size_t>(candidate.row)];
      if (candidate.id == options_.end_id) {
        // An end symbol ranked below the beam does not count, so that a beam of one is greedy
        // search.
        if (rank < beam) Finish(sentence, parent.ids, candidate.log_probability);
      } else if (next.size() < beam) {
        next.push_back({candidate.log_probability, parent.ids, parent.slots});
        next.back().ids.push_back(candidate.id);
      }
    }
    sentence.alive = std::move(next);
    if (Decided(sentence)) {
      sentence.done = true;
      // Hypotheses that have not ended are used only if none has ended.
      if (!sentence.finished.empty()) sentence.alive.clear();
      for (const Alive& alive : sentence.alive) Finish(sentence, alive.ids, alive.log_probability);
      sentence.alive.clear();
    }
  }

  void Forbid(const Sentence& sentence, float* values) const {
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    float* const all_end = values + model_.options().vocab_size;
    double forbidden = 0.0;  // their probability
    const auto forbid = [&](int32_t id) {
      if (options_.renormalizes) forbidden += std::exp(double{values[id]});
      values[id] = kNever;
    };
    forbid(model_.options().pad_id());
    for (const int32_t id : options_.forbidden_ids) forbid(id);
    if (forbidden > 0.0 && forbidden < 1.0) {
      const auto rest = static_cast<float>(std::log1p(-forbidden));
      for (float* value = values; value != all_end; ++value) *value -= rest;
    }
    // At full length only the end symbol is allowed.
    if (static_cast<int32_t>(sentence.alive.front().ids.size()) < sentence.max_length) return;
    const float end = options_.rules == BeamRules::kWu ? values[options_.end_id] : 0.0f;
    std::fill(values, all_end, kNever);
    values[options_.end_id] = end;
  }

  void Finish(Sentence& sentence, const std::vector<int32_t>& ids, float log_probability) const {
    // The end symbol counts as a token.
    const float score = log_probability / Penalty(ids.size() + 1, options_);
    const auto place = std::find_if(sentence.finished.begin(), sentence.finished.end(),
                                    [&](const Hypothesis& other) { return other.score < score; });
    sentence.finished.insert(place, {ids, score, log_probability});
    if (sentence.finished.size() > static_cast<size_t>(options_.beam_size)) {
      sentence.finished.pop_back();
    }
  }

  // True if no open hypothesis, at its present length, can enter the finished ones.
  bool Decided(const Sentence& sentence) const {
    if (sentence.alive.empty()) return true;
    if (options_.beam_size == 1) return !sentence.finished.empty();
    if (sentence.finished.size() < static_cast<size_t>(options_.beam_size)) return false;
    if (options_.early_stopping) return true;
    const Alive& best = sentence.alive.front();
    // Whether the end symbol counts here, too, is transformers' choice.
    const size_t length = best.ids.size() + (options_.rules == BeamRules::kWu ? 1 : 0);
    return best.log_probability / Penalty(length, options_) <= sentence.finished.back().score;
  }

  void Collect(Sentence& sentence, std::vector<Hypothesis>& result) const {
    for (const Alive& alive : sentence.alive) {  // only after an abandoned search
      Finish(sentence, alive.ids, alive.log_probability);
    }
    result = std::move(sentence.finished);
    result.resize(std::min(result.size(), static_cast<size_t>(options_.n_best)));
  }

  Seq2SeqTransformer& model_;
  const BeamSearchOptions& options_;
  Context& ctx_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> offsets_{0};
  std::vector<Sentence> sentences_;
};

}  // namespace

std::vector<std::vector<Hypothesis>> BeamSearch(Seq2SeqTransformer& model,
                                                std::span<const std::vector<int32_t>> sources,
                                                const BeamSearchOptions& options, Context& ctx) {
  DT_CHECK(!ctx.training()) << "a model in training has dropout on";
  DT_CHECK_GE(options.beam_size, 1);
  DT_CHECK(options.n_best >= 1 && options.n_best <= options.beam_size);
  std::vector<std::vector<Hypothesis>> results(sources.size());
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  size_t next = 0;
  while (next < order.size() && sources[order[next]].size() > 1) {
    BatchSearch batch(model, options, ctx);
    int64_t tokens = 0;
    int64_t places = 0;
    while (next < order.size() && sources[order[next]].size() > 1) {
      const std::vector<int32_t>& source = sources[order[next]];
      const auto length = static_cast<int64_t>(source.size());
      tokens += length;
      places += length + options.extra_length;
      const bool is_full = tokens > options.batch_tokens ||
                           places > options.batch_tokens * BeamSearchOptions::kPlacesPerToken;
      if (is_full && tokens > length) break;
      batch.Add(order[next++], source);
    }
    batch.Run(results);
    if (options.stop && options.stop()) break;
  }
  for (std::vector<Hypothesis>& result : results) {
    if (result.empty()) result.emplace_back();
  }
  return results;
}

}  // namespace dtrain
