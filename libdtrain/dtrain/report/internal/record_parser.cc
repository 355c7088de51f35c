// record_parser.cc - reads JSON lines, settings and tables of a run, tolerant of all damage.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/internal/record_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/utf8.h"
#include "dtrain/runs/record_names.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::ordered_json;

// A file of any length may come in; nobody reads more than this of a table.
constexpr size_t kMaxSampleRows = 50;
constexpr size_t kMaxSettings = 5000;
constexpr size_t kMaxDepth = 20;

std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// A count, in the range where a double is exact.
int64_t Count(double value) {
  if (!(std::abs(value) < 9e15)) return 0;
  return static_cast<int64_t>(value);
}

int64_t CountOf(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Adds a record; earlier ones of the same or a later update were made again.
template <typename Record>
int64_t AddInOrder(Record record, std::vector<Record>& records) {
  int64_t dropped = 0;
  while (!records.empty() && records.back().step >= record.step) {
    records.pop_back();
    ++dropped;
  }
  records.push_back(std::move(record));
  return dropped;
}

SideFacts ParseSide(const Json& set, std::string_view name) {
  const auto found = set.find(std::string(name));
  if (found == set.end() || !found->is_object()) return {};
  return {.words = NumberOf(*found, "words"),
          .pieces = NumberOf(*found, "pieces"),
          .pieces_per_word = NumberOf(*found, "pieces_per_word"),
          .unknown_rate = NumberOf(*found, "unknown_rate")};
}

// The member `name` if it is an object, else an empty object.
Json ObjectOf(const Json& json, std::string_view name) {
  const auto found = json.find(std::string(name));
  return found != json.end() && found->is_object() ? *found : Json::object();
}

// The numbers of a list; NaN for what is none. Empty if it is no list.
std::vector<double> ListOf(const Json& list) {
  // More ranks, or groups, than any run has.
  constexpr size_t kMost = 100'000;
  std::vector<double> numbers;
  if (!list.is_array() || list.size() > kMost) return numbers;
  for (const Json& value : list) {
    numbers.push_back(value.is_number() ? value.get<double>() : kNoNumber);
  }
  return numbers;
}

std::vector<double> NumbersIn(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() ? std::vector<double>() : ListOf(*found);
}

std::string Unescaped(std::string_view field) {
  std::string text;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] != '\\' || i + 1 == field.size()) {
      text += field[i];
      continue;
    }
    const char next = field[++i];
    text += next == 't' ? '\t' : next == 'n' ? '\n' : next == 'r' ? '\r' : next;
  }
  return ReplaceInvalidUtf8(text);
}

std::vector<std::string> Fields(std::string_view line) {
  std::vector<std::string> fields;
  for (;;) {
    const size_t tab = line.find('\t');
    fields.push_back(Unescaped(line.substr(0, tab)));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

}  // namespace

double NumberOf(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found != object.end() && found->is_number() ? found->get<double>() : kNoNumber;
}

std::string TextOf(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found != object.end() && found->is_string()
             ? ReplaceInvalidUtf8(found->get_ref<const std::string&>())
             : "";
}

StreamProblems ReadStream(std::string_view text, const std::function<void(const Json&)>& record) {
  StreamProblems problems;
  problems.is_cut = !text.empty() && !text.ends_with('\n');
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (Trimmed(line).empty()) continue;
    const Json json = ParseJson<Json>(line);
    if (!json.is_object()) {
      ++problems.unread_lines;
    } else if (json.contains(std::string(recorded::kSchema))) {
      problems.version =
          std::max(problems.version, Count(NumberOf(json, recorded::kSchemaVersion)));
    } else {
      record(json);
    }
  }
  return problems;
}

StreamProblems ParseSteps(std::string_view text, std::vector<StepFacts>& steps) {
  int64_t repeated = 0;
  StreamProblems problems = ReadStream(text, [&](const Json& json) {
    StepFacts step{.step = Count(NumberOf(json, recorded::kStep)),
                   .epoch = NumberOf(json, recorded::kEpoch),
                   .loss = NumberOf(json, recorded::kLoss),
                   .nll = NumberOf(json, recorded::kNll),
                   .learning_rate = NumberOf(json, recorded::kLearningRate),
                   .gradient_norm = NumberOf(json, recorded::kGradientNorm),
                   .skipped = NumberOf(json, recorded::kSkipped),
                   .target_tokens = NumberOf(json, recorded::kTargetTokens),
                   .step_ms = NumberOf(json, recorded::kStepMs),
                   .data_share = NumberOf(json, recorded::kDataShare),
                   .comm_share = NumberOf(json, recorded::kCommShare),
                   .target_tokens_per_second = NumberOf(json, recorded::kTargetTokensPerSecond),
                   .source_tokens_per_second = NumberOf(json, recorded::kSourceTokensPerSecond),
                   .seconds = NumberOf(json, recorded::kSeconds),
                   .time = NumberOf(json, recorded::kTime)};
    if (step.step <= 0) return;
    repeated += AddInOrder(step, steps);
  });
  // Clocks jump, and older records lack times: curves need an axis that only rises.
  double seconds = 0.0;
  double tokens = 0.0;
  for (StepFacts& step : steps) {
    seconds = std::isfinite(step.seconds) ? std::max(seconds, step.seconds) : seconds;
    tokens = std::isfinite(step.target_tokens) ? std::max(tokens, step.target_tokens) : tokens;
    step.seconds = seconds;
    step.target_tokens = tokens;
  }
  problems.repeated = repeated;
  return problems;
}

