// trained_classifier_test.cc - whose texts and labels a trained classifier is used with.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/internal/trained_classifier.h"

#include <string>

#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "tasks/classification/saved_classifier.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

// A run with this data section and these labels, used with what `user` says of its data section.
StatusOr<TrainedClassifier> Use(const std::string& data, const std::string& labels,
                                const std::string& user) {
  const testing::SavedRun run(testing::SmallConfig(data), labels);
  proto::ClassificationConfig config;
  REQUIRE(MergeConfigText("data { " + user + " }", "user", "", config).ok());
  config.mutable_predict()->set_checkpoint(run.folder.File("ckpt"));
  return OpenTrainedClassifier(config);
}

std::string RefusalOf(const std::string& data, const std::string& labels, const std::string& user) {
  const Status status = Use(data, labels, user).status();
  CHECK(status.code() == ExitCode::kUsage);
  return std::string(status.message());
}

constexpr const char* kToxic = "toxic\ninsult\n";
constexpr const char* kMulti = "labels: multi label: 'toxic' label: 'insult'";

TEST_CASE("labels stay of the kind that the weights were trained with, whatever texts come") {
  using Data = proto::ClassificationDataConfig;
  const auto values =
      Use("glue: 'sts-b' glue_dir: '/glue'", "", "test: '/new.tsv' text_pair: 'other'");
  REQUIRE(values.ok());
  CHECK(values->label_kind == LabelKind::kValue);
  CHECK(values->config->data().labels() == Data::value);

  const auto jigsaw = Use("jigsaw: true weights: kaggle jigsaw_auxiliary: true", kToxic,
                          "jigsaw: false test: '/new.tsv'");
  INFO(std::string(jigsaw.status().message()));
  REQUIRE(jigsaw.ok());
  CHECK(jigsaw->label_kind == LabelKind::kMultiLabel);
  CHECK(jigsaw->config->data().labels() == Data::multi);
  CHECK(jigsaw->config->data().label_size() == 2);

  CHECK_THAT(RefusalOf(kMulti, kToxic, "labels: classes"),
             Catch::Contains("labels are of the kind multi, those of the texts are classes by "
                             "data.labels; leave it out"));
  CHECK_THAT(RefusalOf("", "a\nb\n", "glue: 'sts-b' glue_dir: '/glue'"),
             Catch::Contains("of the kind classes, those of the texts are value by data.glue"));
}

TEST_CASE("columns of labels may have other names, not another order") {
  CHECK(Use(kMulti, kToxic, "label: 'x' label: 'y' test: '/new.tsv'").ok());
  CHECK(Use(kMulti, kToxic, "label: 'toxic' label: 'y' test: '/new.tsv'").ok());
  CHECK_THAT(RefusalOf(kMulti, kToxic, "label: 'insult' label: 'toxic'"),
             Catch::Contains("data.label has \"insult\" as its column 1, the checkpoint as its "
                             "label 2: give the columns in the order of its labels, toxic, "
                             "insult"));
  CHECK(Use("", "a\nb\n", "label_names: 'a' label_names: 'b'").ok());
  CHECK_THAT(RefusalOf("", "a\nb\n", "label_names: 'a' label_names: 'b' label_names: 'c'"),
             Catch::Contains("data.label_names: the checkpoint's labels are a, b; leave it out"));
}

TEST_CASE("columns of a GLUE task's own files are refused when it is used, too") {
  const std::string glue = "glue: 'mrpc' glue_dir: '/glue'";
  CHECK_THAT(RefusalOf(glue, "0\n1\n", "text: 'foo'"),
             Catch::Contains("data.text is set, but data.glue"));
  CHECK(Use("glue: 'sst-2' glue_dir: '/glue'", "0\n1\n", "text: 'foo' test: '/new.tsv'").ok());
}

TEST_CASE("a model of a GLUE task's pairs asks for the second text's column of other texts") {
  const std::string glue = "glue: 'mrpc' glue_dir: '/glue'";
  CHECK_THAT(RefusalOf(glue, "0\n1\n", "test: '/new.tsv'"),
             Catch::StartsWith("data.text_pair is not set, and ") &&
                 Catch::EndsWith("was trained on pairs of texts (data.glue=mrpc); name the column "
                                 "of the second text, or give data.text_pair= for single texts"));
  const auto pairs = Use(glue, "0\n1\n", "text_pair: 'other' test: '/new.tsv'");
  REQUIRE(pairs.ok());
  CHECK(pairs->config->data().text_pair() == "other");
  CHECK(Use(glue, "0\n1\n", "text_pair: '' test: '/new.tsv'").ok());
  CHECK(Use(glue, "0\n1\n", "glue: 'rte' glue_dir: '/glue'").ok());
  CHECK(Use(glue, "0\n1\n", "").ok());
}

TEST_CASE("a GLUE task and Jigsaw take the place of the run's columns") {
  const auto glue = Use("text: 'foo' weight: 'w' label: 'y' label_names: 'a' label_names: 'b'",
                        "a\nb\n", "glue: 'sst-2' glue_dir: '/glue'");
  INFO(std::string(glue.status().message()));
  REQUIRE(glue.ok());
  CHECK(glue->config->data().weight().empty());
  const auto jigsaw = Use("labels: multi text: 'foo' label: 'toxic' id: 'n'", "toxic\n",
                          "jigsaw: true test: '/new.csv'");
  INFO(std::string(jigsaw.status().message()));
  CHECK(jigsaw.ok());
}

TEST_CASE("names of labels are their columns only where those were Jigsaw's") {
  const auto own = Use("labels: multi label_names: 'toxic'", "toxic\n", "test: '/new.tsv'");
  REQUIRE(own.ok());
  CHECK(own->config->data().label_size() == 0);
}

}  // namespace
}  // namespace dtrain
