// example_reader_test.cc - labels, weights and groups out of tables; bad rows named or counted.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/example_reader.h"

#include <cmath>
#include <set>

#include "dtrain/tasks/classification/glue.h"
#include "dtrain/tasks/classification/jigsaw.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

struct Row {
  std::string text, pair, id;
  std::vector<float> labels;
  float weight;
  uint32_t groups;
  int64_t row;
};

struct ReadExamples {
  std::vector<Row> rows;
  ExampleCounts counts;
  std::vector<std::string> classes;
  Status status;
};

ReadExamples ReadAll(const std::string& path, const ExampleSchema& schema) {
  ReadExamples all;
  StatusOr<ExampleReader> reader = ExampleReader::Open(path, schema);
  all.status = reader.status();
  if (!reader.ok()) return all;
  for (ExampleBlock block;;) {
    const StatusOr<bool> more = reader->NextBlock(block);
    all.status = more.status();
    if (!more.ok() || !*more) break;
    for (const Example& e : block.examples()) {
      all.rows.push_back({std::string(e.text),
                          std::string(e.text_pair),
                          std::string(e.id),
                          {e.labels.begin(), e.labels.end()},
                          e.weight,
                          e.groups,
                          e.row});
    }
  }
  all.counts = reader->counts();
  all.classes = reader->classes();
  return all;
}

struct Folder {
  ReadExamples Read(const std::string& name, const std::string& text,
                    const ExampleSchema& schema) const {
    return ReadAll(dir.Write(name, text), schema);
  }
  void CheckRefused(const std::string& name, const std::string& text, const ExampleSchema& schema,
                    ExitCode code, const std::string& part) const {
    const Status status = Read(name, text, schema).status;
    CHECK(status.code() == code);
    CHECK_THAT(std::string(status.message()), Catch::Contains(part));
  }
  TemporaryFolder dir;
};

TEST_CASE("any table gives texts, pairs, labels, weights and ids by the names of its columns") {
  const Folder folder;
  const ExampleSchema schema{.text = "premise",
                             .text_pair = "hypothesis",
                             .labels = {"gold"},
                             .weight = "importance",
                             .id = "uid"};
  const std::vector<std::string> files = {
      "uid,importance,gold,premise,hypothesis\nx1,0.5, yes ,\"a, b\",c\nx2,2,no,d,e\n",
      "premise\thypothesis\tgold\timportance\tuid\na, b\tc\tyes\t+0.5\tx1\nd\te\tno\t2.0\tx2\n",
      "{\"uid\":\"x1\",\"importance\":0.5,\"gold\":\"yes\",\"premise\":\"a, b\",\"hypothesis\":"
      "\"c\"}\n{\"uid\":\"x2\",\"importance\":2,\"gold\":\"no\",\"premise\":\"d\",\"hypothesis\":"
      "\"e\"}\n"};
  const char* const names[] = {"a.csv", "a.tsv", "a.jsonl"};
  for (size_t i = 0; i < 3; ++i) {
    INFO(names[i]);
    const ReadExamples all = folder.Read(names[i], files[i], schema);
    REQUIRE(all.rows.size() == 2);
    CHECK(all.rows[0].text == "a, b");
    CHECK(all.rows[0].pair == "c");
    CHECK(all.rows[0].id == "x1");
    CHECK(all.rows[0].weight == 0.5f);
    CHECK(all.rows[0].labels == std::vector<float>{0});
    CHECK(all.rows[1].labels == std::vector<float>{1});
    CHECK(all.rows[1].row == 2);
    CHECK(all.classes == std::vector<std::string>{"yes", "no"});
    CHECK(all.counts.kept == 2);
  }
}

