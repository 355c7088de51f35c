// dtrain_tool_test.cc - prepare, train, translate, evaluate and export through the programs.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"
#include "tools/tiny_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Short translations make a quick test.
constexpr char kShort[] = " --extra_length=2 ";

TEST_CASE("translations come in the order of the lines, and empty lines stay empty") {
  const TinyRun& tiny = TinyRun::Get();
  WriteTestFile(tiny.Path("in"), "red house\n\n  \ngreen tree sees red house is red\ntree\r\n");
  const Outcome all =
      Tool("translate " + tiny.run + kShort + "--scores < " + tiny.Path("in") + " 2>/dev/null");
  REQUIRE(all.exit_code == 0);
  const std::vector<std::string> lines = Lines(all.output);
  REQUIRE(lines.size() == 5);
  CHECK(lines[1] == "\t0.0000\t0.0000");
  CHECK(lines[2] == lines[1]);
  const std::vector<std::string> texts = {"red house", "", "", "green tree sees red house is red",
                                          "tree"};
  for (const size_t i : {0u, 3u, 4u}) {
    const Outcome alone = Shell("printf '" + texts[i] + "' | " DTRAIN_TEST_TOOL " translate " +
                                tiny.run + kShort + "--scores");
    // The numbers come from products of other shapes, rounded otherwise in the last digits.
    const size_t tab = lines[i].find('\t');
    CHECK(alone.output.substr(0, tab + 1) == lines[i].substr(0, tab + 1));
    CHECK(std::stod(alone.output.substr(tab)) == Approx(std::stod(lines[i].substr(tab))));
  }
}

TEST_CASE("inspect says what a model folder is, and which weights each task would begin anew") {
  const TemporaryFolder folder;
  fs::copy_file(testing::GoldenPath("distilbert.safetensors"), folder.File("model.safetensors"));
  const auto describe = [&](const std::string& type) {
    WriteTestFile(folder.File("config.json"),
                  R"({"model_type": ")" + type +
                      R"(", "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 24,
                       "max_position_embeddings": 32})");
    return Tool("inspect " + folder.path() + " 2>&1");
  };
  std::string vocabulary = "[UNK]\n[CLS]\n[SEP]\n";
  for (int i = 3; i < 67; ++i) vocabulary += "p" + std::to_string(i) + "\n";
  WriteTestFile(folder.File("vocab.txt"), vocabulary);
  const Outcome known = describe("distilbert");
  INFO(known.output);
  CHECK(known.exit_code == 0);
  const std::vector<std::string> lines = Lines(known.output);
  REQUIRE(lines.size() == 8);
  CHECK(lines[0] == folder.path() + ": DistilBERT");
  CHECK_THAT(lines[1],
             Catch::Contains("1 layers of 16, 2 heads, ffn 24, texts of up to 32 tokens"));
  CHECK_THAT(lines[3], Catch::EndsWith("vocab.txt: WordPiece, 67 pieces"));
  CHECK_THAT(lines[4], Catch::Contains("bert_classify  all weights are here"));
  CHECK_THAT(lines[6], Catch::Contains("bert_squad     new weights: qa_outputs"));
  CHECK_THAT(lines[7],
             Catch::Contains("new weights: vocab_layer_norm, vocab_projector, vocab_transform"));

  const Outcome unknown = describe("modernbert-decoder");
  CHECK(unknown.exit_code == 7);
  CHECK_THAT(unknown.output, Catch::Contains("model_type is \"modernbert-decoder\""));
  CHECK(Tool("inspect 2>&1").exit_code == 2);
}

TEST_CASE("a pipe that stays open is answered line by line, in order") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string pipe = tiny.Path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string out = tiny.Path("answers");
  Job job("{ " DTRAIN_TEST_TOOL " translate " + tiny.run + kShort + "< " + pipe + " > " + out +
          " ; }");
  std::ofstream writer(pipe);
  const auto answers = [&] { return Lines(ReadTestFile(out)).size(); };
  const std::vector<std::string> texts = {"red house", "green tree", "", "tree sees house"};
  for (size_t i = 0; i < texts.size(); ++i) {
    writer << texts[i] << std::endl;
    INFO(texts[i]);
    REQUIRE(WaitUntil([&] { return answers() == i + 1; }, 30));
  }
  // Lines that come together are translated together, and the end of the input is no line.
  writer << "red\ngreen\nhouse" << std::flush;
  REQUIRE(WaitUntil([&] { return answers() == 6; }, 30));
  writer.close();
  CHECK(job.Wait().exit_code == 0);
  WriteTestFile(tiny.Path("in"), "red house\ngreen tree\n\ntree sees house\nred\ngreen\nhouse\n");
  CHECK(ReadTestFile(out) ==
        Tool("translate " + tiny.run + kShort + "< " + tiny.Path("in")).output);
}

