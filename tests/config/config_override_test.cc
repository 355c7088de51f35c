// config_override_test.cc - key.path=value: what each form does and how each mistake is answered.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "dtrain/config/config.h"
#include "dtrain/config/nearest_name.h"
#include "dtrain/nmt.pb.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

std::string Here(const std::string& path) {
  return (std::filesystem::current_path() / path).lexically_normal().string();
}

std::string OneLine(const proto::NmtConfig& config) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(config, &text);
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

struct Good {
  std::vector<std::string> overrides;
  std::string expected;  // the whole configuration, on one line
};

TEST_CASE("an override sets exactly the field it names") {
  const Good cases[] = {
      {{"model.hidden_size=128"}, "model { hidden_size: 128 }"},
      {{"model.hidden_size=+128"}, "model { hidden_size: 128 }"},
      {{"trainer.max_steps=0"}, "trainer { max_steps: 0 }"},
      {{"trainer.max_steps=9223372036854775807"}, "trainer { max_steps: 9223372036854775807 }"},
      {{"trainer.seed=18446744073709551615"}, "trainer { seed: 18446744073709551615 }"},
      {{"model.dropout=.3"}, "model { dropout: 0.3 }"},
      {{"model.dropout=0"}, "model { dropout: 0 }"},
      {{"optimizer.learning_rate=4e-3"}, "optimizer { learning_rate: 0.004 }"},
      {{"optimizer.epsilon=1e-9"}, "optimizer { epsilon: 1e-09 }"},
      {{"model.tie_output=false"}, "model { tie_output: false }"},
      {{"model.tie_output=1"}, "model { tie_output: true }"},
      {{"model.activation=gelu_tanh"}, "model { activation: gelu_tanh }"},
      {{"model.norm=pre"}, "model { norm: pre }"},
      {{"trainer.precision=bf16"}, "trainer { precision: bf16 }"},
      {{"trainer.recompute=cheap"}, "trainer { recompute: cheap }"},
      {{"run.progress=auto"}, "run { progress: auto }"},
      {{"run.device=auto"}, "run { device: auto }"},
      {{"optimizer.schedule=linear_to_budget"}, "optimizer { schedule: linear_to_budget }"},
      {{"trainer.early_stop.metric=chrf"}, "trainer { early_stop { metric: chrf } }"},
      {{"trainer.early_stop.patience=5", "trainer.early_stop.min_delta=0.5"},
       "trainer { early_stop { patience: 5 min_delta: 0.5 } }"},
      {{"trainer.max_time=12m"}, "trainer { max_time: \"12m\" }"},
      {{"trainer.eval_every=500u"}, "trainer { eval_every: \"500u\" }"},
      {{"trainer.eval_every="}, "trainer { eval_every: \"\" }"},
      {{"trainer.eval_every=\"1e\""}, "trainer { eval_every: \"1e\" }"},
      {{"data.source_language=a=b"}, "data { source_language: \"a=b\" }"},
      {{"run.run_dir=runs/a"}, "run { run_dir: \"" + Here("runs/a") + "\" }"},
      {{"run.run_dir=/tmp/x/../y/"}, "run { run_dir: \"/tmp/y\" }"},
      {{"run.resume=never"}, "run { resume: \"never\" }"},
      {{"run.resume=ckpt/last"}, "run { resume: \"" + Here("ckpt/last") + "\" }"},
      {{"data.train_source=/a.en"}, "data { train_source: \"/a.en\" }"},
      {{"data.train_source=/a.en,/b.en"},
       "data { train_source: \"/a.en\" train_source: \"/b.en\" }"},
      {{"data.train_source=[/a.en,/b.en]"},
       "data { train_source: \"/a.en\" train_source: \"/b.en\" }"},
      {{"data.train_source=\"/a,b.en\",/c.en"},
       "data { train_source: \"/a,b.en\" train_source: \"/c.en\" }"},
      {{"data.train_source=/a.en", "data.train_source=/b.en"}, "data { train_source: \"/b.en\" }"},
      {{"data.train_source=/a.en", "data.train_source+=/b.en"},
       "data { train_source: \"/a.en\" train_source: \"/b.en\" }"},
      {{"data.train_source=/a.en", "data.train_source="}, "data { }"},
      {{"model.hidden_size=1", "model.hidden_size=2"}, "model { hidden_size: 2 }"},
      {{R"(data.sources={tsv: "/a.tsv" weight: 2})"},
       R"(data { sources { tsv: "/a.tsv" weight: 2 } })"},
      {{R"(data.sources=[{tsv: "/a.tsv"}, {tsv: "b.tsv", tag: "<b>"}])"},
       R"(data { sources { tsv: "/a.tsv" } sources { tsv: ")" + Here("b.tsv") +
           R"(" tag: "<b>" } })"},
      {{R"(data.sources={tsv: "/a.tsv"})", R"(data.sources+={tsv: "/b.tsv"})"},
       R"(data { sources { tsv: "/a.tsv" } sources { tsv: "/b.tsv" } })"},
      {{R"(data.sources={tsv: "/a.tsv"})", R"(data.sources={tsv: "/b.tsv"})"},
       R"(data { sources { tsv: "/b.tsv" } })"},
      {{R"(data.sources={tsv: "/a.tsv"})", "data.sources="}, "data { }"},
      {{R"(data.sources={tsv: "/a.tsv"})", "data.sources=[]"}, "data { }"},
  };
  for (const Good& c : cases) {
    proto::NmtConfig config;
    for (const std::string& text : c.overrides) {
      INFO(text);
      const Status status = ApplyOverride(text, config);
      REQUIRE(std::string(status.message()) == "");
    }
    CHECK(OneLine(config) == c.expected);
  }
}

