// flag_set_test.cc - flags of commands: every form, every mistake, the help.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/flag_set.h"

#include <optional>
#include <string>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

// One command with a flag of each type.
struct Example {
  bool quiet = false;
  bool clean = true;
  int64_t beam_size = 4;
  double alpha = 0.6;
  std::optional<double> limit;
  std::optional<int64_t> count;
  std::string output = "-";
  std::vector<std::string> inputs;
  std::vector<std::string> strict;
  FlagSet flags{"example FILE", "shows flags"};

  Example() {
    flags.Add("quiet", "say nothing", &quiet);
    flags.Add("clean", "drop dirty pairs", &clean);
    flags.Add("beam_size", "hypotheses", &beam_size);
    flags.Add("alpha", "length penalty", &alpha);
    flags.Add("limit", "seconds; default: none", &limit);
    flags.Add("count", "lines; default: all", &count);
    flags.Add("output", "where to write", &output);
    flags.Add("input", "what to read", &inputs);
    flags.AddSwitch("strict", "whether to refuse", &strict);
  }
  StatusOr<std::vector<std::string>> Parse(std::vector<std::string> arguments) {
    std::vector<char*> argv;
    arguments.insert(arguments.begin(), "example");
    for (std::string& argument : arguments) argv.push_back(argument.data());
    return flags.Parse(static_cast<int>(argv.size()), argv.data());
  }
};

TEST_CASE("flags set their variables and the rest is returned") {
  Example e;
  const auto rest = e.Parse({"run", "--quiet", "--noclean", "--beam_size=8", "--alpha", "1e-1", "-",
                             "--input=a", "--input", "b", "--output=", "--", "--x"});
  REQUIRE(rest.ok());
  CHECK(*rest == std::vector<std::string>{"run", "-", "--x"});
  CHECK(e.quiet);
  CHECK_FALSE(e.clean);
  CHECK(e.beam_size == 8);
  CHECK(e.alpha == 0.1);
  CHECK_FALSE(e.limit.has_value());
  CHECK(e.output.empty());
  CHECK(e.inputs == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(e.flags.help_wanted());
  for (const char* const given : {"quiet", "clean", "beam_size", "alpha", "input", "output"}) {
    CHECK(e.flags.is_given(given));
  }
  for (const char* const not_given : {"limit", "strict", "help", "x"}) {
    CHECK_FALSE(e.flags.is_given(not_given));
  }
}

TEST_CASE("a switch whose words are wanted takes no other argument for its value") {
  Example e;
  const auto rest = e.Parse({"--strict", "run", "--strict=false", "--nostrict"});
  REQUIRE(rest.ok());
  CHECK(*rest == std::vector<std::string>{"run"});
  CHECK(e.strict == std::vector<std::string>{"true", "false", "false"});
}

TEST_CASE("an optional flag has no default, and a value where it is given") {
  Example e;
  CHECK_FALSE(e.count.has_value());
  REQUIRE(e.Parse({"--limit=2.5", "--count=7"}).ok());
  CHECK(e.limit == 2.5);
  CHECK(e.count == 7);
  CHECK_THAT(Example().flags.Help(), Catch::Contains("--limit= ") && Catch::Contains("--count= "));
}

TEST_CASE("a wrong flag says what it should be") {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const Case cases[] = {
      {{"--beam=3"}, "--beam: unknown flag; did you mean --beam_size? (see --help)"},
      {{"-b"}, "-b: unknown flag (see --help)"},
      {{"--nooutput"}, "--nooutput: unknown flag; did you mean --output? (see --help)"},
      {{"--beam_size=x"}, "--beam_size is a whole number, not \"x\""},
      {{"--beam_size=3.5"}, "--beam_size is a whole number, not \"3.5\""},
      {{"--beam_size="}, "--beam_size is a whole number, not \"\""},
      {{"--beam_size"}, "--beam_size needs a value, a whole number"},
      {{"--beam_size=99999999999999999999"},
       "--beam_size is a whole number, not \"99999999999999999999\""},
      {{"--count=1.5"}, "--count is a whole number, not \"1.5\""},
      {{"--alpha=nan"}, "--alpha is a number, not \"nan\""},
      {{"--quiet=maybe"}, "--quiet is true or false, not \"maybe\""},
  };
  for (const Case& c : cases) {
    Example e;
    const auto rest = e.Parse(c.arguments);
    REQUIRE_FALSE(rest.ok());
    CHECK(std::string(rest.status().message()) == c.message);
    CHECK(rest.status().code() == ExitCode::kUsage);
  }
}

TEST_CASE("help shows a flag of one letter as it is written") {
  std::string output = "all.json";
  FlagSet flags("example [-o FILE]", "shows flags");
  flags.Add("o", "file to write", &output);
  CHECK_THAT(flags.Help(), Catch::Contains("\n  -o all.json ") && !Catch::Contains("--o"));
}

TEST_CASE("help shows usage, defaults and meaning") {
  Example e;
  REQUIRE(e.Parse({"--help", "--beam_size=9"}).ok());
  CHECK(e.flags.help_wanted());
  CHECK_THAT(e.flags.Help(), Catch::StartsWith("shows flags\n\nUsage: example FILE\n") &&
                                 Catch::Contains("--beam_size=4 ") &&
                                 Catch::Contains("hypotheses\n"));
}

}  // namespace
}  // namespace dtrain
