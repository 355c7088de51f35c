// squad_reader_test.cc - SQuAD files are read whole and in order; errors are named.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/squad_reader.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/test_files.h"
#include "dtrain/base/crc.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

// A file of one paragraph.
std::string FileOf(const std::string& context, const std::string& qas) {
  return R"({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": ")" + context +
         R"(", "qas": [)" + qas + "]}]}]}";
}

std::string QuestionOf(const std::string& id, const std::string& answers) {
  return R"({"id": ")" + id + R"(", "question": "What?", "answers": [)" + answers + "]}";
}

std::string AnswerOf(const std::string& text, const std::string& start) {
  return R"({"text": ")" + text + R"(", "answer_start": )" + start + "}";
}

SquadSet Parse(std::string_view text, SquadAnswers answers = SquadAnswers::kRequired) {
  SquadSet set;
  const Status status = ParseSquad(text, "f.json", answers, set);
  INFO(status.message());
  REQUIRE(status.ok());
  return set;
}

std::string ErrorOf(std::string_view text, SquadAnswers answers = SquadAnswers::kRequired) {
  SquadSet set;
  const Status status = ParseSquad(text, "f.json", answers, set);
  REQUIRE(status.code() == ExitCode::kData);
  return std::string(status.message());
}

// The one answer's place in a paragraph of plain text, or kNowhere.
int64_t PlaceIn(const std::string& context, const std::string& answer, const std::string& start) {
  const SquadSet set = Parse(FileOf(context, QuestionOf("q", AnswerOf(answer, start))));
  REQUIRE(set.questions.size() == 1);
  const std::vector<SquadAnswer>& answers = set.questions[0].answers;
  REQUIRE(answers.size() == 1);
  CHECK(set.lost_answers == (answers[0].begin == SquadAnswer::kNowhere ? 1 : 0));
  CHECK(set.moved_answers <= 1 - set.lost_answers);
  if (answers[0].begin == SquadAnswer::kNowhere) return SquadAnswer::kNowhere;
  CHECK(set.contexts[0].substr(static_cast<size_t>(answers[0].begin)).starts_with(answers[0].text));
  return answers[0].begin;
}

TEST_CASE("questions of version 1.1 come in the order of the file") {
  const SquadSet set = Parse(R"({"data": [
      {"paragraphs": [
        {"context": "One two.", "qas": [
          {"answers": [{"answer_start": 4, "text": "two"}, {"answer_start": 0, "text": "One"}],
           "question": "Second?", "id": "b"}]},
        {"qas": [], "context": "Nothing is asked here."}]},
      {"title": "x", "paragraphs": [
        {"qas": [{"id": "a", "question": "First?", "answers": [{"text": "Three",
                                                                "answer_start": 0}]}],
         "context": "Three."}]}], "extra": [{"data": [7]}], "version": "1.1"})");
  CHECK(set.version == "1.1");
  CHECK(set.contexts == std::vector<std::string>{"One two.", "Nothing is asked here.", "Three."});
  CHECK_FALSE(set.has_impossible);
  REQUIRE(set.questions.size() == 2);
  CHECK(set.questions[0].id == "b");
  CHECK(set.questions[0].text == "Second?");
  CHECK(set.questions[0].context == 0);
  REQUIRE(set.questions[0].answers.size() == 2);
  CHECK(set.questions[0].answers[0].text == "two");
  CHECK(set.questions[0].answers[0].begin == 4);
  CHECK(set.questions[0].answers[1].begin == 0);
  CHECK(set.questions[1].id == "a");
  CHECK(set.questions[1].context == 2);
}

TEST_CASE("version 2.0 has questions without answers, and its guesses are no answers") {
  const SquadSet set =
      Parse(FileOf("One.", R"({"id": "1", "question": "?", "is_impossible": true, "answers": [],
                  "plausible_answers": [{"text": "One", "answer_start": 0}]},
                 {"id": "2", "question": "?", "is_impossible": false,
                  "answers": [{"text": "One", "answer_start": 0}]})"));
  CHECK(set.has_impossible);
  CHECK(set.questions[0].is_impossible);
  CHECK(set.questions[0].answers.empty());
  CHECK_FALSE(set.questions[1].is_impossible);
  CHECK(set.questions[1].answers.size() == 1);
}

TEST_CASE("starts count code points, places are bytes") {
  CHECK(PlaceIn("caf\u00e9 \U0001f600 noir", "noir", "7") == 11);
  CHECK(PlaceIn("caf\\u00e9 \\ud83d\\ude00 noir", "\\ud83d\\ude00", "5") == 6);
}