struct Bad {
  std::string text;
  std::string message;
};

TEST_CASE("a wrong override says what it should be and changes nothing") {
  const Bad cases[] = {
      {"model.hiden_size=512",
       "model.hiden_size=512: unknown key \"model.hiden_size\"; did you mean model.hidden_size?"},
      {"hidden_size=512",
       "hidden_size=512: unknown key \"hidden_size\"; did you mean model.hidden_size?"},
      {"trainer.learning_rate=1",
       "trainer.learning_rate=1: unknown key \"trainer.learning_rate\"; did you mean "
       "optimizer.learning_rate?"},
      {"Model.Dropout=0.1",
       "Model.Dropout=0.1: unknown key \"Model.Dropout\"; did you mean model.dropout?"},
      {"model.drop=0.1",
       "model.drop=0.1: unknown key \"model.drop\"; did you mean model.dropout, "
       "model.attention_dropout or model.activation_dropout?"},
      {"zzzzz=1", "zzzzz=1: unknown key \"zzzzz\""},
      {"model..dropout=1",
       "model..dropout=1: unknown key \"model..dropout\"; did you mean model.dropout?"},
      {".=1", ".=1: unknown key \".\""},
      {"model=3",
       "model=3: model is a section; set one of its fields, such as "
       "model.encoder_layers"},
      {"model.dropout.x=3", "model.dropout.x=3: model.dropout is a value and has no field \"x\""},
      {"data.sources.weight=3",
       "data.sources.weight=3: data.sources is a list of sections; set all of it, "
       "'data.sources=[{...}, {...}]', or append one, 'data.sources+={...}'"},
      {"data.sources=/a.tsv",
       "data.sources=/a.tsv: field sources: Expected \"{\", found \"/\". Settings are written: "
       "trainer { max_steps: 100 }; sections are written "
       "'data.sources=[{name: \"text\" name: 2}, {...}]'"},
      {R"(data.sources={wieght: 3})",
       "data.sources={wieght: 3}: unknown field \"wieght\" in sources; sections are written "
       "'data.sources=[{name: \"text\" name: 2}, {...}]'"},
      {"model.num_heads=eight",
       "model.num_heads=eight: model.num_heads is a whole number (int32), not \"eight\""},
      {"model.num_heads=8.0",
       "model.num_heads=8.0: model.num_heads is a whole number (int32), not \"8.0\""},
      {"model.num_heads=", "model.num_heads=: model.num_heads is a whole number (int32), not \"\""},
      {"model.num_heads= 8",
       "model.num_heads= 8: model.num_heads is a whole number (int32), not \" 8\""},
      {"model.num_heads=3000000000",
       "model.num_heads=3000000000: model.num_heads is a whole number (int32); 3000000000 is out "
       "of its range"},
      {"trainer.seed=-1",
       "trainer.seed=-1: trainer.seed is a whole number, not negative (uint64), not \"-1\""},
      {"model.dropout=0,1", "model.dropout=0,1: model.dropout is a number (float), not \"0,1\""},
      {"model.dropout=nan", "model.dropout=nan: model.dropout is a number (float), not \"nan\""},
      {"model.dropout=1e99",
       "model.dropout=1e99: model.dropout is a number (float); 1e99 is out of its range"},
      {"model.tie_output=yes",
       "model.tie_output=yes: model.tie_output is true or false, not "
       "\"yes\""},
      {"model.activation=gelu",
       "model.activation=gelu: model.activation is one of relu, gelu_erf, gelu_tanh, swish, not "
       "\"gelu\"; did you mean gelu_erf?"},
      {"model.activation=RELU",
       "model.activation=RELU: model.activation is one of relu, gelu_erf, gelu_tanh, swish, not "
       "\"RELU\"; did you mean relu?"},
      {"trainer.precision=fp8",
       "trainer.precision=fp8: trainer.precision is one of fp32, bf16, fp16, not \"fp8\"; did you "
       "mean fp32 or fp16?"},
      {"model.dropout+=0.1", "model.dropout+=0.1: model.dropout is not a list; use ="},
      {"model.dropout",
       "model.dropout: an argument is either a --flag or key.path=value; write key=value as one "
       "word, without spaces"},
      {"=3",
       "=3: an argument is either a --flag or key.path=value; write key=value as one "
       "word, without spaces"},
      {"", ": an argument is either a --flag or key.path=value"},
      {"+=3", "+=3: unknown key \"\""},
  };
  for (const Bad& c : cases) {
    INFO(c.text);
    proto::NmtConfig config;
    config.mutable_model()->set_num_heads(7);
    const Status status = ApplyOverride(c.text, config);
    CHECK(std::string(status.message()) == c.message);
    CHECK(status.code() == ExitCode::kUsage);
    CHECK(OneLine(config) == "model { num_heads: 7 }");
  }
}