TEST_CASE("a line without a visible character is translated to an empty one") {
  const TinyRun& tiny = TinyRun::Get();
  WriteTestFile(tiny.Path("in"), "red\n\t\n\xC2\xA0\n\n\xE2\x96\x81\n\xE2\x80\x8B \t\ntree\n");
  const std::vector<std::string> lines =
      Lines(Tool("translate " + tiny.run + kShort + "--scores < " + tiny.Path("in")).output);
  REQUIRE(lines.size() == 7);
  for (size_t i = 1; i < 6; ++i) CHECK(lines[i] == "\t0.0000\t0.0000");
  CHECK(lines[0] != lines[1]);
}

TEST_CASE("lines that are not UTF-8 are translated, named and counted, or fail by request") {
  const TinyRun& tiny = TinyRun::Get();
  WriteTestFile(tiny.Path("in"), std::string("red house\nred \xFF house\nred \0house\n", 33));
  const std::string command = "translate " + tiny.run + kShort + "--input=" + tiny.Path("in") +
                              " --output=" + tiny.Path("o");
  const Outcome replaced = Tool(command);
  CHECK(replaced.exit_code == 0);
  CHECK_THAT(
      replaced.output,
      Catch::Contains("in: 2 lines are not UTF-8 or hold NUL bytes, where U+FFFD replaces the "
                      "bad bytes (lines 2, 3)"));
  CHECK(Lines(ReadTestFile(tiny.Path("o"))).size() == 3);
  CHECK_THAT(Tool(command + " --invalid=skip").output, Catch::Contains("and count as empty"));
  CHECK(Lines(ReadTestFile(tiny.Path("o"))).at(1).empty());
  const Outcome failed = Tool(command + " --invalid=fail");
  CHECK(failed.exit_code == 3);
  CHECK_THAT(failed.output, Catch::Contains("in:2: invalid UTF-8"));
  CHECK_THAT(Tool(command + " --invalid=ignore").output,
             Catch::Contains("--invalid is one of replace, skip, fail, not \"ignore\""));
}

TEST_CASE("eval warns of a byte order mark, which sacreBLEU counts as text") {
  const TinyRun& tiny = TinyRun::Get();
  WriteTestFile(tiny.Path("bom"), "\xEF\xBB\xBF" + ReadTestFile(tiny.reference));
  const std::string command =
      "eval --reference=" + tiny.reference + " --hypothesis=" + tiny.Path("bom");
  const Outcome scored = Tool(command);
  CHECK(scored.exit_code == 0);
  CHECK_THAT(scored.output,
             Catch::Contains("bom: begins with a byte order mark, which is left out; "
                             "sacreBLEU counts it"));
  CHECK_THAT(Tool("eval --reference=" + tiny.reference + " --hypothesis=" + tiny.reference).output,
             !Catch::Contains("byte order mark"));
}

TEST_CASE("translations depend neither on the batch nor on the window") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string command = "translate " + tiny.run + kShort + "--input=" + tiny.source;
  const Outcome whole = Tool(command);
  REQUIRE(whole.exit_code == 0);
  CHECK(Lines(whole.output).size() == 30);
  CHECK(Tool(command + " --batch_tokens=1").output == whole.output);
  CHECK(Tool(command + " --batch_tokens=60 --window=7").output == whole.output);
  CHECK(Tool(command + " --threads=2").output == whole.output);
  CHECK(Tool(command + " --output=" + tiny.Path("out")).output.empty());
  CHECK(ReadTestFile(tiny.Path("out")) == whole.output);
}

TEST_CASE("an output named as if it were packed is refused and not made") {
  const TinyRun& tiny = TinyRun::Get();
  for (const std::string name : {"out.gz", "out.zst"}) {
    const Outcome refused = Tool("translate " + tiny.run + kShort + "--input=" + tiny.source +
                                 " --output=" + tiny.Path(name));
    CHECK(refused.exit_code == 2);
    CHECK(refused.output.find(name + ": text is written as it is, not packed") !=
          std::string::npos);
    CHECK_FALSE(std::filesystem::exists(tiny.Path(name)));
  }
}

TEST_CASE("the length normalisation is the run's unless --alpha says otherwise") {
  const TinyRun& tiny = TinyRun::Get();
  const auto scores = [&](const std::string& flag) {
    return Tool("translate " + tiny.run + kShort + "--scores " + flag + "< " + tiny.source).output;
  };
  const std::string by_default = scores("");
  CHECK(by_default == scores("--alpha=1.5 "));
  CHECK(by_default != scores("--alpha=0 "));
}

