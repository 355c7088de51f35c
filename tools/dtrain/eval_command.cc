// eval_command.cc - `dtrain eval`: translates and scores, or scores a file of translations.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"
#include "dtrain/tasks/translation/translation_model.h"
#include "dtrain/tasks/translation/translator.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"
#include "tools/dtrain/text_output.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

struct EvalFlags {
  TranslationFlags translation;
  std::string source;
  std::string hypothesis;
  std::vector<std::string> references;
  std::string output;
  bool lowercase = false;
  bool json = false;
  std::string model_path;  // the argument; empty: score the hypothesis file

  void AddTo(FlagSet& flags) {
    flags.Add("source", "text to translate with the model", &source);
    flags.Add("hypothesis", "translations to score, instead of a model and --source", &hypothesis);
    flags.Add("reference", "what to compare with; several for several references", &references);
    flags.Add("output", "also write the translations here; - is standard output", &output);
    flags.Add("lowercase", "compare without case", &lowercase);
    flags.Add("json", "print one JSON line with all digits", &json);
    translation.AddTo(flags);
  }

  Status Check() const {
    DT_RETURN_IF_ERROR(translation.Check());
    if (references.empty()) return UsageError("--reference is missing: what to compare with");
    if (model_path.empty() && hypothesis.empty()) {
      return UsageError("give a run directory or checkpoint and --source, or --hypothesis");
    }
    if (!model_path.empty() && !hypothesis.empty()) {
      return UsageError("give a model to translate with or --hypothesis, not both");
    }
    const auto inputs =
        std::ranges::count(references, "-") + (hypothesis == "-" ? 1 : 0) + (source == "-" ? 1 : 0);
    if (inputs > 1) return UsageError("-, the standard input, can be one of the texts only");
    if (!hypothesis.empty() && !source.empty()) {
      return UsageError("--source is for a model; --hypothesis is scored as it is");
    }
    if (!hypothesis.empty()) DT_RETURN_IF_ERROR(translation.CheckNoneOfModel());
    if (!model_path.empty() && source.empty()) {
      return UsageError("--source is missing: the text to translate");
    }
    return OkStatus();
  }
};

StatusOr<std::string> ReadText(const std::string& path) {
  DT_ASSIGN_OR_RETURN(TextReader reader, TextReader::OpenInput(path));
  std::string text;
  TextLine line;
  for (;;) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.Next(line));
    if (!more) break;
    text.append(line.text).append("\n");
  }
  if (reader.had_byte_order_mark()) {
    LogWarning(reader.path() +
               ": begins with a byte order mark, which is left out; sacreBLEU counts it as a "
               "character of the first line");
  }
  return text;
}

// The lines of a file that the root has; mpirun gives it the standard input too.
StatusOr<std::vector<std::string>> ReadLines(const std::string& path, Communicator& comm) {
  const StatusOr<std::string> text = comm.is_root() ? ReadText(path) : std::string();
  DT_RETURN_IF_ERROR(ShareRootStatus(text.status(), "read " + path, comm));
  std::vector<std::string> lines = absl::StrSplit(BroadcastString(comm, *text), '\n');
  lines.pop_back();  // behind the last line's end
  return lines;
}

// What a model adds to the scores of its translations.
struct ModelResult {
  std::string checkpoint;
  int64_t step = 0;
  double nll = 0.0;  // per piece of the first reference
  double seconds = 0.0;
  // Lines that have more pieces than the model has positions.
  int64_t cut_sources = 0, cut_references = 0;
};