TEST_CASE("a very long override is cut in the message") {
  proto::NmtConfig config;
  const Status status = ApplyOverride("model.num_heads=" + std::string(1 << 20, 'x'), config);
  CHECK(status.message().size() < 400);
  CHECK(status.code() == ExitCode::kUsage);
}

TEST_CASE("values outside the range of their field are named with the range") {
  const Bad cases[] = {
      {"model.dropout=1", "model.dropout is 1; it must be at least 0 and below 1"},
      {"model.dropout=-0.5", "model.dropout is -0.5; it must be at least 0 and below 1"},
      {"model.encoder_layers=0",
       "model.encoder_layers is 0; it must be at least 1 and at most 1000"},
      {"optimizer.learning_rate=0", "optimizer.learning_rate is 0; it must be above 0"},
      {"trainer.keep_last=0", "trainer.keep_last is 0; it must be at least 1"},
      {"trainer.early_stop.patience=-1",
       "trainer.early_stop.patience is -1; it must be at least 0"},
      {"data.vocab_size=2", "data.vocab_size is 2; it must be at least 8 and at most 1000000"},
  };
  for (const Bad& c : cases) {
    proto::NmtConfig config;
    const Status status = LoadConfig({.files = {}, .overrides = {c.text}}, config);
    CHECK(std::string(status.message()) == c.message);
    CHECK(status.code() == ExitCode::kUsage);
  }
  proto::NmtConfig config;
  CHECK(LoadConfig({.files = {}, .overrides = {"model.layer_norm_epsilon=0.1"}}, config).ok());
}