TEST_CASE("given classes keep their numbers, and others are errors that name the row") {
  const Folder folder;
  ExampleSchema schema{.label_names = {"no", "yes"}};
  CHECK(folder.Read("a.csv", "text,label\na,yes\n", schema).rows.at(0).labels[0] == 1.0f);
  const std::string text = "text,label\na,yes\n\"b\nb\",maybe\nc,no\n";
  folder.CheckRefused(
      "b.csv", text, schema, ExitCode::kData,
      "b.csv:3: row 2, column \"label\": \"maybe\" is not one of the labels: no, yes; "
      "name all of them in data.label_names, or set data.label_names= to take them from the "
      "file (bad_rows=skip");
  folder.CheckRefused("b.csv", "text,label\na,\n", schema, ExitCode::kData,
                      "row 1, column \"label\": has no label");
  schema.bad_rows = BadRows::kSkip;
  schema.max_bad_fraction = 0.5;
  const ReadExamples skipped = folder.Read("b.csv", text, schema);
  REQUIRE(skipped.status.ok());
  CHECK(skipped.rows.size() == 2);
  CHECK(skipped.counts.rows == 3);
  REQUIRE(skipped.counts.bad.count("unknown label") == 1);
  CHECK(skipped.counts.bad.at("unknown label").rows == 1);
  CHECK_THAT(skipped.counts.bad.at("unknown label").examples.at(0), Catch::Contains(":3: row 2"));
}

TEST_CASE("more bad rows than allowed are an error with the first of them") {
  const Folder folder;
  const ExampleSchema schema{.bad_rows = BadRows::kSkip, .max_bad_fraction = 0.2};
  folder.CheckRefused("a.csv", "text,label\na,x\nb\nc,x\nd,x\n", schema, ExitCode::kData,
                      "a.csv:3: row 2, column \"label\": 1 fields where the header has 2 (1 of 4 "
                      "rows are bad, the allowed share is 0.2)");
}

TEST_CASE("numbers to regress to are finite, weights not negative, soft labels within 0 and 1") {
  const Folder folder;
  ExampleSchema schema{.label_kind = LabelKind::kValue};
  CHECK(folder.Read("a.csv", "text,label\na,-2.5e1\n", schema).rows.at(0).labels[0] == -25.0f);
  for (const char* const value : {"abc", "1,2", "inf", "nan", "0x10", "1.5.2", "--1"}) {
    folder.CheckRefused("a.tsv", std::string("text\tlabel\na\t") + value + "\n", schema,
                        ExitCode::kData,
                        std::string("column \"label\": \"") + value + "\" is not a number");
  }
  folder.CheckRefused("a.csv", "text,label\na,-1e39\n", schema, ExitCode::kData,
                      "column \"label\": \"-1e39\" is too large; the largest number is 3.4e+38");
  folder.CheckRefused("a.csv", "text,label\na,1e400\n", schema, ExitCode::kData, "is not a number");
  for (const char* const value : {"1e-60", "1e-400", "-1e-400"}) {
    CHECK(folder.Read("a.csv", std::string("text,label\na,") + value + "\n", schema)
              .rows.at(0)
              .labels[0] == 0.0f);
  }
  schema.weight = "w";
  folder.CheckRefused("a.csv", "text,label,w\na,1,1e39\n", schema, ExitCode::kData,
                      "column \"w\": \"1e39\" is too large");
  folder.CheckRefused("a.csv", "text,label,w\na,1,-1\n", schema, ExitCode::kData,
                      "column \"w\": \"-1\" is a negative weight");
  folder.CheckRefused("a.csv", "text,label,w\na,1,\n", schema, ExitCode::kData,
                      "column \"w\": \"\" is not a number");
  const ExampleSchema soft{.labels = {"x", "y"}, .label_kind = LabelKind::kMultiLabel};
  CHECK(folder.Read("a.csv", "text,x,y\na,0.25,1\n", soft).rows.at(0).labels ==
        std::vector<float>{0.25f, 1.0f});
  folder.CheckRefused("a.csv", "text,x,y\na,0.25,1.5\n", soft, ExitCode::kData,
                      "column \"y\": \"1.5\" is not within 0 and 1");
}