StreamProblems ParseEvaluations(std::string_view text, std::vector<EvaluationFacts>& evaluations) {
  int64_t repeated = 0;
  StreamProblems problems = ReadStream(text, [&](const Json& json) {
    EvaluationFacts evaluation{.step = Count(NumberOf(json, recorded::kStep)),
                               .seconds = NumberOf(json, recorded::kSeconds),
                               .time = NumberOf(json, recorded::kTime)};
    for (const auto& [name, value] : json.items()) {
      if (name == recorded::kStep || name == recorded::kSeconds || name == recorded::kTime) {
        continue;
      }
      if (name == recorded::kIsBest) {
        evaluation.is_best = value.is_boolean() && value.get<bool>();
      } else if (value.is_number() || value.is_null()) {
        evaluation.metrics.emplace_back(ReplaceInvalidUtf8(name),
                                        value.is_number() ? value.get<double>() : kNoNumber);
      }
    }
    if (evaluation.step >= 0) repeated += AddInOrder(std::move(evaluation), evaluations);
  });
  problems.repeated = repeated;
  return problems;
}

StreamProblems ParseEvents(std::string_view text, std::vector<EventFacts>& events) {
  return ReadStream(text, [&](const Json& json) {
    events.push_back({.step = Count(NumberOf(json, recorded::kStep)),
                      .kind = TextOf(json, recorded::kKind),
                      .text = TextOf(json, recorded::kText),
                      .time = NumberOf(json, recorded::kTime),
                      .ranks = NumberOf(json, recorded::kRanks)});
  });
}

StreamProblems ParseHost(std::string_view text, std::vector<HostFacts>& samples) {
  return ReadStream(text, [&](const Json& json) {
    HostFacts sample{.time = NumberOf(json, recorded::kTime),
                     .cpu_busy = NumberOf(json, recorded::kCpuBusy),
                     .cpu_total = NumberOf(json, recorded::kCpuTotal),
                     .memory_available = NumberOf(json, recorded::kMemoryAvailable),
                     .memory_total = NumberOf(json, recorded::kMemoryTotal),
                     .page_cache = NumberOf(json, recorded::kPageCache),
                     .disk_read = NumberOf(json, recorded::kDiskRead),
                     .disk_written = NumberOf(json, recorded::kDiskWritten)};
    const bool is_later = samples.empty() || sample.time > samples.back().time;
    if (!std::isfinite(sample.time) || !is_later) return;
    const Json networks = ObjectOf(json, recorded::kNetworks);
    for (const auto& [name, counts] : networks.items()) {
      if (!counts.is_object()) continue;
      sample.networks.push_back({ReplaceInvalidUtf8(name), NumberOf(counts, recorded::kReceived),
                                 NumberOf(counts, recorded::kSent)});
    }
    const Json ranks = ObjectOf(json, recorded::kRanks);
    for (const auto& [rank, use] : ranks.items()) {
      if (!use.is_object()) continue;
      sample.ranks.push_back({ReplaceInvalidUtf8(rank), NumberOf(use, recorded::kCpu),
                              NumberOf(use, recorded::kMemory)});
    }
    samples.push_back(std::move(sample));
  });
}

StreamProblems ParsePhases(std::string_view text, std::vector<RankFacts>& phases) {
  int64_t repeated = 0;
  StreamProblems problems = ReadStream(text, [&](const Json& json) {
    RankFacts facts{.step = Count(NumberOf(json, recorded::kStep)),
                    .seconds = NumberOf(json, recorded::kSeconds)};
    for (size_t i = 0; i < recorded::kPhaseNames.size(); ++i) {
      const std::vector<double> by_rank = NumbersIn(json, recorded::kPhaseNames[i]);
      if (facts.ranks.empty()) facts.ranks.resize(by_rank.size());
      if (by_rank.size() != facts.ranks.size()) return;
      for (size_t rank = 0; rank < by_rank.size(); ++rank) {
        // Times that make no sense count as none.
        facts.ranks[rank][i] = by_rank[rank] >= 0.0 && by_rank[rank] < 1e9 ? by_rank[rank] : 0.0;
      }
    }
    if (facts.ranks.empty() || !(facts.seconds >= 0.0) || facts.step <= 0) return;
    repeated += AddInOrder(std::move(facts), phases);
  });
  problems.repeated = repeated;
  return problems;
}