TEST_CASE("values of a list's sections are checked like others, and the item is named") {
  for (const auto& [weight, shown] : {std::pair("0", "0"), {"-2", "-2"}, {"nan", "nan"}}) {
    proto::NmtConfig config;
    const Status status =
        LoadConfig({.files = {},
                    .overrides = {std::string(R"(data.sources=[{tsv: "/a"}, {tsv: "/b" weight: )") +
                                  weight + "}]"}},
                   config);
    CHECK(status.code() == ExitCode::kUsage);
    CHECK(std::string(status.message()) == std::string("data.sources, item 2: weight is ") + shown +
                                               "; it must be above 0 and at most 1e+09");
  }
  proto::NmtConfig config;
  config.mutable_data()->add_sources()->add_tsv("");
  CHECK(std::string(CheckRules(config).message()) == "data.sources, item 1: tsv: item 1 is empty");
  config.mutable_data()->mutable_sources(0)->set_tsv(0, "/a");
  config.mutable_data()->mutable_sources(0)->set_tag("\xFF");
  CHECK(std::string(CheckRules(config).message()) == "data.sources, item 1: tag is not UTF-8");
}

TEST_CASE("a wrong period or duration is named with its field") {
  proto::NmtConfig config;
  CHECK_THAT(
      std::string(
          LoadConfig({.files = {}, .overrides = {"trainer.eval_every=500"}}, config).message()),
      Catch::StartsWith("trainer.eval_every: \"500\" is not a period: it has no unit"));
  proto::NmtConfig other;
  CHECK_THAT(
      std::string(
          LoadConfig({.files = {}, .overrides = {"trainer.max_time=soon"}}, other).message()),
      Catch::StartsWith("trainer.max_time: \"soon\" is not a length of time"));
}

TEST_CASE("a path that may be a word is not empty") {
  proto::NmtConfig config;
  const Status status = LoadConfig({.files = {}, .overrides = {"run.resume="}}, config);
  CHECK(status.code() == ExitCode::kUsage);
  CHECK(std::string(status.message()) == "run.resume is empty; it must be auto, never or a path");
}

TEST_CASE("an empty path in a list, or for a configuration, is named") {
  const auto refusal = [](const ConfigSources& sources) {
    proto::NmtConfig config;
    const Status status = LoadConfig(sources, config);
    CHECK(status.code() == ExitCode::kUsage);
    return std::string(status.message());
  };
  CHECK(refusal({.files = {}, .overrides = {"data.train_source=a.txt,"}}) ==
        "data.train_source: item 2 is empty");
  CHECK(refusal({.files = {}, .overrides = {"data.train_source=,a.txt"}}) ==
        "data.train_source: item 1 is empty");
  CHECK(refusal({.files = {""}, .overrides = {}}) == "--config is empty; give a file");
}

TEST_CASE("text is UTF-8, and a path any bytes") {
  proto::NmtConfig config;
  const Status status =
      LoadConfig({.files = {}, .overrides = {"data.target_language=caf\xe9"}}, config);
  CHECK(status.code() == ExitCode::kUsage);
  CHECK(std::string(status.message()) == "data.target_language is not UTF-8");
  proto::NmtConfig path;
  CHECK(LoadConfig({.files = {}, .overrides = {"data.train_source=caf\xe9"}}, path).ok());
}

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps") {
  CHECK(EditDistance("", "") == 0);
  CHECK(EditDistance("abc", "") == 3);
  CHECK(EditDistance("kitten", "sitting") == 3);
  CHECK(EditDistance("ab", "ba") == 1);
  CHECK(EditDistance("dropuot", "dropout") == 1);
}

}  // namespace
}  // namespace dtrain