TEST_CASE("an answer that stands elsewhere is taken from the nearest place") {
  CHECK(PlaceIn("cat dog cat bird cat", "cat", "9") == 8);
  CHECK(PlaceIn("cat dog cat bird cat", "cat", "13") == 17);
  CHECK(PlaceIn("cat dog cat bird cat", "cat", "4") == 0);  // the earlier of two
  CHECK(PlaceIn("cat dog cat bird cat", "dog", "900") == 4);
  CHECK(PlaceIn("cat dog cat bird cat", "dog", "-3") == 4);
}

TEST_CASE("answers that stand elsewhere are counted, those at their place are not") {
  const auto moved = [](const std::string& answers) {
    return Parse(FileOf("caf\u00e9 dog cat", QuestionOf("q", answers))).moved_answers;
  };
  CHECK(moved(AnswerOf("dog", "5") + "," + AnswerOf("cat", "9")) == 0);
  CHECK(moved(AnswerOf("dog", "6") + "," + AnswerOf("cat", "9")) == 1);  // counted in bytes
  CHECK(moved(AnswerOf("caf", "-1") + "," + AnswerOf("cat", "900")) == 2);
  CHECK(moved(AnswerOf("bird", "5")) == 0);  // lost
}

TEST_CASE("an answer whose text is nowhere stays one to compare with, and is counted") {
  CHECK(PlaceIn("cat dog", "Cat", "0") == -1);
  CHECK(PlaceIn("cat dog", "", "0") == -1);
  const SquadSet set =
      Parse(FileOf("cat", QuestionOf("q", AnswerOf("x", "0") + "," + AnswerOf("cat", "0"))));
  CHECK(set.lost_answers == 1);
  REQUIRE(set.questions[0].answers.size() == 2);
  CHECK(set.questions[0].answers[0].text == "x");
  CHECK(set.questions[0].answers[1].begin == 0);
}

TEST_CASE("answers are not looked at where texts are only to be predicted") {
  const std::string bare = FileOf("x", R"({"id": "1", "question": "?"})");
  const std::string none = FileOf("x", QuestionOf("1", ""));
  CHECK(Parse(bare, SquadAnswers::kOptional).questions[0].answers.empty());
  CHECK(Parse(none, SquadAnswers::kOptional).questions[0].answers.empty());
  for (const char* const answers : {"null", "7", R"([{"text": 3}])", R"([{"text": "x",
                                                                         "answer_start": 0}])"}) {
    const std::string file =
        FileOf("x", absl::StrCat(R"({"id": "1", "question": "?", "answers": )", answers, "}"));
    const SquadSet set = Parse(file, SquadAnswers::kOptional);
    REQUIRE(set.questions.size() == 1);
    CHECK(set.questions[0].answers.empty());
    CHECK(set.lost_answers == 0);
  }
  CHECK(ErrorOf(bare) == "f.json: data[0].paragraphs[0].qas[0].answers is missing");
  CHECK(ErrorOf(none) ==
        "f.json: data[0].paragraphs[0].qas[0].answers is empty; for training or evaluation, a "
        "question "
        "needs an answer or is_impossible; `predict` needs none");
}

TEST_CASE("what is wrong in the data is named with its place") {
  const std::string good = QuestionOf("q", AnswerOf("x", "0"));
  CHECK(ErrorOf("[1]") == "f.json: is a JSON array; a SQuAD file is a JSON object");
  CHECK(ErrorOf("{}") == "f.json: data is missing, a key that SQuAD's files have");
  CHECK(ErrorOf(R"({"data": {"a": 1}})") == "f.json: data is a JSON object; it should be an array");
  CHECK(ErrorOf(R"({"data": []})") == "f.json: has no questions; give a file in SQuAD's format");
  CHECK(ErrorOf(R"({"data": [], "data": []})") == "f.json: \"data\" occurs twice");
  CHECK(ErrorOf(R"({"data": [{"paragraphs": []}, [{}]]})") ==
        "f.json: data[1] is not an object with \"paragraphs\"");
  CHECK(ErrorOf(R"({"data": [{"paragraphs": []}, 7]})") ==
        "f.json: data[1] is not an object with \"paragraphs\"");
  CHECK(ErrorOf(R"({"data": [{"paragraphs": []}, {}]})") ==
        "f.json: data[1].paragraphs is missing");
  CHECK(ErrorOf(R"({"data": [{"paragraphs": [3]}]})") ==
        "f.json: data[0].paragraphs[0] is not an object");
  CHECK(ErrorOf(FileOf("", good)) == "f.json: data[0].paragraphs[0].context is empty");
  const std::string qas = "f.json: data[0].paragraphs[0].qas";
  CHECK(ErrorOf(FileOf("x", good + R"(, {"question": "?"})")) == qas + "[1].id is missing");
  CHECK(ErrorOf(FileOf("x", R"({"id": 7, "question": "?"})")) ==
        qas + "[0].id is a JSON number; it should be a string");
  CHECK(ErrorOf(FileOf("x", R"({"id": "7"})")) == qas + "[0].question is missing");
  CHECK(ErrorOf(FileOf("x", R"({"id": "7", "question": "?", "is_impossible": 0})")) ==
        qas + "[0].is_impossible is not true or false");
  CHECK(ErrorOf(FileOf("x", QuestionOf("q", AnswerOf("x", "1.5")))) ==
        qas + "[0].answers[0].answer_start is not a whole number");
  CHECK(ErrorOf(FileOf("x", QuestionOf("q", R"({"text": "x"})"))) ==
        qas + "[0].answers[0].answer_start is missing");
  CHECK(ErrorOf(FileOf("x", QuestionOf("q", R"({"answer_start": 0})"))) ==
        qas + "[0].answers[0].text is missing");
  CHECK(ErrorOf(FileOf("x", good + "," + good)) ==
        qas + "[1].id is \"q\", which is the id of an earlier question");
}

