// dtrain_tool_test.cc - prepare, train, translate, evaluate and export through the programs.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code = -1;
  std::string output;  // of stdout, and of stderr unless the command sends it elsewhere
};

Outcome Shell(const std::string& command) {
  Outcome outcome;
  const std::string line = "export OMP_NUM_THREADS=1; { " + command + " ; } 2>&1";
  std::FILE* const pipe = popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  for (size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome Tool(const std::string& arguments) { return Shell(DTRAIN_TEST_TOOL " " + arguments); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A few words on both sides, line by line different.
std::string Corpus(int lines, const std::vector<std::string>& words) {
  std::ostringstream text;
  for (int i = 0; i < lines; ++i) {
    for (int k = 0; k < 3 + i % 5; ++k) {
      text << words[static_cast<size_t>(i * (k + 3) + k) % words.size()] << ' ';
    }
    text << i << '\n';
  }
  return text.str();
}

// A corpus, prepared, and a model trained on it for three updates. Made once per process.
class TinyRun {
  // First, because the paths below are made of it.
  const std::string folder_ =
      (fs::temp_directory_path() / ("dtrain_tool_test." + std::to_string(getpid()))).string();

 public:
  static const TinyRun& Get() {
    static const TinyRun run;
    return run;
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  const std::string run, data, source, reference;

 private:
  TinyRun()
      : run(Path("run")), data(Path("data")), source(Path("test.en")), reference(Path("test.de")) {
    fs::create_directories(folder_);
    const std::vector<std::string> english = {"red", "green", "house", "tree", "sees", "is"};
    const std::vector<std::string> german = {"rot", "grün", "Haus", "Baum", "sieht", "ist"};
    WriteFile(Path("train.en"), Corpus(200, english));
    WriteFile(Path("train.de"), Corpus(200, german));
    WriteFile(source, Corpus(30, english));
    WriteFile(reference, Corpus(30, german));
    const Outcome prepared = Tool("prepare " + data + " --train_source=" + Path("train.en") +
                                  " --train_target=" + Path("train.de") +
                                  " --vocab_size=60 --hold_out_dev=5 --hold_out_test=0");
    INFO(prepared.output);
    REQUIRE(prepared.exit_code == 0);
    REQUIRE_THAT(prepared.output, Catch::Contains("of 200 pairs kept"));
    const Outcome trained =
        Shell(DTRAIN_TEST_NMT_TRAIN " data.prepared=" + data + " run.run_dir=" + run +
              " model.hidden_size=32 model.ffn_size=32 model.num_heads=2 model.encoder_layers=1"
              " model.decoder_layers=1 model.max_positions=260 trainer.max_steps=3"
              " trainer.tokens_per_batch=500 trainer.micro_batch_tokens=500 trainer.eval_every="
              " trainer.beam_alpha=1.5");
    INFO(trained.output);
    REQUIRE(trained.exit_code == 0);
  }
  ~TinyRun() {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
};

// Short translations make a quick test.
constexpr char kShort[] = " --extra_length=2 ";

TEST_CASE("translations come in the order of the lines, and empty lines stay empty") {
  const TinyRun& tiny = TinyRun::Get();
  WriteFile(tiny.Path("in"), "red house\n\n  \ngreen tree sees red house is red\ntree\r\n");
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
  CHECK(ReadFile(tiny.Path("out")) == whole.output);
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
  WriteFile(tiny.Path("in"), "red house\n\ngreen tree\n");
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
  CHECK(ReadFile(out) == Tool("translate " + tiny.run + kShort + "< " + tiny.source).output);
  const nlohmann::json of_model = nlohmann::json::parse(model.output);
  CHECK(of_model["step"] == 3);
  CHECK(of_model["nll"].get<double>() > 0.5);
  CHECK(of_model["nll"].get<double>() < 8);

  // Three updates translate nothing well: a file that is half right has a score to compare.
  const std::vector<std::string> references = Lines(ReadFile(tiny.reference));
  std::vector<std::string> hypotheses = references;
  for (size_t i = 0; i < hypotheses.size(); i += 3) hypotheses[i].insert(0, "ein Haus . ");
  std::string text;
  for (const std::string& line : hypotheses) text += line + "\n";
  WriteFile(out, text);
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
  WriteFile(tiny.Path("lines"), "red\nhouse\ntree\n");
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

TEST_CASE("a damaged, foreign or missing checkpoint ends with code 7 and says which file") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string copy = tiny.Path("copy");
  const auto fails = [&](const std::string& path, const std::string& why) {
    const Outcome outcome = Tool("translate " + path + " < " + tiny.source);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 7);
    CHECK_THAT(outcome.output, Catch::Contains("dtrain: error[E7]: ") && Catch::Contains(why));
  };
  const auto copy_again = [&] {
    fs::remove_all(copy);
    fs::copy(tiny.run + "/ckpt/step-00000003", copy, fs::copy_options::recursive);
  };
  copy_again();
  CHECK(Tool("translate " + copy + kShort + "< " + tiny.source).exit_code == 0);

  std::string weights = ReadFile(copy + "/model.safetensors");
  weights[weights.size() - 100] ^= 1;
  WriteFile(copy + "/model.safetensors", weights);
  fails(copy, "model.safetensors");

  copy_again();
  fs::remove(copy + "/vocab.spm");
  fails(copy, "vocab.spm");

  copy_again();
  fs::remove(copy + "/COMPLETE");
  fails(copy, "COMPLETE");

  fs::create_directories(tiny.Path("empty"));
  fails(tiny.Path("empty"), "neither a checkpoint nor a run");
  fails(tiny.Path("absent"), "absent");
  fails(tiny.source, "neither a checkpoint nor a run");
}

TEST_CASE("bad text and bad flags end with codes 3 and 2 and one line that says what to do") {
  const TinyRun& tiny = TinyRun::Get();
  WriteFile(tiny.Path("bad"), "red\ngr\xfcn\n");
  WriteFile(tiny.Path("nul"), std::string("a\0b\n", 4));
  WriteFile(tiny.Path("short"), "rot\n");
  WriteFile(tiny.Path("nothing"), "");
  const std::string translate = "translate " + tiny.run + " --input=";
  const std::string eval = "eval " + tiny.run + " --source=";
  const std::string prepare = "prepare " + tiny.Path("p");
  struct Case {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const Case cases[] = {
      {translate + tiny.Path("bad"), 3, "bad:2: invalid UTF-8"},
      {translate + tiny.Path("nul"), 3, "nul:1: a NUL byte"},
      {translate + tiny.Path("absent"), 3, "absent: cannot be opened"},
      {translate + tiny.source + " --output=/no/such/folder/out", 7, "cannot be written"},
      {"translate", 2, "give one run directory or checkpoint"},
      {"translate " + tiny.run + " --beam=4", 2, "unknown flag; did you mean beam_size?"},
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
      {"plan --step_seconds=1 --doctor=" + tiny.Path("absent"), 7, "absent"},
      {"trace-merge", 2, "give one folder of traces"},
      {"trace-merge " + tiny.data, 7, "holds no rank-*.json"},
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

TEST_CASE("doctor measures two ranks, and refuses a folder it cannot write") {
  const std::string doctor =
      DTRAIN_TEST_MPIRUN " --allow-run-as-root -n 2 " DTRAIN_TEST_TOOL " doctor --largest_mib=1 ";
  const Outcome outcome = Shell(doctor + "--json --dir=/tmp");
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(outcome.output);
  REQUIRE(json.at("hosts").size() == 1);
  CHECK(json.at("hosts").at(0).at("ranks") == 2);
  CHECK(json.at("hosts").at(0).at("disk_bytes_per_second").get<double>() > 0.0);
  REQUIRE(json.at("pairs").size() == 1);
  CHECK(json.at("pairs").at(0).at("bytes_per_second").get<double>() > 0.0);
  CHECK(json.at("allreduce").size() == 5);
  CHECK(json.at("memory_bytes_per_second").get<double>() > 0.0);
  const Outcome refused = Shell(doctor + "--dir=/absent");
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, Catch::Contains("/absent: cannot be written on any host"));
}

TEST_CASE("plan takes doctor's file, all programs' configurations and thousands of ranks") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string doctor = tiny.Path("doctor.json");
  const Outcome measured = Shell(DTRAIN_TEST_MPIRUN " --allow-run-as-root -n 2 " DTRAIN_TEST_TOOL
                                                    " doctor --largest_mib=1 --dir=/tmp --output=" +
                                 doctor);
  INFO(measured.output);
  REQUIRE(measured.exit_code == 0);
  const std::string tail = " --doctor=" + doctor + " --network=25Gb --json";
  const Outcome nmt = Tool("plan --config=" + tiny.run +
                           "/config.textproto --nodes=1024 --ranks_per_node=8 --flops=1e12" + tail);
  INFO(nmt.output);
  REQUIRE(nmt.exit_code == 0);
  const nlohmann::json plan = nlohmann::json::parse(nmt.output);
  CHECK(plan.at("ways").size() == 16);
  CHECK(plan.at("network").at("bytes_per_second").get<double>() == Approx(2937.5e6));
  for (const nlohmann::json& way : plan.at("ways")) CHECK(way.at("seconds").get<double>() > 0.0);
  const Outcome bert = Tool("plan data.glue=sst-2 --step_seconds=1" + tail);
  REQUIRE(bert.exit_code == 0);
  const nlohmann::json base = nlohmann::json::parse(bert.output);
  CHECK(base.at("parameters") == 109483778);
  CHECK(base.at("ways").back().at("power_sgd_rank") == 768 / 8);
  const auto parameters = [&](const std::string& arguments) {
    const Outcome outcome = Tool("plan --nodes=4 --flops=1e12 --json " + arguments);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    const nlohmann::json json = nlohmann::json::parse(outcome.output);
    CHECK(json.at("ways").size() == 8);
    return json.at("parameters").get<int64_t>();
  };
  // BertForQuestionAnswering and BertForPreTraining, base.
  CHECK(parameters("data.stride=128") == 108893186);
  CHECK(parameters("data.next_sentence=true") == 110106428);
}

TEST_CASE("estimate tells a run's checkpoint size and activations before it starts") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string arguments = "estimate --config=" + tiny.run + "/config.textproto";
  const Outcome text = Tool(arguments);
  INFO(text.output);
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.output, Catch::Contains("parameters") && Catch::Contains("every_k (k = 2)"));
  const Outcome outcome = Tool(arguments + " --json");
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(outcome.output);

  double checkpoint = 0.0;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    checkpoint += static_cast<double>(fs::file_size(tiny.run + "/ckpt/last/" + file));
  }
  // The files' headers are a good part of so small a model.
  CHECK(json.at("checkpoint_bytes").get<double>() == Approx(checkpoint).epsilon(0.15));

  double measured = 0.0;
  for (const std::string& line : Lines(ReadFile(tiny.run + "/metrics/events.jsonl"))) {
    const std::string event = nlohmann::json::parse(line).value("text", "");
    std::sscanf(event.c_str(), "activations took %lf MiB", &measured);
  }
  CHECK(json.at("bytes").at("activations").get<double>() ==
        Approx(measured * (1 << 20)).epsilon(0.1));
}

TEST_CASE("estimate and plan name the file that they cannot take") {
  const Outcome estimate = Tool("estimate data.prepared=/nosuch");
  CHECK(estimate.exit_code == 2);
  CHECK_THAT(estimate.output, Catch::Contains("data.prepared: /nosuch holds no train.bin"));
  CHECK(Tool("estimate data.prepared=/nosuch data.train_source=a data.train_target=b").exit_code ==
        0);
  const std::string file = TinyRun::Get().run + "/no.json";
  WriteFile(file, "garbage");
  const Outcome plan = Tool("plan --nodes=2 --step_seconds=1 --doctor=" + file);
  CHECK(plan.exit_code == 7);
  CHECK_THAT(plan.output, Catch::Contains("no.json: is no JSON object"));
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
  WriteFile(out, "kept\n");
  WriteFile(tiny.Path("bad"), "gr\xfcn\n");
  const Outcome failed =
      Tool("translate " + tiny.run + " --input=" + tiny.Path("bad") + " --output=" + out);
  CHECK(failed.exit_code == 3);
  CHECK(ReadFile(out) == "kept\n");
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
  const std::string weights = ReadFile(checkpoint + "/model.safetensors");
  fs::create_symlink(checkpoint + "/model.safetensors", tiny.Path("link-to-model"));
  const std::string translate = "translate " + tiny.run + kShort + "--input=" + tiny.source;
  for (const std::string& output :
       {checkpoint + "/model.safetensors", tiny.run + "/ckpt/last/new.txt",
        tiny.run + "/ckpt/new.txt", tiny.Path("link-to-model")}) {
    const Outcome refused = Tool(translate + " --output=" + output);
    INFO(refused.output);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.output, Catch::Contains("--output: " + output + " lies in a checkpoint"));
  }
  CHECK(ReadFile(checkpoint + "/model.safetensors") == weights);
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
  WriteFile(text, ReadFile(tiny.source));
  const std::string references = ReadFile(tiny.reference);
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
               Catch::Contains("--output: ") && Catch::Contains("is the file that is read"));
    CHECK(ReadFile(text) == ReadFile(tiny.source));
    CHECK(ReadFile(tiny.reference) == references);
  }
  // A device can be both.
  CHECK(Tool("translate " + tiny.run + " --input=/dev/null --output=/dev/null").exit_code == 0);
}

TEST_CASE("export-hf writes a whole folder and refuses one that is in use") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string out = tiny.Path("hf");
  const Outcome exported = Tool("export-hf " + tiny.run + " " + out);
  INFO(exported.output);
  REQUIRE(exported.exit_code == 0);
  CHECK_THAT(exported.output, Catch::Contains("MarianMTModel"));
  const nlohmann::json config = nlohmann::json::parse(ReadFile(out + "/config.json"));
  const nlohmann::json vocabulary = nlohmann::json::parse(ReadFile(out + "/vocab.json"));
  CHECK(config["model_type"] == "marian");
  CHECK(config["vocab_size"].get<size_t>() == vocabulary.size());
  CHECK(config["decoder_start_token_id"] == vocabulary["<pad>"]);
  CHECK(config["eos_token_id"] == vocabulary["</s>"]);
  CHECK(ReadFile(out + "/source.spm") == ReadFile(tiny.data + "/vocab.spm"));
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