TEST_CASE("texts to predict need no labels") {
  const Folder folder;
  const ReadExamples none = folder.Read("a.csv", "text\na\n", {.labels = {}});
  REQUIRE(none.rows.size() == 1);
  CHECK(std::isnan(none.rows[0].labels.at(0)));
  const ReadExamples blank = folder.Read("a.tsv", "text\na\n\nb\n", {.labels = {}});
  REQUIRE(blank.rows.size() == 3);
  CHECK(blank.rows[2].row == 3);
  CHECK(blank.counts.empty_texts == 1);
  ExampleSchema optional{.label_names = {"x"}, .labels_optional = true};
  CHECK(std::isnan(folder.Read("a.csv", "text\na\n", optional).rows.at(0).labels.at(0)));
  CHECK(std::isnan(folder.Read("b.csv", "text,label\na,\n", optional).rows.at(0).labels.at(0)));
  CHECK(std::isnan(
      folder.Read("b.jsonl", "{\"text\":\"a\",\"label\":null}\n", optional).rows.at(0).labels[0]));
}

TEST_CASE("a file with some of its labels is no file without labels") {
  const Folder folder;
  ExampleSchema schema{
      .labels = {"x", "y", "3"}, .label_kind = LabelKind::kMultiLabel, .labels_optional = true};
  folder.CheckRefused("a.csv", "text,x,Y,z\na,1,0,1\n", schema, ExitCode::kData,
                      "no column \"y\"; the file has: text, x, Y, z");
  const ReadExamples all = folder.Read("a.csv", "text,x,y,z\na,1,0,1\n", schema);
  REQUIRE(all.status.ok());
  CHECK(all.rows.at(0).labels == std::vector<float>{1.0f, 0.0f, 1.0f});
  schema.labels = {"x", "y"};
  const ReadExamples none = folder.Read("a.csv", "text,z\na,1\n", schema);
  REQUIRE(none.status.ok());
  CHECK(std::isnan(none.rows.at(0).labels.at(0)));
  // Rows may still lack some.
  const ReadExamples part = folder.Read("a.csv", "text,x,y\na,1,\n", schema);
  REQUIRE(part.status.ok());
  CHECK(std::isnan(part.rows.at(0).labels.at(1)));
}

TEST_CASE("empty texts and texts of a megabyte stay, and are counted") {
  const Folder folder;
  const std::string megabyte(1 << 20, 'x');
  const ReadExamples all =
      folder.Read("a.csv", "text,label\n,x\n\"" + megabyte + "\",x\n\"\",y\n", {});
  REQUIRE(all.rows.size() == 3);
  CHECK(all.rows[1].text == megabyte);
  CHECK(all.counts.empty_texts == 2);
}

TEST_CASE("shares of a file are drawn by row and do not overlap") {
  const Folder folder;
  std::string text = "text,label\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + ",x\n";
  ExampleSchema schema{.share = {.begin = 0.0, .end = 0.9, .seed = 4}};
  std::set<int64_t> rows;
  const ReadExamples train = folder.Read("a.csv", text, schema);
  for (const Row& row : train.rows) rows.insert(row.row);
  schema.share = {.begin = 0.9, .end = 1.0, .seed = 4};
  const ReadExamples dev = folder.Read("a.csv", text, schema);
  for (const Row& row : dev.rows) CHECK(rows.insert(row.row).second);
  CHECK(rows.size() == 1000);
  CHECK(dev.rows.size() > 70);
  CHECK(dev.rows.size() < 130);
  schema.max_rows = 5;
  CHECK(folder.Read("a.csv", text, schema).rows.size() == 5);
}

TEST_CASE("classes that are numbers are sorted as numbers, others as text") {
  CHECK(SortedClasses(std::vector<std::string>{"10", "2", "-1"}) == std::vector<int32_t>{2, 1, 0});
  CHECK(SortedClasses(std::vector<std::string>{"b", "10", "2"}) == std::vector<int32_t>{2, 0, 1});
}