TEST_CASE("n-best lists name their line and fall in score") {
  const TinyRun& tiny = TinyRun::Get();
  WriteTestFile(tiny.Path("in"), "red house\n\ngreen tree\n");
  const Outcome best = Tool("translate " + tiny.run + kShort + "< " + tiny.Path("in"));
  const Outcome listed = Tool("translate " + tiny.run + kShort + "--n_best=3 < " + tiny.Path("in"));
  REQUIRE(listed.exit_code == 0);
  const std::vector<std::string> lines = Lines(listed.output);
  REQUIRE(lines.size() == 7);  // an empty line has one translation
  CHECK(lines[3] == "1 |||  ||| 0.0000");
  const auto text_of = [](const std::string& line) {
    return line.substr(6, line.rfind(" ||| ") - 6);
  };
  const auto score_of = [](const std::string& line) {
    return std::stod(line.substr(line.rfind(" ||| ") + 5));
  };
  for (const size_t first : {0u, 4u}) {
    CHECK(lines[first].substr(0, 6) == (first == 0 ? "0 ||| " : "2 ||| "));
    CHECK(text_of(lines[first]) == Lines(best.output)[first == 0 ? 0 : 2]);
    CHECK(score_of(lines[first]) >= score_of(lines[first + 1]));
    CHECK(score_of(lines[first + 1]) >= score_of(lines[first + 2]));
  }
}

TEST_CASE("eval has the figures of CorpusBleu, for a model and for a file") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string out = tiny.Path("eval.out");
  const Outcome model = Tool("eval " + tiny.run + kShort + "--source=" + tiny.source +
                             " --reference=" + tiny.reference + " --json --output=" + out);
  INFO(model.output);
  REQUIRE(model.exit_code == 0);
  CHECK(ReadTestFile(out) == Tool("translate " + tiny.run + kShort + "< " + tiny.source).output);
  const nlohmann::json of_model = nlohmann::json::parse(model.output);
  CHECK(of_model["step"] == 3);
  CHECK(of_model["nll"].get<double>() > 0.5);
  CHECK(of_model["nll"].get<double>() < 8);

  // Three updates translate nothing well: a file that is half right has a score to compare.
  const std::vector<std::string> references = Lines(ReadTestFile(tiny.reference));
  std::vector<std::string> hypotheses = references;
  for (size_t i = 0; i < hypotheses.size(); i += 3) hypotheses[i].insert(0, "ein Haus . ");
  std::string text;
  for (const std::string& line : hypotheses) text += line + "\n";
  WriteTestFile(out, text);
  const std::string files = "eval --hypothesis=" + out + " --reference=" + tiny.reference;
  const nlohmann::json json = nlohmann::json::parse(Tool(files + " --json").output);
  const BleuScore bleu = CorpusBleu(hypotheses, references).value();
  CHECK(bleu.score > 20);
  CHECK(json["bleu"].get<double>() == bleu.score);
  CHECK(json["chrf2"].get<double>() == CorpusChrf(hypotheses, references).value());
  CHECK(json["bleu_signature"] == BleuSignature(1));
  CHECK_THAT(Tool(files).output, Catch::StartsWith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|") &&
                                     Catch::Contains(" (BP = ") && Catch::Contains("\nchrF2|"));
}

TEST_CASE("the standard input is read from where it stands, once") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string translate = DTRAIN_TEST_TOOL " translate " + tiny.run + kShort;
  WriteTestFile(tiny.Path("lines"), "red\nhouse\ntree\n");
  const Outcome rest =
      Shell("{ read -r first; " + translate + " 2>/dev/null | wc -l; } < " + tiny.Path("lines"));
  CHECK(rest.output == "2\n");
  const Outcome both = Tool("eval --hypothesis=- --reference=- < " + tiny.Path("lines"));
  CHECK(both.exit_code == 2);
  CHECK_THAT(both.output, Catch::Contains("one of the texts only"));
}

TEST_CASE("TERM and the first interrupt end a translation") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string lines = tiny.Path("lines-that-never-come");
  REQUIRE(mkfifo(lines.c_str(), 0600) == 0);
  for (const std::string signal : {"TERM", "INT"}) {
    const Outcome outcome = Shell("timeout --foreground --kill-after=20 --signal=" + signal +
                                  " 1 " DTRAIN_TEST_TOOL " translate " + tiny.run + " <> " + lines);
    INFO(signal << ": " << outcome.output);
    CHECK(outcome.exit_code == 124);  // 137 where it had to be killed
  }
}

TEST_CASE("the mean of checkpoints is a model to translate, evaluate and export with") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string run = tiny.Path("averaged-run");
  const Outcome trained =
      Shell(DTRAIN_TEST_NMT_TRAIN " --config=" + tiny.run + "/config.textproto run.run_dir=" + run +
            " trainer.checkpoint_every=1u trainer.keep_last=3 --resume=never");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  const std::string mean = tiny.Path("mean");
  const Outcome averaged = Tool("average " + run + " " + mean);
  CHECK(averaged.exit_code == 0);
  CHECK_THAT(averaged.output, Catch::Contains("the mean of 3 checkpoints"));
  const Outcome translated =
      Tool("translate " + mean + kShort + "--input=" + tiny.source + " 2>/dev/null");
  CHECK(translated.exit_code == 0);
  CHECK(Lines(translated.output).size() == 30);
  CHECK(Tool("export-hf " + mean + " " + tiny.Path("mean-hf")).exit_code == 0);
  const Outcome again = Tool("average " + run + " " + mean);
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.output, Catch::Contains("is a checkpoint or a run"));
  const Outcome resumed =
      Shell(DTRAIN_TEST_NMT_TRAIN " --config=" + tiny.run +
            "/config.textproto run.run_dir=" + tiny.Path("from-mean") + " --resume=" + mean);
  CHECK(resumed.exit_code == 7);
  CHECK_THAT(resumed.output, Catch::Contains("state.json"));
}

