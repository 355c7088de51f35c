// prepare_command.cc - `dtrain prepare OUT_DIR ...`: raw parallel text to a folder of shards.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "dtrain/config/config.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/runs/output_folder.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/tasks/translation/options.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

// A flag that sets the field of the same name, so that names, ranges and defaults are those of
// `nmt_train data.NAME=...`.
struct FieldFlag {
  const char* field;  // below data
  const char* help;
  std::vector<std::string> values = {};
};

struct PrepareFlags {
  std::vector<FieldFlag> fields = {
      {"train_source", "training text, source side: FILE,... or given several times"},
      {"train_target", "training text, target side, a file for each of --train_source"},
      {"train_tsv",
       "training text, source and target as the first two columns, instead of the two: FILE,..."},
      {"train_tmx", "training text, translation memories: FILE,..."},
      {"train_jsonl", "training text, JSON lines with a text for each language: FILE,..."},
      {"train_prefix", "training text, PREFIX.en and PREFIX.de by the two languages: PREFIX,..."},
      {"sources",
       "training texts with weights and tags, instead: '{tsv: \"FILE\" weight: 2}', given once for "
       "each"},
      {"source_language", "of translation memories, JSON lines and prefixes"},
      {"target_language", "of translation memories, JSON lines and prefixes"},
      {"dev_source", "dev text, source side"},
      {"dev_target", "dev text, target side"},
      {"dev_tsv", "dev text, both sides, instead of the two"},
      {"dev_tmx", "dev text, a translation memory"},
      {"dev_jsonl", "dev text, JSON lines"},
      {"dev_prefix", "dev text, PREFIX.en and PREFIX.de"},
      {"test_source", "test text, source side"},
      {"test_target", "test text, target side"},
      {"test_tsv", "test text, both sides, instead of the two"},
      {"test_tmx", "test text, a translation memory"},
      {"test_jsonl", "test text, JSON lines"},
      {"test_prefix", "test text, PREFIX.en and PREFIX.de"},
      {"hold_out_dev", "training pairs held out where no dev text is given"},
      {"hold_out_test", "training pairs held out where no test text is given"},
      {"vocab_size", "pieces of the joint vocabulary"},
      {"vocabulary", "a SentencePiece BPE model to use instead of learning one"},
      {"character_coverage", "share of all characters in the vocabulary"},
      {"byte_fallback", "spell unknown characters as bytes"},
      {"split_digits", "make every digit a piece of its own"},
      {"max_length", "longest side in pieces"},
      {"cleaning.max_words", "longest side in words"},
      {"cleaning.max_word_bytes", "longest word in bytes"},
      {"cleaning.max_length_ratio", "largest ratio of the sides' lengths"},
      {"cleaning.min_letter_ratio", "smallest share of letters"},
      {"cleaning.drop_copies", "drop pairs whose sides are equal"},
      {"cleaning.drop_number_mismatch", "drop pairs with different numbers"},
      {"cleaning.drop_duplicates", "drop repeated pairs"},
      {"cleaning.drop_evaluation_overlap", "drop pairs seen in dev or test"},
      {"cleaning.max_invalid_fraction", "share of broken lines that is an error"}};
  int64_t threads = 0;
  bool overwrite = false;
  PrepareOptions options;

  void AddTo(FlagSet& flags) {
    for (FieldFlag& field : fields) {
      const std::string value = DefaultText(proto::DataConfig::default_instance(), field.field);
      const bool is_empty = value == "[]" || value == "\"\"";
      const std::string help = is_empty ? field.help : absl::StrCat(field.help, " (", value, ")");
      if (value == "true" || value == "false") {
        flags.AddSwitch(FlagName(field), help, &field.values);
      } else {
        flags.Add(FlagName(field), help, &field.values);
      }
    }
    flags.Add("threads", "threads; 0 takes all cores", &threads);
    flags.Add("overwrite", "replace what an earlier preparation left in OUT_DIR", &overwrite);
  }

  static std::string FlagName(const FieldFlag& field) {
    const std::string name = field.field;
    return name.substr(name.find('.') + 1);
  }
};