TEST_CASE("names of classes fit on a line each") {
  const Folder folder;
  folder.CheckRefused("a.csv", "text,label\na,x\n\"b\n\",\"two\nlines\"\n", {}, ExitCode::kData,
                      "a.csv:3: row 2, column \"label\": \"two\\nlines\" has a line break, tab or");
  folder.CheckRefused("a.jsonl", R"({"text": "a", "label": "x\ty"})", {}, ExitCode::kData,
                      "\"x\\ty\" has a line break, tab or");
  CHECK(folder.Read("a.csv", "text,label\na,\"\tx \n\"\n", {}).classes ==
        std::vector<std::string>{"x"});
  ExampleSchema skip{.bad_rows = BadRows::kSkip, .max_bad_fraction = 1.0};
  CHECK(folder.Read("a.csv", "text,label\na,\"x\ry\"\n", skip)
            .counts.bad.at("control character in a label")
            .rows == 1);
}

TEST_CASE("a column with too many classes is asked about") {
  const Folder folder;
  std::string text = "text,label\n";
  for (int i = 0; i < 10001; ++i) text.append("t,").append(std::to_string(i)).append(".5\n");
  folder.CheckRefused("a.csv", text, {}, ExitCode::kData, "is it a number to regress to?");
}

TEST_CASE("schemas that cannot be are usage errors") {
  const Folder folder;
  const auto refuse = [&](const ExampleSchema& schema, const std::string& part) {
    folder.CheckRefused("a.csv", "text,label\na,1\n", schema, ExitCode::kUsage, part);
  };
  refuse({.text = ""}, "no column of texts");
  refuse({.labels = {"a", "b"}}, "need the kind multi_label");
  refuse({.label_kind = LabelKind::kMultiLabel, .label_names = {"a", "b"}},
         "2 names for 1 columns");
  refuse({.label_names = {"no", "yes", "no"}}, "two labels are named \"no\"; give each");
  refuse({.label_names = {"no", ""}}, "\"\" cannot name a label");
  refuse({.label_names = {"n\no"}}, "\"n\\no\" cannot name a label");
  refuse({.labels = {"a", "b\t"}, .label_kind = LabelKind::kMultiLabel}, "\"b\\t\" cannot name");
  refuse({.threshold = 0.5}, "labels that are numbers");
  refuse({.group_weights = GroupWeights::kFixed}, "weights by groups need groups");
  refuse({.share = {.begin = 0.5, .end = 0.5}}, "the share of rows");
  refuse({.max_bad_fraction = 2}, "max_bad_fraction");
  refuse({.groups = std::vector<std::string>(33, "g")}, "33 groups, at most 32");
}

TEST_CASE("a group that a file with labels lacks is an error") {
  const Folder folder;
  ExampleSchema schema{.label_kind = LabelKind::kMultiLabel, .groups = {"men", "wmoen"}};
  folder.CheckRefused("a.csv", "text,label,men,women\na,1,1,0\n", schema, ExitCode::kData,
                      "no column \"wmoen\"; the file has: text, label, men, women");
  const std::string json = R"({"text": "a", "label": 1, "men": 1})"
                           "\n"
                           R"({"text": "b", "label": 0, "women": 1, "men": null})"
                           "\n";
  folder.CheckRefused("a.jsonl", json, schema, ExitCode::kData, "no row has \"wmoen\"");
  schema.header = false;
  schema.text = "0";
  schema.labels = {"1"};
  folder.CheckRefused("bare.csv", "a,1,1,0\n", schema, ExitCode::kData, "\"men\"");
  schema = {.label_kind = LabelKind::kMultiLabel, .groups = {"men", "women"}};
  const ReadExamples some = folder.Read("a.jsonl", json, schema);
  REQUIRE(some.status.ok());
  CHECK(some.rows.at(0).groups == 1u);
  CHECK(some.rows.at(1).groups == 2u);
  schema.labels_optional = true;
  CHECK(folder.Read("a.csv", "text\na\n", schema).status.ok());
}

std::string JigsawHeader() {
  std::string header =
      "id,target,comment_text,severe_toxicity,obscene,identity_attack,insult,threat";
  for (const std::string_view name : kJigsawIdentities) header.append(",").append(name);
  return header + ",rating\n";
}