TEST_CASE("a damaged checkpoint ends with code 7, a path to something else with code 2") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string copy = tiny.Path("copy");
  const auto fails = [&](const std::string& path, const std::string& why, int exit_code = 7) {
    const Outcome outcome = Tool("translate " + path + " < " + tiny.source);
    INFO(outcome.output);
    CHECK(outcome.exit_code == exit_code);
    CHECK_THAT(outcome.output,
               Catch::Contains("dtrain: error[E" + std::to_string(exit_code) + "]: ") &&
                   Catch::Contains(why));
  };
  const auto copy_again = [&] {
    fs::remove_all(copy);
    fs::copy(tiny.run + "/ckpt/step-00000003", copy, fs::copy_options::recursive);
  };
  copy_again();
  CHECK(Tool("translate " + copy + kShort + "< " + tiny.source).exit_code == 0);

  std::string weights = ReadTestFile(copy + "/model.safetensors");
  weights[weights.size() - 100] ^= 1;
  WriteTestFile(copy + "/model.safetensors", weights);
  fails(copy, "model.safetensors");

  copy_again();
  fs::remove(copy + "/vocab.spm");
  fails(copy, "vocab.spm");

  copy_again();
  fs::remove(copy + "/COMPLETE");
  fails(copy, "COMPLETE");

  // One that has another beside it is named once, with what is used instead.
  const std::string run = tiny.Path("half-damaged");
  fs::copy(tiny.run, run, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::copy(run + "/ckpt/step-00000003", run + "/ckpt/step-00000004", fs::copy_options::recursive);
  WriteTestFile(run + "/ckpt/step-00000004/model.safetensors", "");
  fs::remove(run + "/ckpt/best-loss");
  fs::create_symlink("step-00000004", run + "/ckpt/best-loss");
  const Outcome instead = Tool("translate " + run + kShort + "< " + tiny.source);
  CHECK(instead.exit_code == 0);
  CHECK(CountOf(instead.output, "warning: step-00000004") == 1);
  CHECK_THAT(instead.output, Catch::Contains("; step-00000003 is used instead"));

  fs::create_directories(tiny.Path("empty"));
  fails(tiny.Path("empty"), "neither a checkpoint nor a run", 2);
  fails(tiny.Path("absent"), "absent: no such run or checkpoint", 2);
  fails(tiny.source, "neither a checkpoint nor a run", 2);
  const Outcome mean = Tool("average " + tiny.Path("absent") + " " + tiny.Path("mean-of-none"));
  CHECK(mean.exit_code == 2);
  CHECK_THAT(mean.output, Catch::Contains("absent: no such run or checkpoint"));
  const Outcome flag = Tool("translate --run_dir=" + tiny.run);
  CHECK(flag.exit_code == 2);
  CHECK_THAT(flag.output, Catch::Contains("give the run directory alone, without a flag"));
}

