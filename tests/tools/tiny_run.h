// tiny_run.h - a corpus and a model of three updates, for what the tool does with them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TOOLS_TINY_RUN_H_
#define DTRAIN_TESTS_TOOLS_TINY_RUN_H_

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "integration/program.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {

// Of a shell's line.
inline Outcome Shell(const std::string& line) { return Job("{ " + line + " ; }").Wait(); }

inline Outcome Tool(const std::string& arguments) {
  return Shell(DTRAIN_TEST_TOOL " " + arguments);
}

inline std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A few words on both sides, line by line different.
inline std::string Corpus(int lines, const std::vector<std::string>& words) {
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
      (std::filesystem::temp_directory_path() / ("dtrain_tool_test." + std::to_string(getpid())))
          .string();

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
    std::filesystem::create_directories(folder_);
    const std::vector<std::string> english = {"red", "green", "house", "tree", "sees", "is"};
    const std::vector<std::string> german = {"rot", "grün", "Haus", "Baum", "sieht", "ist"};
    WriteTestFile(Path("train.en"), Corpus(200, english));
    WriteTestFile(Path("train.de"), Corpus(200, german));
    WriteTestFile(source, Corpus(30, english));
    WriteTestFile(reference, Corpus(30, german));
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
              " trainer.beam_alpha=1.5 data.max_length=100");
    INFO(trained.output);
    REQUIRE(trained.exit_code == 0);
  }
  ~TinyRun() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
};

}  // namespace dtrain

#endif  // DTRAIN_TESTS_TOOLS_TINY_RUN_H_
