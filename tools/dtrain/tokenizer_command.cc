// tokenizer_command.cc - `dtrain tokenizer learn`: a tokenizer's vocabulary from raw text.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/utf8.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/config/nearest_name.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/learn_vocabulary.h"
#include "tools/dtrain/run_command.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

constexpr const char* kExample = "dtrain tokenizer learn --type=byte_bpe --output=DIR text.txt";

void AddLearnFlags(FlagSet& set, LearnFlags& flags) {
  set.Add("type", absl::StrJoin(LearnedTypes(), ", "), &flags.type);
  set.Add("vocab_size", "pieces of the vocabulary, special tokens included", &flags.vocab_size);
  set.Add("output", "the folder to write", &flags.output);
  set.Add("sentences", "learn from so many lines, drawn by chance; 0 takes all", &flags.sentences);
  set.Add("seed", "of the draw of --sentences", &flags.seed);
  set.Add("invalid", "lines that are not UTF-8 or hold NUL bytes: fail, replace or skip",
          &flags.invalid);
  set.Add("threads", "threads; 0 takes all cores", &flags.threads);
  set.Add("overwrite", "replace a vocabulary that is there", &flags.overwrite);
  set.Add("special",
          "byte_bpe, unigram: begin, padding, end, unknown, mask and any others: TOKEN,... "
          "(<s>,<pad>,</s>,<unk>,<mask>)",
          &flags.special);
  set.Add("min_frequency", "byte_bpe, wordpiece, bpe: pairs that occur less often do not merge",
          &flags.min_frequency);
  set.Add("character_coverage",
          "unigram, bpe: share of all characters in the vocabulary (unigram 0.9995, bpe 1)",
          &flags.character_coverage);
  set.Add("split_digits", "unigram, bpe: make every digit a piece of its own", &flags.split_digits);
  set.Add("byte_fallback", "bpe: spell unknown characters as bytes", &flags.byte_fallback);
  set.Add("lower_case", "wordpiece: make an uncased vocabulary; in training data.lower_case",
          &flags.lower_case);
  set.Add("accents",
          "wordpiece: with_capitals (taken off where capitals are), keep or strip; data.accents",
          &flags.accents);
  set.Add("tokenizer", "wordpiece: whose division into words: hf or google; data.tokenizer",
          &flags.tokenizer);
  set.Add("limit_alphabet", "wordpiece: characters in the vocabulary, the most frequent ones",
          &flags.limit_alphabet);
}

Status CheckChoice(std::string_view flag, const std::string& value,
                   const std::vector<std::string>& choices) {
  if (absl::c_linear_search(choices, value)) return OkStatus();
  return UsageError(absl::StrFormat("--%s is %s; it is one of %s", std::string(flag),
                                    Printable(value), absl::StrJoin(choices, ", ")));
}

// A flag that this type of vocabulary does not know would silently do nothing.
Status CheckFlagsOfType(const FlagSet& set, const std::string& type) {
  struct Owned {
    const char* flag;
    std::vector<std::string> types;
  };
  const std::array<Owned, 9> owned = {{{"special", {"byte_bpe", "unigram"}},
                                       {"min_frequency", {"byte_bpe", "wordpiece", "bpe"}},
                                       {"character_coverage", {"unigram", "bpe"}},
                                       {"split_digits", {"unigram", "bpe"}},
                                       {"byte_fallback", {"bpe"}},
                                       {"lower_case", {"wordpiece"}},
                                       {"accents", {"wordpiece"}},
                                       {"tokenizer", {"wordpiece"}},
                                       {"limit_alphabet", {"wordpiece"}}}};
  for (const Owned& entry : owned) {
    if (!set.is_given(entry.flag) || absl::c_linear_search(entry.types, type)) continue;
    return UsageError(absl::StrFormat("--%s is not for --type=%s; it is for %s", entry.flag, type,
                                      absl::StrJoin(entry.types, ", ")));
  }
  return OkStatus();
}

Status CheckLearnFlags(const LearnFlags& flags) {
  DT_RETURN_IF_ERROR(CheckChoice("accents", flags.accents, {"with_capitals", "keep", "strip"}));
  DT_RETURN_IF_ERROR(CheckChoice("tokenizer", flags.tokenizer, {"hf", "google"}));
  DT_RETURN_IF_ERROR(ParseInvalidText("--invalid", flags.invalid).status());
  DT_RETURN_IF_ERROR(CheckRange("vocab_size", flags.vocab_size, 6, 100'000'000));
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  DT_RETURN_IF_ERROR(CheckRange("min_frequency", flags.min_frequency, 1, kAny));
  DT_RETURN_IF_ERROR(CheckRange("limit_alphabet", flags.limit_alphabet, 1, 0x110000));
  DT_RETURN_IF_ERROR(CheckRange("sentences", flags.sentences, 0, kAny));
  DT_RETURN_IF_ERROR(CheckRange("seed", flags.seed, 0, kAny));
  return CheckRange("threads", flags.threads, 0, 4096);
}

Status ParseLearnFlags(int argc, char** argv, FlagSet& set, LearnFlags& flags) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> positional, set.Parse(argc, argv));
  if (set.help_wanted()) return OkStatus();
  if (positional.empty()) return UsageError(absl::StrFormat("say what to do: %s", kExample));
  if (positional.front() != "learn") {
    return UsageError(absl::StrFormat("dtrain tokenizer %s is not known; known is: %s",
                                      Printable(positional.front()), kExample));
  }
  flags.inputs.assign(positional.begin() + 1, positional.end());
  if (!set.is_given("type")) {
    return UsageError(
        absl::StrFormat("give --type, one of %s", absl::StrJoin(LearnedTypes(), ", ")));
  }
  DT_RETURN_IF_ERROR(CheckChoice("type", flags.type, LearnedTypes()));
  if (flags.output.empty()) return UsageError("give the folder to write: --output=DIR");
  if (flags.inputs.empty()) return UsageError(absl::StrFormat("no text: %s", kExample));
  DT_RETURN_IF_ERROR(CheckFlagsOfType(set, flags.type));
  return CheckLearnFlags(flags);
}

}  // namespace

int TokenizerCommand(int argc, char** argv) {
  LearnFlags flags;
  FlagSet set("dtrain tokenizer learn --type=TYPE --output=DIR [FLAGS] FILE...",
              "learns a tokenizer's vocabulary from text (UTF-8, plain, .gz or .zst; - is the "
              "standard input) and writes the files that training and transformers load:\n"
              "  byte_bpe   RoBERTa, GPT-2: tokenizer.json, tokenizer_config.json\n"
              "  unigram    XLM-R: the same, and tokenizer.spm, a SentencePiece model\n"
              "  wordpiece  BERT: vocab.txt\n"
              "  bpe        translation: tokenizer.spm, a SentencePiece model");
  AddLearnFlags(set, flags);
  const Status parsed = ParseLearnFlags(argc, argv, set, flags);
  return RunCommand(argc, argv, set, parsed, {}, [&](Runtime& runtime) -> Status {
    if (runtime.comm.size() > 1) {
      return UsageError("dtrain tokenizer is one process: start it without mpirun (see --threads)");
    }
    DT_ASSIGN_OR_RETURN(const std::string report, LearnVocabulary(flags));
    std::printf("%s\n", report.c_str());
    return OkStatus();
  });
}

}  // namespace dtrain