TEST_CASE("bad text and bad flags end with codes 3 and 2 and one line that says what to do") {
  const TinyRun& tiny = TinyRun::Get();
  WriteTestFile(tiny.Path("bad"), "red\ngr\xfcn\n");
  WriteTestFile(tiny.Path("nul"), std::string("a\0b\n", 4));
  WriteTestFile(tiny.Path("short"), "rot\n");
  WriteTestFile(tiny.Path("nothing"), "");
  const std::string translate = "translate " + tiny.run + " --input=";
  const std::string eval = "eval " + tiny.run + " --source=";
  const std::string prepare = "prepare " + tiny.Path("p");
  struct Case {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const Case cases[] = {
      {translate + tiny.Path("bad") + " --invalid=fail", 3, "bad:2: invalid UTF-8"},
      {translate + tiny.Path("nul") + " --invalid=fail", 3, "nul:1: a NUL byte"},
      {translate + tiny.Path("absent"), 3, "absent: cannot be opened"},
      {translate + tiny.source + " --output=/no/such/folder/out", 7, "cannot be written"},
      {"translate", 2, "give one run directory or checkpoint"},
      {"translate " + tiny.run + " --beam=4", 2, "unknown flag; did you mean --beam_size?"},
      {"translate " + tiny.run + " --beam_size=0", 2, "--beam_size is 0"},
      {"translate " + tiny.run + " --n_best=5", 2, "--n_best is 5; it must be from 1 to 4"},
      {"translate " + tiny.run + " --precision=fp8", 2, "--precision is fp32 or bf16"},
      {"translate " + tiny.run + " --alpha=-1", 2, "--alpha is -1"},
      {eval + tiny.source, 2, "--reference is missing"},
      {eval + tiny.source + " --reference=" + tiny.Path("short"), 3, "30 lines but"},
      {eval + tiny.Path("nothing") + " --reference=" + tiny.Path("nothing"), 3, "holds no line"},
      {"eval --reference=" + tiny.reference, 2, "or --hypothesis"},
      {"eval --hypothesis=x --reference=y --alpha=2", 2, "--alpha is for a model; --hypothesis"},
      {"eval --hypothesis=x --reference=y --metric=foo", 2, "--metric is for a model"},
      {"average a b c --last=2", 2, "--last is of a run"},
      {prepare + " " + tiny.Path("q"), 2, "writes one folder, and is given"},
      {prepare + " --train_tsv=x --vocabulary=v --vocab_size=9", 2, "--vocab_size is of a vocab"},
      {prepare + " --train_tsv=x --split_digits --vocabulary=v", 2, "--split_digits is of a vocab"},
      {prepare, 2, "no training text"},
      {prepare + " --train_tsv=" + tiny.Path("absent"), 3, "cannot be opened"},
      {prepare + " --train_tsv=x --vocab_size=2", 2, "--vocab_size is 2"},
      {prepare + " --train_source=x", 2, "--train_target 0; they must pair up"},
      {prepare + " --train_tsv=x --split_digits --drop_copies=perhaps", 2, "--drop_copies=perhaps"},
      {"export-hf " + tiny.run, 2, "a folder to write"},
      {"estimate model.hiden_size=8", 2, "did you mean"},
      {"estimate --program=nmt_train model.num_heads=7", 2, "a multiple of model.num_heads (7)"},
      {"estimate --config=" + tiny.Path("absent"), 2, "absent"},
      {"estimate --ranks=0", 2, "--ranks is 0"},
      {"estimate --source_length=-1", 2, "--source_length, --target_length"},
      {"estimate --length_deviation=-1", 2, "--length_deviation are numbers of tokens"},
      {"estimate --flops=-1", 2, "--flops is not negative"},
      {"plan --nodes=2", 2, "give --step_seconds"},
      {"plan --step_seconds=1 --flops=1e9", 2, "give --step_seconds"},
      {"plan --step_seconds=1 --nodes=0", 2, "--nodes is 0"},
      {"plan --step_seconds=1 --network=fast", 2, "is no speed"},
      {"plan --step_seconds=1 --update_seconds=1", 2, "--update_seconds is a part"},
      {"plan --step_seconds=1 --overlap=2", 2, "--overlap is a share"},
      {"plan --step_seconds=1 model.hidden=7", 2, "did you mean model.hidden_size?"},
      {"plan --step_seconds=1 --doctor=" + tiny.Path("absent"), 2, "absent"},
      {"trace-merge", 2, "give one folder of traces"},
      {"trace-merge " + tiny.data, 2, "has no rank-*.json"},
      {"tranlate", 2, "unknown command \"tranlate\"; did you mean translate?"},
  };
  for (const Case& c : cases) {
    INFO(c.arguments);
    const Outcome outcome = Tool(c.arguments);
    INFO(outcome.output);
    CHECK(outcome.exit_code == c.exit_code);
    CHECK_THAT(outcome.output, Catch::StartsWith("dtrain: error[E") && Catch::Contains(c.message));
    CHECK(Lines(outcome.output).size() == 1);
  }
  CHECK_FALSE(fs::exists(tiny.Path("p")));
}

TEST_CASE("a result that cannot be printed is an error, a reader who goes away is none") {
  for (const std::string command : {"version", "help", "estimate data.vocab_size=640 "}) {
    INFO(command);
    const Outcome full = Tool(command + " >/dev/full");
    CHECK(full.exit_code == 7);
    CHECK_THAT(full.output, Catch::Contains("standard output cannot be written"));
  }
  const Outcome config = Shell(DTRAIN_TEST_NMT_TRAIN " --print_config=full >/dev/full");
  CHECK(config.exit_code == 7);
  CHECK_THAT(config.output, Catch::Contains("standard output cannot be written"));
  const Outcome head =
      Shell("bash -c 'set -o pipefail; " DTRAIN_TEST_NMT_TRAIN " --help_config | true'");
  CHECK(head.exit_code == 0);
  CHECK(head.output.empty());
}

TEST_CASE("an error leaves the output file as it was, and a pipe is never replaced") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string out = tiny.Path("kept");
  WriteTestFile(out, "kept\n");
  WriteTestFile(tiny.Path("bad"), "gr\xfcn\n");
  const Outcome failed = Tool("translate " + tiny.run + " --input=" + tiny.Path("bad") +
                              " --output=" + out + " --invalid=fail");
  CHECK(failed.exit_code == 3);
  CHECK(ReadTestFile(out) == "kept\n");
  CHECK_FALSE(fs::exists(out + ".partial"));

  const std::string fifo = tiny.Path("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const Outcome piped =
      Shell("timeout 20 cat " + fifo + " & timeout 20 " DTRAIN_TEST_TOOL " translate " + tiny.run +
            kShort + "--input=" + tiny.source + " --output=" + fifo + "; wait");
  CHECK(Lines(piped.output).size() == 30);
  CHECK(fs::is_fifo(fifo));
}

TEST_CASE("a translation is not written into a checkpoint") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string checkpoint = fs::canonical(tiny.run + "/ckpt/last").string();
  const std::string weights = ReadTestFile(checkpoint + "/model.safetensors");
  fs::create_symlink(checkpoint + "/model.safetensors", tiny.Path("link-to-model"));
  const std::string translate = "translate " + tiny.run + kShort + "--input=" + tiny.source;
  for (const std::string& output :
       {checkpoint + "/model.safetensors", tiny.run + "/ckpt/last/new.txt",
        tiny.run + "/ckpt/new.txt", tiny.Path("link-to-model")}) {
    const Outcome refused = Tool(translate + " --output=" + output);
    INFO(refused.output);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.output,
               Catch::Contains("--output: " + output + " is inside of a checkpoint"));
  }
  CHECK(ReadTestFile(checkpoint + "/model.safetensors") == weights);
  CHECK_FALSE(fs::exists(tiny.run + "/ckpt/new.txt"));
  CHECK(Tool(translate + " --output=" + tiny.run + "/translations.txt").exit_code == 0);
  fs::remove(tiny.run + "/translations.txt");
  CHECK(Shell(DTRAIN_TEST_TOOL " " + translate + " --output=/dev/stdout | wc -l").output == "30\n");
}