// Every rank translates each comm.size()-th line; all have all translations in the end.
StatusOr<std::vector<std::string>> TranslateOnRanks(const EvalFlags& flags,
                                                    const std::vector<std::string>& sources,
                                                    const std::vector<std::string>& references,
                                                    Runtime& runtime, ModelResult& result) {
  DT_ASSIGN_OR_RETURN(
      const TranslationModel trained,
      LoadTranslationModel(flags.model_path, flags.translation.LoadOptions(runtime.device)));
  result.checkpoint = trained.path;
  result.step = trained.step;
  Communicator& comm = runtime.comm;
  const auto ranks = static_cast<size_t>(comm.size());
  std::vector<std::string> own_sources;
  std::vector<std::string> own_references;
  for (auto i = static_cast<size_t>(comm.rank()); i < sources.size(); i += ranks) {
    own_sources.push_back(sources[i]);
    own_references.push_back(references[i]);
  }
  Context ctx(runtime.device, {.compute_type = trained.compute_type});
  const Timer timer;
  LineNotes source_notes;
  const auto translations =
      TranslateLines(*trained.model, *trained.tokenizer, own_sources,
                     flags.translation.SearchOptions(trained), ctx, &source_notes);
  result.cut_sources = static_cast<int64_t>(source_notes.cut.size());
  std::string text;
  for (const std::vector<Translation>& of_line : translations) text += of_line.front().text + "\n";
  const std::vector<std::string> texts = AllGatherStrings(comm, text);
  result.seconds = timer.Seconds();
  LineNotes reference_notes;
  const LossSums sums = ScoreLines(*trained.model, *trained.tokenizer, own_sources, own_references,
                                   flags.translation.batch_tokens, ctx, &reference_notes);
  result.cut_references = static_cast<int64_t>(reference_notes.cut.size());
  std::array<double, 4> totals = {sums.nll, static_cast<double>(sums.tokens),
                                  static_cast<double>(result.cut_sources),
                                  static_cast<double>(result.cut_references)};
  comm.AllReduce(std::span<double>(totals), ReduceOp::kSum);
  result.nll = totals[0] / totals[1];
  result.cut_sources = static_cast<int64_t>(totals[2]);
  result.cut_references = static_cast<int64_t>(totals[3]);
  if (comm.is_root() && result.cut_sources + result.cut_references > 0) {
    LogWarning(absl::StrFormat(
        "%d lines to translate and %d references were cut to the model's %d pieces: BLEU and chrF2 "
        "compare with whole references, nll and ppl with what is left",
        result.cut_sources, result.cut_references, trained.model->options().max_positions - 1));
  }

  std::vector<std::string> hypotheses(sources.size());
  std::vector<size_t> position(ranks, 0);
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string& of_rank = texts[i % ranks];
    size_t& begin = position[i % ranks];
    const size_t end = of_rank.find('\n', begin);
    hypotheses[i] = of_rank.substr(begin, end - begin);
    begin = end + 1;
  }
  return hypotheses;
}

Status CheckCounts(const EvalFlags& flags, size_t lines,
                   const std::vector<std::vector<std::string>>& references) {
  const std::string& path = flags.hypothesis.empty() ? flags.source : flags.hypothesis;
  if (lines == 0) return DataError(path + ": holds no line");
  for (size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() == lines) continue;
    return DataError(absl::StrFormat("%s has %d lines but %s has %d; they must pair up", path,
                                     lines, flags.references[r], references[r].size()));
  }
  return OkStatus();
}

void PrintResult(const EvalFlags& flags, const BleuScore& bleu, double chrf, size_t lines,
                 const std::optional<ModelResult>& model) {
  const int count = static_cast<int>(flags.references.size());
  const std::string bleu_signature = BleuSignature(count, {.lowercase = flags.lowercase});
  const std::string chrf_signature = ChrfSignature(count, {.lowercase = flags.lowercase});
  if (!flags.json) {
    std::printf("BLEU|%s = %.2f %s\n", bleu_signature.c_str(), bleu.score, bleu.Verbose().c_str());
    std::printf("chrF2|%s = %.2f\n", chrf_signature.c_str(), chrf);
    if (model) {
      std::printf("nll %s  ppl %s  (%s)\n", FormatNumber(model->nll, 4).c_str(),
                  FormatNumber(std::exp(model->nll), 2).c_str(), model->checkpoint.c_str());
      std::printf("%zu sentences in %.2f s: %.1f sentences/s\n", lines, model->seconds,
                  static_cast<double>(lines) / model->seconds);
    }
    return;
  }
  nlohmann::ordered_json json = {{"bleu", bleu.score},
                                 {"bleu_signature", bleu_signature},
                                 {"bleu_verbose", bleu.Verbose()},
                                 {"precisions", bleu.precisions},
                                 {"brevity_penalty", bleu.brevity_penalty},
                                 {"hypothesis_length", bleu.statistics.hypothesis_length()},
                                 {"reference_length", bleu.statistics.reference_length()},
                                 {"chrf2", chrf},
                                 {"chrf2_signature", chrf_signature},
                                 {"sentences", lines}};
  if (model) {
    json["nll"] = model->nll;
    json["ppl"] = std::exp(model->nll);
    json["checkpoint"] = model->checkpoint;
    json["step"] = model->step;
    json["seconds"] = model->seconds;
    json["cut_sources"] = model->cut_sources;
    json["cut_references"] = model->cut_references;
  }
  // A path need not be UTF-8.
  std::printf("%s\n", internal::JsonText(json).c_str());
}