// `identities`: nine fields.
std::string JigsawRow(const std::string& id, const std::string& target,
                      const std::string& identities) {
  return id + "," + target + ",\"HPHY76,\nGood " + id + "\",0,0.1,0.2,0.3,0.4," + identities +
         ",approved\n";
}

TEST_CASE("Jigsaw's comments give label, identities and soft targets") {
  const Folder folder;
  const std::string text = JigsawHeader() + JigsawRow("59848", "0.5", "0.5,,,,,,,,1.0") +
                           JigsawRow("59849", "0.499", "0.49,0,0,0,0,0,0,0,NaN");
  const ReadExamples all = folder.Read("train.csv", text, JigsawSchema());
  REQUIRE(all.status.ok());
  REQUIRE(all.rows.size() == 2);
  CHECK(all.rows[0].text == "HPHY76,\nGood 59848");
  CHECK(all.rows[0].id == "59848");
  CHECK(all.rows[0].labels == std::vector<float>{1.0f});
  CHECK(all.rows[0].groups == 0b100000001u);
  CHECK(all.rows[1].labels == std::vector<float>{0.0f});
  CHECK(all.rows[1].groups == 0u);
  CHECK(all.rows[1].weight == 1.0f);
  const ReadExamples soft = folder.Read("train.csv", text, JigsawSchema({.auxiliary = true}));
  CHECK(soft.rows.at(1).labels == std::vector<float>{0.0f, 0.499f, 0.0f, 0.1f, 0.2f, 0.3f, 0.4f});
}

TEST_CASE(
    "Jigsaw's label may be in a column named toxicity, as in the files with all of its labels") {
  const TemporaryFolder files;
  const std::string target = files.Write("a.csv", "id,target,comment_text,toxicity\n");
  const std::string toxicity = files.Write("b.csv", "id,comment_text,toxicity,severe_toxicity\n");
  const std::string neither = files.Write("c.csv", "id,comment_text\n");
  CHECK(JigsawLabelColumn({target, toxicity}) == "target");
  CHECK(JigsawLabelColumn({toxicity}) == "toxicity");
  CHECK(JigsawLabelColumn({neither}) == "target");
  CHECK(JigsawLabelColumn({files.File("missing.csv")}) == "target");
  CHECK(JigsawLabelColumn({}) == "target");
  std::string text = JigsawHeader();
  text.replace(text.find("target"), 6, "toxicity");
  text += JigsawRow("1", "0.7", "0,0,0,0,0,0,0,0,0");
  const Folder folder;
  const ReadExamples soft =
      folder.Read("all.csv", text, JigsawSchema({.label = "toxicity", .auxiliary = true}));
  REQUIRE(soft.status.ok());
  CHECK(soft.rows.at(0).labels == std::vector<float>{1.0f, 0.7f, 0.0f, 0.1f, 0.2f, 0.3f, 0.4f});
}

TEST_CASE("Jigsaw's weights are those of the kernels, or what they meant") {
  const Folder folder;
  const std::string none = "0,0,0,0,0,0,0,0,0";
  const std::string one = "1,0,0,0,0,0,0,0,0";
  const std::string every = "1,1,1,1,1,1,1,1,1";
  std::string text = JigsawHeader();
  for (const std::string& identities : {none, one, every}) {
    text += JigsawRow("p", "1", identities) + JigsawRow("n", "0", identities);
  }
  const auto weights = [&](GroupWeights kind) {
    std::vector<float> all;
    for (const Row& row :
         folder.Read("train.csv", text, JigsawSchema({.group_weights = kind})).rows) {
      all.push_back(row.weight);
    }
    return all;
  };
  CHECK(weights(GroupWeights::kNone) == std::vector<float>(6, 1.0f));
  CHECK(weights(GroupWeights::kKaggle) ==
        std::vector<float>{0.5f, 0.25f, 0.75f, 0.75f, 0.5f, 0.75f});
  CHECK(weights(GroupWeights::kFixed) == std::vector<float>{0.5f, 0.25f, 0.5f, 0.75f, 0.5f, 0.75f});
}