TEST_CASE("data are not prepared in a run's folder") {
  const TinyRun& tiny = TinyRun::Get();
  const Outcome refused =
      Tool("prepare " + tiny.run + " --overwrite --train_source=" + tiny.Path("train.en") +
           " --train_target=" + tiny.Path("train.de") + " --vocab_size=60");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, Catch::Contains("is a checkpoint or a run; name another"));
  CHECK_FALSE(fs::exists(tiny.run + "/train.bin"));
}

TEST_CASE("a file that is read is never written, whatever its name") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string text = tiny.Path("both");
  fs::create_symlink("both", tiny.Path("link-to-both"));
  fs::create_hard_link(tiny.reference, tiny.Path("other-name"));
  WriteTestFile(text, ReadTestFile(tiny.source));
  const std::string references = ReadTestFile(tiny.reference);
  for (const std::string& command :
       {"translate " + tiny.run + " --input=" + text + " --output=" + text,
        "translate " + tiny.run + " --output=" + text + " < " + text,
        "translate " + tiny.run + " --input=" + text + " --output=" + tiny.Path("link-to-both"),
        "eval " + tiny.run + " --source=" + text + " --reference=" + tiny.reference +
            " --output=" + text,
        "eval " + tiny.run + " --source=" + text + " --reference=" + tiny.reference +
            " --output=" + tiny.Path("other-name"),
        "eval --hypothesis=" + text + " --reference=" + tiny.reference + " --output=" + text}) {
    INFO(command);
    const Outcome refused = Tool(command);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.output,
               Catch::Contains("--output: ") && Catch::Contains("is also an input"));
    CHECK(ReadTestFile(text) == ReadTestFile(tiny.source));
    CHECK(ReadTestFile(tiny.reference) == references);
  }
  // Nor is one of the name that the output has until it is whole.
  WriteTestFile(tiny.Path("new.partial"), ReadTestFile(tiny.source));
  const Outcome partial = Tool("translate " + tiny.run + " --input=" + tiny.Path("new.partial") +
                               " --output=" + tiny.Path("new"));
  CHECK(partial.exit_code == 2);
  CHECK_THAT(partial.output, Catch::Contains("new.partial is also an input"));
  CHECK(ReadTestFile(tiny.Path("new.partial")) == ReadTestFile(tiny.source));
  // A device can be both.
  CHECK(Tool("translate " + tiny.run + " --input=/dev/null --output=/dev/null").exit_code == 0);
}

TEST_CASE("eval tells of lines that have more pieces than the model has positions") {
  const TinyRun& tiny = TinyRun::Get();
  std::string source = "a\n";
  const std::string reference = "b\nc\n";
  for (int i = 0; i < 3000; ++i) source += "x y ";
  WriteTestFile(tiny.Path("long.en"), source + "\n");
  WriteTestFile(tiny.Path("long.de"), reference);
  const Outcome cut = Tool("eval " + tiny.run + kShort + "--source=" + tiny.Path("long.en") +
                           " --reference=" + tiny.Path("long.de"));
  INFO(cut.output);
  CHECK(cut.exit_code == 0);
  CHECK_THAT(cut.output, Catch::Contains("1 lines to translate and 0 references were cut to the "
                                         "model's "));
}