// A message about data.NAME, about --NAME.
Status NamingFlags(const Status& status, const PrepareFlags& flags) {
  if (status.ok()) return status;
  std::vector<std::pair<std::string, std::string>> names;
  for (const FieldFlag& flag : flags.fields) {
    names.emplace_back(absl::StrCat("data.", flag.field),
                       absl::StrCat("--", PrepareFlags::FlagName(flag)));
  }
  return UsageError(absl::StrReplaceAll(status.message(), names));
}

Status ApplyFlags(const PrepareFlags& flags, proto::NmtConfig& config) {
  for (const FieldFlag& flag : flags.fields) {
    const std::string_view name = flag.field;
    const bool is_list = name.starts_with("train_") || name == "sources";
    if (flag.values.size() > 1 && !is_list) {
      return UsageError(absl::StrFormat("--%s is given twice", PrepareFlags::FlagName(flag)));
    }
    for (const std::string& value : flag.values) {
      DT_RETURN_IF_ERROR(ApplyOverride(
          absl::StrFormat("data.%s%s%s", flag.field, is_list ? "+=" : "=", value), config));
    }
  }
  return CheckRules(config);
}

// A vocabulary is given or learned.
Status CheckVocabularyFlags(const PrepareFlags& flags) {
  const auto is_given = [&](std::string_view name) {
    return absl::c_any_of(flags.fields, [&](const FieldFlag& flag) {
      return flag.field == name && !flag.values.empty();
    });
  };
  if (!is_given("vocabulary")) return OkStatus();
  for (const char* learned :
       {"vocab_size", "character_coverage", "byte_fallback", "split_digits"}) {
    if (!is_given(learned)) continue;
    return UsageError(
        absl::StrFormat("--%s is of a vocabulary that is learned, and --vocabulary gives one: "
                        "leave one of them out",
                        learned));
  }
  return OkStatus();
}

Status ParsePrepareFlags(int argc, char** argv, FlagSet& set, PrepareFlags& flags) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> positional, set.Parse(argc, argv));
  if (set.help_wanted()) return OkStatus();
  constexpr const char* kExample = "dtrain prepare OUT_DIR --train_tsv=pairs.tsv";
  if (positional.empty()) {
    return UsageError(absl::StrCat("give the folder to write: ", kExample));
  }
  if (positional.size() > 1) {
    return UsageError(absl::StrFormat("dtrain prepare writes one folder, and is given %s: %s",
                                      absl::StrJoin(positional, " and "), kExample));
  }
  DT_RETURN_IF_ERROR(CheckVocabularyFlags(flags));
  DT_RETURN_IF_ERROR(CheckRange("threads", flags.threads, 0, 4096));
  proto::NmtConfig config;
  DT_RETURN_IF_ERROR(NamingFlags(ApplyFlags(flags, config), flags));
  if (!HasTrainingText(config.data())) {
    return UsageError(
        "no training text: give --train_source and --train_target, or --train_tsv, --train_tmx, "
        "--train_jsonl or --train_prefix, or --sources");
  }
  DT_RETURN_IF_ERROR(NamingFlags(ValidateDataConfig(config.data()), flags));
  flags.options = PrepareOptionsOf(config.data(), positional.front());
  flags.options.num_threads = static_cast<int>(flags.threads);
  flags.options.overwrite = flags.overwrite;
  return OkStatus();
}

}  // namespace

int PrepareCommand(int argc, char** argv) {
  PrepareFlags flags;
  FlagSet set("dtrain prepare OUT_DIR [FLAGS]",
              "cleans parallel text (UTF-8, plain, .gz or .zst), learns a joint vocabulary and "
              "writes shards to train from");
  flags.AddTo(set);
  const Status parsed = ParsePrepareFlags(argc, argv, set, flags);
  return RunCommand(argc, argv, set, parsed, {}, [&](Runtime& runtime) -> Status {
    if (runtime.comm.size() > 1) {
      return UsageError("dtrain prepare is one process: start it without mpirun (see --threads)");
    }
    DT_RETURN_IF_ERROR(CheckIsNoCheckpoint(flags.options.output_dir));
    DT_ASSIGN_OR_RETURN(const PrepareReport report, PrepareParallelCorpus(flags.options));
    const std::string text = report.Describe();
    std::printf("%s%s", text.c_str(), text.ends_with('\n') ? "" : "\n");
    return OkStatus();
  });
}

}  // namespace dtrain