StreamProblems ParseNorms(std::string_view text, std::vector<NormFacts>& norms) {
  int64_t repeated = 0;
  StreamProblems problems = ReadStream(text, [&](const Json& json) {
    NormFacts facts{.step = Count(NumberOf(json, recorded::kStep))};
    const Json groups = ObjectOf(json, recorded::kGroups);
    for (const auto& [name, values] : groups.items()) {
      const std::vector<double> numbers = ListOf(values);
      if (numbers.size() != 3) continue;
      facts.groups.push_back({ReplaceInvalidUtf8(name), numbers[0], numbers[1], numbers[2]});
    }
    if (facts.step > 0 && !facts.groups.empty()) repeated += AddInOrder(std::move(facts), norms);
  });
  problems.repeated = repeated;
  return problems;
}

StatusFacts ParseStatus(std::string_view text) {
  StatusFacts status;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, space);
    const std::string value = ReplaceInvalidUtf8(line.substr(space + 1));
    if (key == "state") status.state = value;
    if (key == "step") status.step = CountOf(value);
    if (key == "exit_code") status.exit_code = CountOf(value);
    if (key == "host") status.host = value;
    if (key == "message") status.message = value;
    if (key == "heartbeat") status.heartbeat = ParseTime(value);
  }
  return status;
}

std::vector<StartFacts> ParseStarts(std::string_view text) {
  std::vector<StartFacts> starts;
  while (!text.empty()) {
    const std::string_view line = Trimmed(TakeLine(text));
    if (line.empty()) continue;
    const size_t space = std::min(line.find_first_of(" \t"), line.size());
    starts.push_back({.time = ReplaceInvalidUtf8(line.substr(0, space)),
                      .command = ReplaceInvalidUtf8(Trimmed(line.substr(space)))});
  }
  return starts;
}

Settings ParseEnvironment(std::string_view text) {
  Settings environment;
  const Json json = ParseJson<Json>(text);
  if (!json.is_object()) return environment;
  for (const auto& [name, value] : json.items()) {
    environment.emplace_back(ReplaceInvalidUtf8(name),
                             value.is_string()
                                 ? ReplaceInvalidUtf8(value.get_ref<const std::string&>())
                                 : JsonText(value));
  }
  return environment;
}

std::optional<PreparationFacts> ParsePreparation(std::string_view text) {
  const Json json = ParseJson<Json>(text);
  if (!json.is_object()) return std::nullopt;
  const Json cleaning = ObjectOf(json, "cleaning");
  PreparationFacts facts{.pairs_read = NumberOf(cleaning, "pairs_read"),
                         .pairs_kept = NumberOf(cleaning, "pairs_kept")};
  const Json dropped = ObjectOf(cleaning, "dropped");
  for (const auto& [rule, found] : dropped.items()) {
    const double pairs = found.is_object() ? NumberOf(found, "pairs") : kNoNumber;
    if (pairs > 0.0) facts.dropped.emplace_back(ReplaceInvalidUtf8(rule), pairs);
  }
  const Json sets = ObjectOf(json, "sets");
  for (const auto& [name, set] : sets.items()) {
    if (!set.is_object()) continue;
    facts.sets.push_back({.name = ReplaceInvalidUtf8(name),
                          .pairs = NumberOf(set, "pairs"),
                          .cut_pairs = NumberOf(set, "cut_pairs"),
                          .source = ParseSide(set, "source"),
                          .target = ParseSide(set, "target")});
  }
  return facts;
}

SampleFacts ParseSamples(std::string_view text) {
  SampleFacts samples;
  if (text.empty()) return samples;
  samples.columns = Fields(TakeLine(text));
  while (!text.empty() && samples.rows.size() < kMaxSampleRows) {
    samples.rows.push_back(Fields(TakeLine(text)));
    samples.rows.back().resize(samples.columns.size());
  }
  return samples;
}

double ParseTime(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* const rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return kNoNumber;
  double fraction = 0.0;
  if (*rest == '.') {
    std::from_chars(rest, copy.data() + copy.size(), fraction, std::chars_format::fixed);
  }
  return static_cast<double>(::timegm(&parts)) + fraction;
}

}  // namespace dtrain::internal

namespace dtrain {

Settings ParseSettings(std::string_view text) {
  Settings settings;
  std::vector<std::string> sections;
  while (!text.empty() && settings.size() < internal::kMaxSettings) {
    const std::string_view line = internal::Trimmed(internal::TakeLine(text));
    if (line.ends_with('{') && sections.size() < internal::kMaxDepth) {
      sections.emplace_back(internal::Trimmed(line.substr(0, line.size() - 1)));
    } else if (line == "}") {
      if (!sections.empty()) sections.pop_back();
    } else if (const size_t colon = line.find(':');
               colon != std::string_view::npos && !line.starts_with('#')) {
      std::string_view value = internal::Trimmed(line.substr(colon + 1));
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
        value = value.substr(1, value.size() - 2);
      }
      std::string name;
      for (const std::string& section : sections) name += section + ".";
      name += internal::Trimmed(line.substr(0, colon));
      settings.emplace_back(ReplaceInvalidUtf8(name), ReplaceInvalidUtf8(value));
    }
  }
  return settings;
}

}  // namespace dtrain