TEST_CASE("lines longer than those of the training are named, and may be translated by sentence") {
  const TinyRun& tiny = TinyRun::Get();
  std::string longer;
  for (int i = 0; i < 28; ++i) longer += "7 7 7 7. ";
  WriteTestFile(tiny.Path("in"), "red\n" + longer + "\n7. 8.\n");
  const std::string translate = "translate " + tiny.run + kShort + "--input=" + tiny.Path("in");
  const Outcome whole = Tool(translate);
  INFO(whole.output);
  CHECK(whole.exit_code == 0);
  CHECK_THAT(
      whole.output,
      Catch::Contains("1 line (2) is longer than the 100 pieces that the model was trained") &&
          Catch::Contains("; --split_sentences translates each sentence by itself"));
  CHECK_THAT(Tool(translate + " --split_sentences=true").output, !Catch::Contains("pieces"));
  const Outcome split = Tool(translate + " --split_sentences=true 2>/dev/null");
  CHECK(split.exit_code == 0);
  const std::vector<std::string> lines = Lines(split.output);
  REQUIRE(lines.size() == 3);
  WriteTestFile(tiny.Path("parts"), "7.\n8.\n");
  const std::vector<std::string> parts = Lines(
      Tool("translate " + tiny.run + kShort + "--input=" + tiny.Path("parts") + " 2>/dev/null")
          .output);
  REQUIRE(parts.size() == 2);
  CHECK(lines[2] == parts[0] + " " + parts[1]);
  CHECK(Tool(translate + " --split_sentences=true --scores").exit_code == 2);
}

TEST_CASE("a published translator is inspected, translates, and is measured without a run") {
  const std::string folder = testing::GoldenPath("opus_tiny");
  const Outcome inspected = Tool("inspect " + folder + " 2>&1");
  INFO(inspected.output);
  REQUIRE(inspected.exit_code == 0);
  const std::vector<std::string> lines = Lines(inspected.output);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == folder + ": Marian");
  CHECK_THAT(lines[1], Catch::Contains("2 + 1 layers of 24, 3 heads, ffn 40, texts of up to 95"));
  CHECK_THAT(lines[3], Catch::EndsWith(": Marian, 115 pieces"));
  CHECK_THAT(lines[4], Catch::EndsWith("begin each source with one of >>deu<<, >>nld<<"));
  CHECK_THAT(lines[5], Catch::Contains("nmt_train      all weights are here"));

  const TinyRun& tiny = TinyRun::Get();
  const Outcome translated = Tool("translate " + folder + " --input=" + tiny.source);
  INFO(translated.output);
  REQUIRE(translated.exit_code == 0);
  CHECK(Lines(translated.output).size() == 30);
  const Outcome measured = Tool("eval " + folder + " --source=" + tiny.source +
                                " --reference=" + tiny.reference + " --json");
  CHECK(measured.exit_code == 0);
  CHECK(nlohmann::json::parse(measured.output)["nll"].get<double>() > 1.0);
}

TEST_CASE("a published translator searches with its own number of beams unless another is set") {
  const TinyRun& tiny = TinyRun::Get();
  const TemporaryFolder copy;
  const std::string folder = copy.File("model");
  std::filesystem::copy(testing::GoldenPath("opus_tiny"), folder);
  const auto translate = [&](int num_beams, const std::string& flags) {
    auto generation = nlohmann::json::parse(ReadTestFile(folder + "/generation_config.json"));
    generation["num_beams"] = num_beams;
    WriteTestFile(folder + "/generation_config.json", generation.dump());
    return Tool("translate " + folder + " --extra_length=10 --scores --input=" + tiny.source +
                flags)
        .output;
  };
  const std::string greedy = translate(6, " --beam_size=1");
  const std::string six = translate(1, " --beam_size=6");
  CHECK(greedy != six);
  CHECK(translate(1, "") == greedy);
  CHECK(translate(6, "") == six);
  const Outcome many = Tool("translate " + folder + " --n_best=7 --input=" + tiny.source + " 2>&1");
  CHECK(many.exit_code == 2);
  CHECK_THAT(many.output, Catch::Contains("--n_best is 7; it must be from 1 to 6"));
}

