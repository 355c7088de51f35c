// class_order_test.cc - classes of pretrained weights, and what is said where the run's differ.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/internal/class_order.h"

#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain::internal {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("classes are those of the files beside the weights, in the order of their numbers") {
  const TemporaryFolder folder;
  const std::string weights = folder.File("model.safetensors");
  CHECK(ClassesBeside(weights).empty());
  folder.Write("labels.txt", "spam\nham and eggs\n");
  CHECK(ClassesBeside(weights) == Names{"spam", "ham and eggs"});
  const auto with = [&](const std::string& json) {
    folder.Write("config.json", json);
    return ClassesBeside(weights);
  };
  CHECK(with(R"({"id2label": {"0": "no", "1": "yes"}})") == Names{"no", "yes"});
  // Keys are sorted as texts: 10 comes before 2.
  CHECK(with(R"({"id2label": {"0":"a","1":"b","10":"k","2":"c","3":"d","4":"e","5":"f","6":"g",
                              "7":"h","8":"i","9":"j"}})") ==
        Names{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"});
  for (const char* const json :
       {"{}", "[]", "{", R"({"id2label": ["no"]})", R"({"id2label": {"1": "no"}})",
        R"({"id2label": {"0": 7}})", R"({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}})"}) {
    INFO(json);
    CHECK(with(json).empty());
  }
}

TEST_CASE("the same classes in another order are warned of with the setting that mends it") {
  const Names theirs = {"no", "yes"};
  const Names ours = {"yes", "no"};
  CHECK(OtherClasses("m", theirs, theirs, "data.label_names").empty());
  CHECK(OtherClasses("m", {}, ours, "data.label_names").empty());
  CHECK(OtherClasses("m", theirs, {}, "data.label_names").empty());
  const std::string expected =
      "m: the file's classes are no, yes; here yes, no: the classifier's rows mean other classes";
  CHECK(OtherClasses("m", theirs, ours, "data.label_names") ==
        expected + "; set data.label_names=no,yes");
  CHECK(OtherClasses("m", theirs, ours, "") == expected);
}

TEST_CASE("classes of other names are warned of, and only some of many are shown") {
  CHECK(OtherClasses("m", {"no", "yes"}, {"0", "1"}, "data.label_names") ==
        "m: the file's classes are no, yes; here 0, 1: unless they are the same by other names, "
        "the classifier's rows mean other classes");
  Names many;
  for (char c = 'a'; c < 'a' + 11; ++c) many.emplace_back(1, c);
  CHECK_THAT(OtherClasses("m", many, {"0"}, ""),
             Catch::Contains("are a, b, c, d, e, f, g, h and 3 more; here 0: "));
}

}  // namespace
}  // namespace dtrain::internal