TEST_CASE("Jigsaw's test set has ids and comments alone") {
  const Folder folder;
  const ReadExamples all = folder.Read("test.csv", "id,comment_text\n7000000,\"a\nb\"\n",
                                       JigsawSchema({.labelled = false, .auxiliary = true}));
  REQUIRE(all.status.ok());
  CHECK(all.rows.at(0).id == "7000000");
  CHECK(all.rows[0].labels.size() == 7);
  CHECK(std::isnan(all.rows[0].labels[0]));
  const ReadExamples labelled =
      folder.Read("labelled.csv", "id,comment_text,target,male\n1,a,0.7,1\n2,b,,0\n",
                  JigsawSchema({.labelled = false, .group_weights = GroupWeights::kFixed}));
  REQUIRE(labelled.status.ok());
  CHECK(labelled.rows.at(0).labels[0] == 1.0f);
  CHECK(labelled.rows[0].groups == 1u);
  CHECK(std::isnan(labelled.rows.at(1).labels[0]));
  folder.CheckRefused("x.csv", "id,comment\n1,a\n", JigsawSchema(), ExitCode::kData,
                      "no column \"comment_text\"; the file has: id, comment");
}

TEST_CASE("classes are those of all files, in order, whatever else is wrong with a row") {
  const TemporaryFolder folder;
  const ExampleSchema schema;
  const auto classes = ClassesOf({folder.Write("a.tsv", "text\tlabel\nx\t10\ny\t2\n"),
                                  folder.Write("b.tsv", "text\tlabel\nz\t7\nbroken\nw\t2\n")},
                                 schema);
  REQUIRE(classes.ok());
  CHECK(*classes == std::vector<std::string>{"2", "7", "10"});
  CHECK(ClassesOf({folder.File("none.tsv")}, schema).status().code() == ExitCode::kData);
}

struct GlueCase {
  const char* task;
  const char* split;
  const char* text;  // of the file
  Row expected;
};

TEST_CASE("all tasks of GLUE are read from their own columns") {
  const auto c = GENERATE(
      GlueCase{"CoLA",
               "dev",
               "gj04\t1\t\tThe \"car\" runs.\n",
               {"The \"car\" runs.", "", "", {1}, 1, 0, 1}},
      GlueCase{"cola", "test", "index\tsentence\n7\tA b.\n", {"A b.", "", "7", {}, 1, 0, 1}},
      GlueCase{"SST-2",
               "train",
               "sentence\tlabel\nfine film \t1\n",
               {"fine film ", "", "", {1}, 1, 0, 1}},
      GlueCase{"sst2", "test", "index\tsentence\n0\tx\n", {"x", "", "0", {}, 1, 0, 1}},
      GlueCase{
          "mrpc",
          "dev",
          "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tHe said \"x.\tShe.\n",
          {"He said \"x.", "She.", "", {0}, 1, 0, 1}},
      GlueCase{"mrpc",
               "test",
               "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n4\t1\t2\ta\tb\n",
               {"a", "b", "4", {}, 1, 0, 1}},
      GlueCase{
          "sts-b",
          "dev",
          "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
          "3\tg\tf\ty\to\ts\ts\ta\tb\t3.25\n",
          {"a", "b", "3", {3.25f}, 1, 0, 1}},
      GlueCase{"qqp",
               "train",
               "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n9\t1\t2\ta?\tb?\t1\n",
               {"a?", "b?", "9", {1}, 1, 0, 1}},
      GlueCase{
          "qqp", "test", "id\tquestion1\tquestion2\n9\ta?\tb?\n", {"a?", "b?", "9", {}, 1, 0, 1}},
      GlueCase{"mnli",
               "dev_mismatched",
               "index\tpromptID\tpairID\tgenre\tp1\tp2\tp3\tp4\tsentence1\tsentence2\tlabel1\tgold_"
               "label\n"
               "5\t1\t2\tg\tx\tx\tx\tx\tA.\tB.\tentailment\tneutral\n",
               {"A.", "B.", "5", {2}, 1, 0, 1}},
      GlueCase{"qnli",
               "dev",
               "index\tquestion\tsentence\tlabel\n0\tq\ts\tentailment\n",
               {"q", "s", "0", {0}, 1, 0, 1}},
      GlueCase{"rte",
               "train",
               "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tnot_entailment\n",
               {"a", "b", "0", {1}, 1, 0, 1}},
      GlueCase{"wnli",
               "dev",
               "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t0\n",
               {"a", "b", "0", {0}, 1, 0, 1}});
  INFO(c.task << " " << c.split);
  const TemporaryFolder dir;
  const GlueTask task = *FindGlueTask(c.task);
  const GlueSplit split = *GlueSplitOf(task, c.split, dir.path());
  CHECK(split.path == dir.File(std::string(c.split) + ".tsv"));
  WriteTestFile(split.path, c.text);
  const ReadExamples all = ReadAll(split.path, split.schema);
  INFO(all.status.message());
  REQUIRE(all.rows.size() == 1);
  const Row& row = all.rows[0];
  CHECK(row.text == c.expected.text);
  CHECK(row.pair == c.expected.pair);
  CHECK(row.id == c.expected.id);
  if (c.expected.labels.empty()) {
    CHECK(std::isnan(row.labels.at(0)));
  } else {
    CHECK(row.labels == c.expected.labels);
  }
}