TEST_CASE("text that is no JSON is named with line and column") {
  using Catch::Matchers::StartsWith;
  CHECK_THAT(ErrorOf("{\"data\": [\n  {\"paragraphs\": oops}]}"),
             StartsWith("f.json: line 2, column 18: not valid JSON: syntax error"));
  CHECK_THAT(ErrorOf("{\"data\": [\n"), StartsWith("f.json: line 2, column 1: not valid JSON: "));
  CHECK(ErrorOf("") == "f.json: is empty; give a JSON file of SQuAD's form");
  CHECK_THAT(ErrorOf("{\n\"da\xFFta\": []}"), StartsWith("f.json: line 2, column 4: not UTF-8"));
  CHECK_THAT(ErrorOf(R"({"data": [1e999]})"), StartsWith("f.json: not valid JSON: "));
  // The data's own trouble is told first where it comes first.
  CHECK(ErrorOf("{\"data\": [7, oops]}") == "f.json: data[0] is not an object with \"paragraphs\"");
}

TEST_CASE("several files make one set") {
  const TemporaryFolder folder;
  const std::string first = FileOf("cat", QuestionOf("1", AnswerOf("cat", "0")));
  const std::string second = FileOf("dog", QuestionOf("2", AnswerOf("dog", "0")));
  const std::string a = folder.Write("a.json", first);
  const std::string b = folder.Write("b.json", second);
  const SquadSet set = ReadSquad({a, b}, SquadAnswers::kRequired).value();
  CHECK(set.contexts == std::vector<std::string>{"cat", "dog"});
  REQUIRE(set.questions.size() == 2);
  CHECK(set.questions[1].context == 1);
  CHECK(set.crc == Crc32c(first + second));

  const Status twice = ReadSquad({a, a}, SquadAnswers::kRequired).status();
  CHECK(std::string(twice.message()) ==
        a + ": data[0].paragraphs[0].qas[0].id is \"1\", which is the id of an earlier question");
  const Status absent = ReadSquad({folder.File("c.json")}, SquadAnswers::kOptional).status();
  CHECK(absent.code() == ExitCode::kData);
  CHECK(ReadSquad({}, SquadAnswers::kOptional).status().code() == ExitCode::kUsage);
}

TEST_CASE("compressed files are read by their content") {
  const TemporaryFolder folder;
  const std::string text = FileOf("cat", QuestionOf("1", AnswerOf("cat", "0")));
  const std::string gz = testing::Gzip(text);
  const SquadSet set = ReadSquad({folder.Write("a.json", gz)}, SquadAnswers::kRequired).value();
  CHECK(set.contexts == std::vector<std::string>{"cat"});
  CHECK(set.crc == Crc32c(text));
  CHECK(ReadSquad({folder.Write("b.zst", testing::Zstd(text))}, SquadAnswers::kRequired).ok());
  const Status damaged =
      ReadSquad({folder.Write("c.gz", gz.substr(0, gz.size() - 6))}, SquadAnswers::kRequired)
          .status();
  CHECK(damaged.code() == ExitCode::kData);
  CHECK_THAT(std::string(damaged.message()), Catch::Contains("damaged gzip"));
}

TEST_CASE("every answer of real files stands where it is said to") {
  const auto folder = testing::SharedPath("data/squad");
  if (!folder) return;
  const SquadSet set =
      ReadSquad({(*folder / "squad_dev.json").string()}, SquadAnswers::kRequired).value();
  CHECK(set.questions.size() == 1044);
  CHECK(set.contexts.size() == 230);
  CHECK(set.lost_answers == 0);
  CHECK(set.moved_answers == 0);
}

}  // namespace
}  // namespace dtrain