TEST_CASE("a run begins with a published translator and is exported in its form") {
  const std::string folder = testing::GoldenPath("opus_tiny");
  const TemporaryFolder out;
  WriteTestFile(out.File("train.tsv"), "The dialog\tDer Dialog\nthe computer\tder Computer\n");
  // A rate so low that no weight changes.
  const std::string train = DTRAIN_TEST_NMT_TRAIN " model.pretrained=" + folder +
                            " data.train_tsv=" + out.File("train.tsv") +
                            " data.max_length=90 data.hold_out_dev=0 data.hold_out_test=0"
                            " optimizer.learning_rate=1e-30 optimizer.schedule=constant"
                            " optimizer.warmup_steps=0 trainer.eval_every= trainer.max_steps=1"
                            " run.run_dir=";
  const Outcome trained = Shell(train + out.File("run") + " 2>&1");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  const Outcome exported = Tool("export-hf " + out.File("run") + " " + out.File("hf"));
  INFO(exported.output);
  REQUIRE(exported.exit_code == 0);
  for (const std::string name : {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json",
                                 "generation_config.json"}) {
    CHECK(ReadTestFile(out.File("hf/" + name)) == ReadTestFile(folder + "/" + name));
  }
  const auto theirs = nlohmann::json::parse(ReadTestFile(folder + "/config.json"));
  const auto ours = nlohmann::json::parse(ReadTestFile(out.File("hf/config.json")));
  for (const auto& [key, value] : theirs.items()) {
    INFO(key);
    CHECK((key == "dtype" || ours.value(key, nlohmann::json("missing")) == value));
  }
  const std::string input = " --beam_size=3 --input=" + out.File("source");
  WriteTestFile(out.File("source"), "The dialog is located on the computer.\n>>deu<< The dialog\n");
  const Outcome translated = Tool("translate " + folder + input);
  CHECK(translated.output == Tool("translate " + out.File("run") + input).output);
  CHECK(translated.output == Tool("translate " + out.File("hf") + input).output);

  // Another run goes on from the first; what it needs is in the checkpoint.
  const Outcome further = Shell(DTRAIN_TEST_NMT_TRAIN " model.init=" + out.File("run") +
                                " data.train_tsv=" + out.File("train.tsv") +
                                " data.max_length=90 data.hold_out_dev=0 data.hold_out_test=0"
                                " optimizer.learning_rate=1e-30 optimizer.schedule=constant"
                                " optimizer.warmup_steps=0 trainer.eval_every= trainer.max_steps=1"
                                " run.run_dir=" +
                                out.File("further") + " 2>&1");
  INFO(further.output);
  REQUIRE(further.exit_code == 0);
  REQUIRE(Tool("export-hf " + out.File("further") + " " + out.File("hf2")).exit_code == 0);
  CHECK(ReadTestFile(out.File("hf2/config.json")) == ReadTestFile(out.File("hf/config.json")));
  CHECK(ReadTestFile(out.File("hf2/model.safetensors")) ==
        ReadTestFile(out.File("hf/model.safetensors")));

  const auto refused = [&](const std::string& more) {
    return Shell(train + out.File("new") + " " + more + " 2>&1");
  };
  CHECK_THAT(refused("model.init=" + out.File("run")).output,
             Catch::Contains("model.init and model.pretrained both name weights"));
  CHECK_THAT(refused("data.vocabulary=" + folder).output,
             Catch::Contains("the vocabulary is that of model.pretrained"));
  CHECK_THAT(refused("model.pretrained=opus-mt-en-de").output,
             Catch::Contains("opus-mt-en-de: no such folder"));
  const Outcome other = Shell(DTRAIN_TEST_NMT_TRAIN " model.pretrained=" + folder +
                              " data.prepared=" + TinyRun::Get().data +
                              " data.max_length=90 trainer.eval_every= trainer.max_steps=1"
                              " run.run_dir=" +
                              out.File("other") + " 2>&1");
  CHECK(other.exit_code == 7);
  CHECK_THAT(other.output, Catch::Contains("prepare it with data.vocabulary=" + folder));
}

TEST_CASE("an export of a vocabulary of its own is a published translator, too") {
  const TinyRun& tiny = TinyRun::Get();
  const TemporaryFolder out;
  REQUIRE(Tool("export-hf " + tiny.run + " " + out.File("hf")).exit_code == 0);
  const std::string input = " --beam_size=1 --input=" + tiny.source;
  const Outcome ours = Tool("translate " + tiny.run + input);
  REQUIRE(ours.exit_code == 0);
  CHECK(Tool("translate " + out.File("hf") + input).output == ours.output);
}

TEST_CASE("export-hf writes a whole folder and refuses one that is in use") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string out = tiny.Path("hf");
  const Outcome exported = Tool("export-hf " + tiny.run + " " + out);
  INFO(exported.output);
  REQUIRE(exported.exit_code == 0);
  CHECK_THAT(exported.output, Catch::Contains("MarianMTModel"));
  const nlohmann::json config = nlohmann::json::parse(ReadTestFile(out + "/config.json"));
  const nlohmann::json vocabulary = nlohmann::json::parse(ReadTestFile(out + "/vocab.json"));
  CHECK(config["model_type"] == "marian");
  CHECK(config["vocab_size"].get<size_t>() == vocabulary.size());
  CHECK(config["decoder_start_token_id"] == vocabulary["<pad>"]);
  CHECK(config["eos_token_id"] == vocabulary["</s>"]);
  CHECK(ReadTestFile(out + "/source.spm") == ReadTestFile(tiny.data + "/vocab.spm"));
  for (const std::string name : {"model.safetensors", "target.spm", "tokenizer.json",
                                 "tokenizer_config.json", "generation_config.json"}) {
    CHECK(fs::file_size(fs::path(out) / name) > 0);
  }
  const Outcome again = Tool("export-hf " + tiny.run + " " + out);
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.output, Catch::Contains("is not empty"));
  CHECK(Tool("export-hf " + tiny.run + " " + out + " --overwrite").exit_code == 0);
}

}  // namespace
}  // namespace dtrain