TEST_CASE("short rows of QQP are left out and counted, others and those to predict are errors") {
  const TemporaryFolder dir;
  const GlueSplit split = *GlueSplitOf(*FindGlueTask("QQP"), "train", dir.path());
  std::string text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
  for (int i = 0; i < 200; ++i) text += "1\t2\t3\ta\tb\t0\n";
  WriteTestFile(split.path, text + "1\t2\t3\ta\n");
  const ReadExamples all = ReadAll(split.path, split.schema);
  CHECK(all.status.ok());
  CHECK(all.rows.size() == 200);
  CHECK(all.counts.bad.at("wrong number of fields").rows == 1);
  WriteTestFile(split.path, text + "1\t2\t3\ta\tb\tmaybe\n");
  CHECK_THAT(
      std::string(ReadAll(split.path, split.schema).status.message()),
      Catch::Contains("row 201, column \"is_duplicate\": \"maybe\" is not one of the labels"));
  const GlueSplit test = *GlueSplitOf(*FindGlueTask("QQP"), "test", dir.path());
  WriteTestFile(test.path, "id\tquestion1\tquestion2\n9\ta?\n");
  CHECK_THAT(std::string(ReadAll(test.path, test.schema).status.message()),
             Catch::Contains("row 1, column \"question2\": only 2 fields") &&
                 Catch::Contains("(bad_rows=skip"));
}

TEST_CASE("rows of MNLI without a gold label are left out and counted, however many they are") {
  const TemporaryFolder dir;
  const GlueTask task = *FindGlueTask("MNLI");
  const std::string row = "1\t1\t1\tg\tb\tb\tp\tp\tHe said \"no\tShe did.\tneutral\t";
  std::string text =
      "index\tpromptID\tpairID\tgenre\ts1b\ts2b\ts1p\ts2p\tsentence1\tsentence2\tlabel1\t"
      "gold_label\n";
  for (int i = 0; i < 4; ++i) text += row + "-\n" + row + "neutral\n";
  for (const char* const split : {"train", "dev"}) {
    const GlueSplit glue = *GlueSplitOf(task, split, dir.path());
    WriteTestFile(glue.path, text);
    const ReadExamples all = ReadAll(glue.path, glue.schema);
    REQUIRE(all.status.ok());
    CHECK(all.rows.size() == 4);
    CHECK(all.counts.no_label == 4);
    CHECK(all.counts.bad.at("no gold label").rows == 4);
    WriteTestFile(glue.path, text + row + "maybe\n");
    CHECK_THAT(
        std::string(ReadAll(glue.path, glue.schema).status.message()),
        Catch::Contains("\"maybe\" is not one of the labels: contradiction, entailment, neutral, "
                        "which are those of GLUE's mnli") &&
            !Catch::Contains("data.label_names"));
  }
}

