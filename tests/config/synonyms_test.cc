// synonyms_test.cc - what users of other programs type leads to the key it is called here.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/synonyms.h"

#include <string>
#include <vector>

#include "dtrain/classification.pb.h"
#include "dtrain/config/command_line.h"
#include "dtrain/config/config.h"
#include "dtrain/language_model.pb.h"
#include "dtrain/nmt.pb.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using Names = std::vector<std::string>;

Names NmtKeys() { return ConfigKeys(*proto::NmtConfig::descriptor()); }
Names BertKeys() { return ConfigKeys(*proto::ClassificationConfig::descriptor()); }

TEST_CASE("names of Hugging Face, Marian, fairseq and OpenSeq2Seq are known") {
  const std::vector<std::pair<std::string, Names>> cases = {
      {"lr", {"optimizer.learning_rate"}},
      {"optimizer.lr", {"optimizer.learning_rate"}},
      {"num_train_epochs", {"trainer.max_epochs"}},
      {"epochs", {"trainer.max_epochs"}},
      {"after", {"trainer.max_epochs", "trainer.max_steps", "trainer.max_time"}},
      {"mini-batch", {"trainer.tokens_per_batch"}},
      {"batch_size", {"trainer.tokens_per_batch"}},
      {"max-tokens", {"trainer.tokens_per_batch"}},
      {"warmup", {"optimizer.warmup_steps"}},
      {"Seed", {"trainer.seed"}},
      {"fp16", {"trainer.precision=fp16"}},
      {"max_len", {"data.max_length"}},
      {"dim-emb", {"model.hidden_size"}},
      {"enc-depth", {"model.encoder_layers"}},
      {"lr_policy", {"optimizer.schedule"}},
      {"valid-sets", {"data.dev_source", "data.dev_target"}},
      {"output_dir", {"run.run_dir"}},
      {"zzz", {}},
      {"", {}},
  };
  for (const auto& [name, keys] : cases) {
    INFO(name);
    CHECK(KeysCalled(name, NmtKeys()) == keys);
  }
  CHECK(KeysCalled("per_device_train_batch_size", BertKeys()) ==
        Names{"trainer.batch_size", "trainer.tokens_per_batch"});
  CHECK(KeysCalled("model_name_or_path", BertKeys()) == Names{"model.pretrained"});
  CHECK(KeysCalled("hyp", {"hypothesis", "reference"}) == Names{"hypothesis"});
}

TEST_CASE("an unknown key is answered with its synonym, or with what is near") {
  proto::NmtConfig config;
  CHECK(ApplyOverride("optimizer.lr=3e-4", config).message() ==
        "optimizer.lr=3e-4: unknown key \"optimizer.lr\"; did you mean optimizer.learning_rate?");
  CHECK(MergeConfigText("trainer { epochs: 3 }", "f", "", config).message() ==
        "f:1:11: unknown field \"epochs\" in trainer; did you mean trainer.max_epochs?");
  CHECK(DidYouMeanKey("fp16", NmtKeys()) == "; did you mean trainer.precision=fp16?");
  CHECK(DidYouMeanKey("learning_rat", NmtKeys()) ==
        "; did you mean optimizer.learning_rate or optimizer.min_learning_rate?");
}

TEST_CASE("values of other programs lead to ours") {
  proto::NmtConfig config;
  CHECK_THAT(std::string(ApplyOverride("run.device=gpu", config).message()),
             Catch::EndsWith("is one of auto, cpu, cuda, not \"gpu\"; did you mean cuda?"));
  CHECK_THAT(std::string(ApplyOverride("trainer.precision=float16", config).message()),
             Catch::EndsWith("; did you mean fp16?"));
}