Status Evaluate(const EvalFlags& flags, Runtime& runtime) {
  const std::string& path = flags.hypothesis.empty() ? flags.source : flags.hypothesis;
  DT_ASSIGN_OR_RETURN(std::vector<std::string> hypotheses, ReadLines(path, runtime.comm));
  std::vector<std::vector<std::string>> references;
  for (const std::string& reference : flags.references) {
    DT_ASSIGN_OR_RETURN(references.emplace_back(), ReadLines(reference, runtime.comm));
  }
  DT_RETURN_IF_ERROR(CheckCounts(flags, hypotheses.size(), references));
  std::optional<TextOutput> output;
  const auto open_output = [&]() -> Status {
    if (flags.output.empty() || !runtime.comm.is_root()) return OkStatus();
    std::vector<std::string> inputs = flags.references;
    inputs.push_back(path);
    DT_RETURN_IF_ERROR(CheckTextOutput(flags.output, inputs));
    DT_ASSIGN_OR_RETURN(output, TextOutput::Open(flags.output));
    return OkStatus();
  };
  // Before the work that it is for.
  DT_RETURN_IF_ERROR(ShareRootStatus(open_output(), "open --output", runtime.comm));
  std::optional<ModelResult> model;
  if (!flags.model_path.empty()) {
    model.emplace();
    DT_ASSIGN_OR_RETURN(hypotheses,
                        TranslateOnRanks(flags, hypotheses, references.front(), runtime, *model));
  }
  if (!runtime.comm.is_root()) return OkStatus();
  if (output) {
    for (const std::string& line : hypotheses) DT_RETURN_IF_ERROR(output->Write(line + "\n"));
    DT_RETURN_IF_ERROR(output->Close());
  }
  DT_ASSIGN_OR_RETURN(const BleuScore bleu,
                      CorpusBleu(hypotheses, references, {.lowercase = flags.lowercase}));
  const ChrfOptions chrf_options{.lowercase = flags.lowercase};
  DT_ASSIGN_OR_RETURN(const ChrfStatistics chrf, CountChrf(hypotheses, references, chrf_options));
  PrintResult(flags, bleu, ComputeChrf(chrf, chrf_options), hypotheses.size(), model);
  return OkStatus();
}

Status ParseEvalFlags(int argc, char** argv, FlagSet& set, EvalFlags& flags) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> positional, set.Parse(argc, argv));
  if (set.help_wanted()) return OkStatus();
  if (positional.size() > 1)
    return UsageError(
        "give one run directory or checkpoint at most; texts are --source=FILE, --reference=FILE "
        "and "
        "--hypothesis=FILE");
  if (!positional.empty()) flags.model_path = positional.front();
  return flags.Check();
}

}  // namespace

int EvalCommand(int argc, char** argv) {
  EvalFlags flags;
  FlagSet set(
      "dtrain eval RUN_OR_CHECKPOINT --source=FILE --reference=FILE\n"
      "       dtrain eval --hypothesis=FILE --reference=FILE",
      "BLEU and chrF2 as sacreBLEU computes them, of a model's translations or of a file; under "
      "mpirun the ranks share the translating");
  flags.AddTo(set);
  const Status parsed = ParseEvalFlags(argc, argv, set, flags);
  return RunCommand(argc, argv, set, parsed,
                    {.threads = static_cast<int>(flags.translation.threads)},
                    [&](Runtime& runtime) { return Evaluate(flags, runtime); });
}

}  // namespace dtrain