TEST_CASE("labels that are spelt in two ways are said to be, not called unknown") {
  CHECK(SimilarityOfLabels("0", "0.0") == "the same number");
  CHECK(SimilarityOfLabels("1e1", "10") == "the same number");
  CHECK(SimilarityOfLabels("0", "1").empty());
  CHECK(SimilarityOfLabels("Yes", "yes") == "the same but for capitals or spaces");
  CHECK(SimilarityOfLabels("\xC3\x84rger\xC2\xA0", "\xC3\xA4rger") ==
        "the same but for capitals or spaces");
  CHECK(SimilarityOfLabels("no", "yes").empty());
  CHECK(SimilarityOfLabels("no", "no").empty());
  const Folder folder;
  folder.CheckRefused(
      "a.csv", "text,label\na,0\n", {.label_names = {"0.0", "1.0"}}, ExitCode::kData,
      "\"0\" is not one of the labels: 0.0, 1.0; \"0\" and \"0.0\" are the same number: "
      "spell the label alike in all files (bad_rows");
  folder.CheckRefused("a.csv", "text,label\na,ev\x1b[2Jil\n", {.label_names = {"no", "yes"}},
                      ExitCode::kData, "\"ev\\x1b[2Jil\" has a line break, tab or other control");
}

TEST_CASE("texts without a visible character count as empty") {
  const Folder folder;
  CHECK(folder.Read("a.csv", "text,label\n\xC2\xA0,x\n\t,y\na,x\n", {}).counts.empty_texts == 2);
}

TEST_CASE(
    "bytes that are no text are replaced where that is wanted, and a warning counts the rows") {
  const Folder folder;
  const std::string text = "text,label\na\xFF,x\nb,y\n\xFF\xFF,x\n";
  folder.CheckRefused("a.csv", text, {}, ExitCode::kData,
                      "a.csv:2: row 1, column \"text\": invalid");
  const ReadExamples all = folder.Read("a.csv", text, {.invalid = InvalidText::kReplace});
  REQUIRE(all.status.ok());
  CHECK(all.rows.at(2).text == "\uFFFD\uFFFD");
  REQUIRE(all.counts.warnings.size() == 1);
  CHECK_THAT(all.counts.warnings[0],
             Catch::Contains("a.csv: 2 rows have bytes that are not UTF-8, shown as U+FFFD (the "
                             "first: ") &&
                 Catch::EndsWith("a.csv:2: row 1)"));
}

TEST_CASE("MNLI has matched and mismatched sets, either first") {
  const GlueTask mnli = *FindGlueTask("MNLI");
  CHECK(GlueSplitOf(mnli, "dev", "d")->path == "d/dev_matched.tsv");
  CHECK(GlueSplitOf(mnli, "train", "d")->path == "d/train.tsv");
  CHECK(GlueSplitOf(mnli, "test_mismatched", "d")->path == "d/test_mismatched.tsv");
  const GlueTask mismatched = *FindGlueTask("mnli-mm");
  CHECK(GlueSplitOf(mismatched, "dev", "d")->path == "d/dev_mismatched.tsv");
  CHECK(FindGlueTask("sts_b")->metrics == std::vector<std::string>{"pearson", "spearman"});
}

TEST_CASE("unknown tasks and splits are usage errors with what there is") {
  const Status task = FindGlueTask("sst-5").status();
  CHECK(task.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(task.message()),
             Catch::Contains("no GLUE task \"sst-5\"; the tasks are cola"));
  const Status split = GlueSplitOf(*FindGlueTask("rte"), "valid", "d").status();
  CHECK(split.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(split.message()), Catch::Contains("its splits are train, dev, test"));
}

}  // namespace
}  // namespace dtrain