TEST_CASE("a word that is no assignment is answered with what was perhaps meant") {
  const TemporaryFolder folder;
  proto::NmtConfig config;
  const auto answer = [&](const std::string& word) {
    return std::string(ApplyOverride(word, config).message());
  };
  const std::string rule = ": an argument is either a --flag or key.path=value";
  CHECK(answer("train") == "train" + rule);
  CHECK(answer("trainer.max_steps") ==
        "trainer.max_steps" + rule + "; write key=value as one word, without spaces");
  CHECK(answer("=") == "=" + rule + "; write key=value as one word, without spaces");
  CHECK_THAT(
      answer(folder.Write("a", "text")),
      Catch::EndsWith("; a file is given by the key it is for: --help_config data lists them"));
  const std::string preset = folder.Write("tiny.textproto", "");
  CHECK_THAT(answer(preset), Catch::Contains("; a configuration is given by --config="));
  CHECK_THAT(std::string(MergeConfigFile(folder.File("tiny"), config).message()),
             Catch::EndsWith("; did you mean " + preset + "?"));
}

TEST_CASE("a flag that is a key, here or elsewhere, is answered with the key and its value") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--learning_rate=3e-4", "optimizer.learning_rate=3e-4"},
      {"--learning-rate=3e-4", "optimizer.learning_rate=3e-4"},
      {"--lr=3e-4", "optimizer.learning_rate=3e-4"},
      {"--optimizer.learning_rate=1", "optimizer.learning_rate=1"},
      {"--optimizer.lr=1", "optimizer.learning_rate=1"},
      {"--fp16", "trainer.precision=fp16"},
      {"--mini-batch=2000", "trainer.tokens_per_batch=2000"},
      {"--seed=7", "trainer.seed=7"},
      {"--warmup", "optimizer.warmup_steps=VALUE"},
      {"--after=10e", "trainer.max_epochs=10e or trainer.max_steps=10e or trainer.max_time=10e"},
  };
  for (const auto& [flag, answer] : cases) {
    const std::string typed = flag.substr(0, flag.find('='));
    const Status status = ParseCommandLine({flag}, NmtKeys()).status();
    CHECK(status.code() == ExitCode::kUsage);
    CHECK(status.message() == typed +
                                  ": unknown flag; it is a key of the configuration, which has no "
                                  "dashes: " +
                                  answer);
  }
  CHECK(ParseCommandLine({"--maxsteps=3"}, NmtKeys()).status().message() ==
        "--maxsteps: unknown flag; did you mean --max_steps? (see --help)");
}

TEST_CASE("a flag of keys that a program does not have is unknown to it, and not in its help") {
  const Names keys = ConfigKeys(*proto::LanguageModelConfig::descriptor());
  CHECK_THAT(ParseCommandLine({"--init=runs/a"}, keys).status().message(),
             Catch::Contains("--init: unknown flag"));
  CHECK(HelpText("lm_train", "", keys).find("--init") == std::string::npos);
  CHECK(ParseCommandLine({"--init=runs/a"}, BertKeys())->sources.overrides ==
        Names{"model.pretrained=runs/a"});
  CHECK_THAT(HelpText("nmt_train", "", NmtKeys()), Catch::Contains("--init=RUN"));
}

TEST_CASE("common names lead to a key that some program has") {
  Names keys = NmtKeys();
  const Names bert = BertKeys();
  keys.insert(keys.end(), bert.begin(), bert.end());
  for (const char* const name : {"lr",
                                 "min_lr",
                                 "scheduler",
                                 "warmup",
                                 "clip",
                                 "wd",
                                 "optim",
                                 "eps",
                                 "ema",
                                 "patience",
                                 "beam",
                                 "lenpen",
                                 "heads",
                                 "layers",
                                 "ffn",
                                 "relu_dropout",
                                 "vocab",
                                 "source_lang",
                                 "maxi_batch",
                                 "task_name",
                                 "text_column",
                                 "label_column",
                                 "num_labels",
                                 "do_lower_case",
                                 "resume_from_checkpoint",
                                 "no_cuda",
                                 "num_workers",
                                 "report_to",
                                 "save_steps",
                                 "save_total_limit",
                                 "logging_steps",
                                 "eval_steps",
                                 "metric_for_best_model",
                                 "gradient_checkpointing",
                                 "amp"}) {
    INFO(name);
    CHECK_FALSE(KeysCalled(name, keys).empty());
  }
}

}  // namespace
}  // namespace dtrain
